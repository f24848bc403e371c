"""What is wrong with the loss itself: it does not fit the targets, says nothing, or has the wrong sign."""

import torch

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.mends import with_loss_fn
from labkit.doctor.trial import validation_score

#: What follows from an objective that does not fit, and is not to be mended by itself.
EXPLAINS = (
    "lr_too_low",
    "lr_too_high",
    "vanishing_gradient",
    "model_too_weak",
    "dead_units",
    "wrong_loss",
    "metric_wrong",
    "zero_grad_misplaced",
)


def likelihood_of_what(evidence: Evidence) -> Finding | None:
    """A loss that wants log-probabilities gets something else."""
    loss, outputs = evidence.objective.loss, evidence.objective.outputs
    if loss is None or not loss.linear or outputs.log_sums_to_one or outputs.low is None:
        return None
    probabilities = outputs.sums_to_one is not None
    return Finding(
        "output_activation_mismatch" if probabilities else "wrong_loss",
        "fail",
        "The loss is minus the output of the right class, and exp(outputs) does not sum to 1"
        + (
            ": the outputs themselves do."
            if probabilities
            else f": outputs go from {outputs.low:.3g} to {outputs.high:.3g}."
        ),
        "Without log_softmax this loss has no floor: it is enough to make all outputs larger.",
        "loss_fn = nn.CrossEntropyLoss()   # takes logits\n# or: F.nll_loss(F.log_softmax(logits, dim=1), targets)",
        "the loss is never below 0",
        "05",
        weight=7,
        explains=("lr_too_high", "wrong_loss", "loss_scaling", "output_activation_mismatch"),
    )


def no_floor(evidence: Evidence) -> Finding | None:
    """The loss falls without limit: the targets are not what it takes."""
    loss, outputs = evidence.objective.loss, evidence.objective.outputs
    if loss is None or loss.falls is None or loss.linear or outputs.log_sums_to_one or outputs.low is None:
        return None
    if outputs.high - outputs.low < 50 or _reversed(evidence) or not loss.values or loss.values == [0, 1]:
        return None
    two = len(loss.values) == 2
    if not two and not all(value == int(value) for value in loss.values):
        return None
    shown = ", ".join(f"{value:g}" for value in loss.values[:6])
    fix = (
        "targets = (targets > 0).float()   # 0 and 1"
        if two
        else "loss_fn = nn.CrossEntropyLoss()   # takes class numbers"
    )
    return Finding(
        "label_encoding" if two else "wrong_loss",
        "fail",
        f"Outputs of size 1000 give a loss of {loss.falls:.3g}, of 2000 twice that: it has no floor. The "
        f"targets are {shown}.",
        "The binary cross-entropy takes targets between 0 and 1; for others a larger output is always better.",
        fix,
        "the loss is never below 0",
        "05",
        mend=with_loss_fn(_zero_and_one) if two else None,
        weight=7,
        explains=("lr_too_high", "wrong_loss", "label_encoding", "loss_scaling"),
    )


def _zero_and_one(loss_fn, outputs, targets):
    return loss_fn(outputs, (targets > targets.double().mean()).to(targets.dtype))


def several_classes(evidence: Evidence) -> Finding | None:
    """A softmax chooses one class, and the targets mark several."""
    loss = evidence.objective.loss
    if loss is None or loss.shift != 1 or not loss.several or loss.several < 0.05:
        return None
    return Finding(
        "wrong_loss",
        "fail",
        f"The loss takes a softmax over {loss.outputs[1]} classes, and {100 * loss.several:.0f} % of the samples have "
        "none or several of them.",
        "The chances of a softmax sum to 1: where two labels hold, each can get one half at most.",
        "loss_fn = nn.BCEWithLogitsLoss()   # one yes or no for each label",
        "targets.sum(1) is 1 in every row, or the loss looks at each label alone",
        "05",
        mend=with_loss_fn(_chances),
        weight=7,
        explains=("model_too_weak", "lr_too_low"),
    )


def numbers_of_classes(evidence: Evidence) -> Finding | None:
    """Class numbers are predicted as if they were amounts."""
    loss, scores = evidence.objective.loss, evidence.evaluation.scores
    if loss is None or not loss.regression or not evidence.objective.whole_targets or not loss.values:
        return None
    few = 3 <= len(loss.values) <= 19 and all(value == int(value) >= 0 for value in loss.values)
    rounds = scores.right == scores.narrow == 1 and scores.wrong == 0
    if not few or not rounds:
        return None
    return Finding(
        "wrong_loss",
        "fail",
        f"The loss is that of a difference of class numbers ({loss.values[0]:g} to {loss.values[-1]:g}); "
        "the score counts which of them are hit.",
        "It says that class 9 is more than class 1 and close to 8, and where the network cannot tell, it says "
        "the mean.",
        f"model = ...  # {len(loss.values)} outputs, one for each class\nloss_fn = nn.CrossEntropyLoss()",
        "the outputs have the shape (batch, classes)",
        "05",
        weight=6,
        explains=("lr_too_low", "model_too_weak"),
    )


def same_for_all(evidence: Evidence) -> Finding | None:
    """The loss is the same for whatever outputs."""
    loss = evidence.objective.loss
    if loss is None or not loss.constant or evidence.objective.outputs.same:
        return None
    return Finding(
        "wrong_loss",
        "fail",
        f"The loss is {loss.value:.3g} for whatever outputs of shape {loss.outputs}.",
        "A softmax over a single output is always 1, and an argmax has no gradient: there is nothing to learn.",
        "loss_fn = nn.BCEWithLogitsLoss()   # for one output\nloss = loss_fn(outputs.squeeze(1), targets.float())",
        "the loss changes when the outputs do",
        "05",
        weight=9,
        explains=(*EXPLAINS, "graph_detached"),
    )


def never(evidence: Evidence) -> Finding | None:
    """The best answer for a loss is "no" everywhere, and one that counts chances does better."""
    loss, outputs = evidence.objective.loss, evidence.objective.outputs
    if loss is None or not loss.never or outputs.high is None:
        return None
    bounded = outputs.low >= 0 and outputs.high <= 1
    return Finding(
        "wrong_loss",
        "warn",
        "Among answers that are the same everywhere, a certain no has the lowest loss, although some targets are yes.",
        "An absolute error asks for the median, and where yes is rare the median is no.",
        f"loss_fn = nn.{'BCELoss' if bounded else 'BCEWithLogitsLoss'}()",
        "some outputs say yes after a few epochs",
        "05",
        mend=with_loss_fn(_chances),
        confirm=True,
        judge=validation_score,
        weight=3,
        explains=("lr_too_low",),
    )


def _chances(_, outputs, targets):
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
    return cross_entropy(outputs, targets.reshape(outputs.shape).to(outputs.dtype))


def _reversed(evidence: Evidence) -> bool:
    """Say whether a right answer costs more than a wrong one."""
    loss = evidence.objective.loss
    if loss is None or loss.right is None or loss.wrong is None:
        return False
    return loss.right > loss.wrong + 0.05 * max(abs(loss.wrong), abs(loss.right))


def wrong_sign(evidence: Evidence) -> Finding | None:
    """A right answer costs more than a wrong one, and the score says that it is right."""
    loss, seen = evidence.objective.loss, evidence.evaluation
    if not _reversed(evidence) or not seen.better_is_higher or loss.unpaired:
        return None
    return Finding(
        "loss_scaling",
        "fail",
        f"Outputs that are right in every sample have a loss of {loss.right:.3g}, outputs that are wrong "
        f"{loss.wrong:.3g}.",
        "The optimizer makes the loss small, and with it the answers wrong: the sign is the other way round.",
        "loss = -log_likelihood.mean()   # or: 1 - overlap",
        "outputs made from the targets have the lowest loss there is",
        "05",
        mend=with_loss_fn(lambda loss_fn, outputs, targets: -loss_fn(outputs, targets)),
        weight=8,
        explains=("wrong_loss", "lr_too_high", "label_encoding", "label_misaligned", "metric_wrong"),
    )


RULES = [
    likelihood_of_what,
    no_floor,
    several_classes,
    numbers_of_classes,
    same_for_all,
    never,
    wrong_sign,
]
