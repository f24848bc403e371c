"""What is wrong with the objective: the last activation does not fit the loss or the targets."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.probe.objective_loss import floor_of_bounded
from labkit.doctor.rules import objective_classes, objective_losses, objective_numbers, objective_shapes
from labkit.doctor.rules.mends import logarithm, logit, with_loss, with_outputs
from labkit.doctor.rules.objective_losses import EXPLAINS
from labkit.doctor.trial import validation_score


def _mismatch(what: str, why: str, fix: str, verify: str, weight: float = 7, **more) -> Finding:
    fault = "output_activation_mismatch"
    return Finding(fault, "fail", what, why, fix, verify, "05", weight=weight, explains=EXPLAINS, **more)


def softmax_twice(evidence: Evidence) -> Finding | None:
    """The outputs are probabilities already, and the loss takes a softmax of them."""
    loss, outputs = evidence.objective.loss, evidence.objective.outputs
    if loss is None or loss.shift is None or outputs.sums_to_one != loss.shift:
        return None
    classes = loss.outputs[loss.shift]
    return _mismatch(
        f"The outputs are at least 0 and sum to 1 over dimension {loss.shift}, and the loss takes a softmax of them "
        f"again: with {classes} classes it cannot fall below {floor_of_bounded(classes, 1.0):.4f}.",
        "A softmax of probabilities is nearly flat, whatever the network says, and so are its gradients.",
        f"# no softmax at the end of the model (after {outputs.layer}): the loss wants logits\n"
        "probabilities = model(inputs).softmax(dim=1)   # only where you read them",
        "outputs.sum(1) is not 1 in every row",
        mend=with_loss(logarithm),
    )


def squashed_before_softmax(evidence: Evidence) -> Finding | None:
    """The outputs of a softmax loss are held between 0 and 1, or cannot be negative."""
    loss, outputs = evidence.objective.loss, evidence.objective.outputs
    if loss is None or loss.shift is None or outputs.low is None or outputs.sums_to_one is not None:
        return None
    classes = loss.outputs[loss.shift]
    if outputs.low >= 0 and 0.5 < outputs.high <= 1:
        what = (
            f"With the outputs of {outputs.layer} multiplied by 1000 the loss still gets values between "
            f"{outputs.low:.3g} "
            f"and {outputs.high:.3g}: with {classes} classes it cannot fall below {floor_of_bounded(classes, 1.0):.3f}."
        )
        activation = "sigmoid"
    elif outputs.low == 0 and outputs.zeros > 0.02 and outputs.high > 1:
        what = (
            f"No output is below 0, with the outputs of {outputs.layer} multiplied by 1000 or by -1000, "
            f"and {100 * outputs.zeros:.0f} % of them are exactly 0."
        )
        activation = "ReLU"
    else:
        return None
    return _mismatch(
        what,
        "A softmax wants logits, which may be any numbers; where they are cut off there is no gradient.",
        f"# no {activation} after {outputs.layer}: return its outputs as they are",
        "outputs.min() is below 0 for some batch",
        mend=with_outputs(logit) if activation == "sigmoid" else None,
        instead=((with_loss(logit), ""),),
        judge=validation_score,
    )


def narrow_before_softmax(evidence: Evidence) -> Finding | None:
    """The outputs of a softmax loss are held between -1 and 1, and wider ones do better."""
    loss, outputs = evidence.objective.loss, evidence.objective.outputs
    if loss is None or loss.shift is None or outputs.low is None or outputs.sums_to_one is not None:
        return None
    width = outputs.high - outputs.low
    if not (-1.001 <= outputs.low < 0 < outputs.high <= 1.001 and width > 1):
        return None
    classes = loss.outputs[loss.shift]
    finding = _mismatch(
        f"The outputs stay between {outputs.low:.3g} and {outputs.high:.3g} whatever {outputs.layer} returns: with "
        f"{classes} classes the loss cannot fall below {floor_of_bounded(classes, width):.3f}.",
        "A softmax of numbers that are so close to each other is never sure of anything.",
        f"# no tanh after {outputs.layer}; or, for cosines: logits = cosines / 0.1",
        "the outputs grow in the course of training",
        mend=with_loss(lambda tensor: 10 * tensor),
        confirm=True,
    )
    finding.severity = "warn"
    return finding


def squashed_before_logits(evidence: Evidence) -> Finding | None:
    """The outputs are probabilities, or cannot be negative, and the loss takes a sigmoid of them."""
    loss, outputs = evidence.objective.loss, evidence.objective.outputs
    if loss is None or not loss.logistic or outputs.low is None or outputs.low < 0 or outputs.high <= 0.5:
        return None
    if outputs.high > 1 and not (outputs.low == 0 and outputs.zeros > 0.02):
        return None
    reach = f"between {outputs.low:.3g} and {outputs.high:.3g}" if outputs.high <= 1 else "at 0 or above"
    return _mismatch(
        f"With the outputs of {outputs.layer} multiplied by 1000 or -1000 the loss still gets values {reach}, "
        "and takes "
        "a sigmoid of them: a probability below 0.5 is impossible.",
        "The loss wants logits: every negative answer costs at least 0.69, however sure the network is.",
        f"# return the outputs of {outputs.layer} as they are\n"
        "probabilities = torch.sigmoid(model(inputs))   # only where you read them",
        "outputs.min() is below 0 for some batch",
        mend=with_outputs(logit) if outputs.high <= 1 else None,
        instead=((with_loss(logit), ""),),
        judge=validation_score,
    )


def one_column(evidence: Evidence) -> Finding | None:
    """Every output is exactly 1: a softmax over a single number."""
    loss, outputs = evidence.objective.loss, evidence.objective.outputs
    if loss is None or not outputs.same or outputs.low != 1.0:
        return None
    return _mismatch(
        f"Every output is exactly 1, with the outputs of {outputs.layer} multiplied by 1000 and by -1000 as well.",
        "A softmax over a single number is 1: there is nothing to learn.",
        "nn.Sigmoid()   # in place of nn.Softmax(dim=1) behind one output",
        "two different inputs give two different outputs",
        weight=9,
    )


def out_of_reach(evidence: Evidence) -> Finding | None:
    """The last activation cannot give the values that the targets have."""
    loss, outputs = evidence.objective.loss, evidence.objective.outputs
    if loss is None or not loss.regression or outputs.beyond is None or outputs.beyond < 0.02 or outputs.same:
        return None
    if not _usual_range(outputs.low, outputs.high):
        return None  # limits of the user's own are meant
    return _mismatch(
        f"The outputs stay within {outputs.low:.3g} and {outputs.high:.3g} whatever {outputs.layer} returns; "
        f"{100 * outputs.beyond:.0f} % of the targets, which go from {outputs.lowest:.3g} to "
        f"{outputs.highest:.3g}, lie outside.",
        "No weights can give a value that the last activation does not have.",
        f"# no activation after {outputs.layer}, or targets scaled to what it can give",
        "outputs.min() and outputs.max() reach as far as the targets",
    )


def _usual_range(low: float, high: float) -> bool:
    """Say whether values lie in the range of a usual activation: a sigmoid's, a tanh's or a rectifier's."""
    near_zero, near_one = abs(low) < 0.01, abs(high - 1) < 0.01
    return (near_one and (near_zero or abs(low + 1) < 0.01)) or (low == 0 and high > 0)


RULES = [
    softmax_twice,
    squashed_before_softmax,
    narrow_before_softmax,
    squashed_before_logits,
    one_column,
    out_of_reach,
    *objective_losses.RULES,
    *objective_classes.RULES,
    *objective_shapes.RULES,
    *objective_numbers.RULES,
]
