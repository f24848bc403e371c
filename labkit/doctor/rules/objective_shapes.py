"""What is wrong with the shapes and the size of the loss, and with the step that is predicted."""

from collections.abc import Callable

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.program import Program
from labkit.doctor.rules.batch_mends import in_one_shape
from labkit.doctor.rules.mends import first_output_only, scaled_loss, with_loss_fn
from labkit.doctor.trial import validation_score


def _broadcast(what: str, fix: str, mend: Callable[[Program], None] | None = None) -> Finding:
    return Finding(
        "shape_broadcast",
        "fail",
        what,
        "Broadcasting then compares every output with every target, and the best answer is the mean of all targets.",
        fix,
        "outputs.shape == targets.shape",
        "05",
        weight=9.6,
        explains=(
            "axis_mixup",
            "lr_too_low",
            "lr_too_high",
            "model_too_weak",
            "loss_scaling",
            "label_misaligned",
            "metric_wrong",
        ),
        mend=mend,
    )


def every_pair(evidence: Evidence) -> Finding | None:
    """The loss does not care to which sample a target belongs."""
    loss = evidence.objective.loss
    if loss is None or not (loss.unpaired or loss.unpaired_column is not None):
        return None
    if loss.unpaired:
        return _broadcast(
            f"Outputs have the shape {loss.outputs}, targets {loss.targets}, and the loss stays {loss.value:.4g} when "
            "the targets are given to other samples.",
            "loss = loss_fn(outputs.squeeze(1), targets)   # (N,) and (N,)",
            mend=with_loss_fn(in_one_shape),
        )
    return _broadcast(
        f"The loss stays {loss.value:.4g} when column {loss.unpaired_column} of the targets {loss.targets} is given to "
        "other samples.",
        f"column = targets[:, {loss.unpaired_column}]   # (N,), as the losses of the samples are; not (N, 1)",
    )


def every_sample_with_every_other(evidence: Evidence) -> Finding | None:
    """The model gives each sample as many outputs as there are samples."""
    loss = evidence.objective.loss
    if loss is None or not evidence.objective.outputs.grows:
        return None
    return _broadcast(
        f"The outputs have the shape {loss.outputs}, and with one sample less ({loss.outputs[0] - 1}, "
        f"{loss.outputs[1] - 1}): in the model (N,) and (N, 1) are added.",
        "x = self.out(x).squeeze(1)   # (N,), before it meets another (N,)",
    )


def unscaled_loss(program: Program) -> float:
    """The validation score."""
    return validation_score(program)


def wrong_size(evidence: Evidence) -> Finding | None:
    """The loss grows or shrinks with the size of the batch, and one that does not does better."""
    seen = evidence.objective
    if seen.loss is None or seen.batch is None or seen.batch < 2:
        return None
    number = seen.batch
    if seen.loss.doubled is not None and abs(seen.loss.doubled - 2) < 0.02:
        factor, what = 1 / number, "twice as large when every sample comes twice: it is a sum over the batch"
    elif seen.loss.doubled is not None and abs(seen.loss.doubled - 0.5) < 0.01:
        factor, what = number, "half as large when every sample comes twice: a mean is divided by the batch size again"
    elif (
        seen.weight_of_batch is not None
        and set(evidence.updates.windows) == {1}
        and abs(seen.weight_of_batch * number - 1) < 1e-3
    ):
        factor, what = (
            number,
            f"divided by {number} before `backward`, and it is a mean over the {number} samples already",
        )
    else:
        return None
    return Finding(
        "loss_scaling",
        "warn",
        f"The loss is {what}.",
        "The gradients have another size than the learning rate is made for, and it changes with the batch.",
        "loss = losses.mean()   # once",
        "the loss of a batch is the same when every sample comes twice",
        "05",
        mend=scaled_loss(factor),
        confirm=True,
        judge=unscaled_loss,
        weight=4,
        explains=("lr_too_high", "lr_too_low"),
    )


def heavy_penalty(evidence: Evidence) -> Finding | None:
    """What is added to the loss of the task is many times larger than it."""
    loss = evidence.objective.loss
    if loss is None or loss.penalty is None or loss.task is None or not loss.penalty > 5 * abs(loss.task):
        return None
    return Finding(
        "loss_scaling",
        "warn",
        f"Of the loss {loss.task + loss.penalty:.3g} the task is {loss.task:.3g}; {loss.penalty:.3g} come from "
        "the other outputs.",
        "The optimizer works on the larger part and gives up the task for it.",
        f"loss = task + {loss.task / loss.penalty / 10:.1g} * penalty",
        "print both parts of the loss: the task is the larger one",
        "05",
        mend=first_output_only,
        confirm=True,
        judge=validation_score,
        weight=5,
        explains=("dead_units", "lr_too_high"),
    )


def sees_what_it_predicts(evidence: Evidence) -> Finding | None:
    """The output that shall give a letter can see that very letter."""
    seen = evidence.objective.sequences
    if seen.lead is None or not seen.causal:
        return None
    if seen.lead >= 2 and seen.in_loss >= 1 and seen.in_data >= 1:
        what = (
            f"The targets are shifted by {seen.in_data} in the data and by {seen.in_loss} more in the loss: "
            f"each output learns what comes {seen.lead} places later."
        )
        fix = "loss = F.cross_entropy(outputs.flatten(0, 1), targets.flatten())   # the data are shifted already"
    elif seen.lead <= 0 and seen.sees:
        place = "the input at its own place" if seen.lead == 0 else f"the input {-seen.lead} places before"
        what = (
            f"The target of each output is {place}, which the model has just read: changing that input changes "
            "the output."
        )
        fix = "inputs, targets = text[:, :-1], text[:, 1:]   # the next one"
    else:
        return None
    return Finding(
        "target_shift",
        "note" if seen.lead < 0 else "fail",  # to remember what came before can be the task
        what,
        "To copy an input is easy and teaches nothing about what comes next.",
        fix,
        "targets[:, 0] is inputs[:, 1]",
        "05",
        weight=7,
    )


def target_in_the_window(evidence: Evidence) -> Finding | None:
    """The target of a window in time is one of its values."""
    seen = evidence.objective.sequences
    if seen.column is None or not seen.alike:
        return None
    return Finding(
        "target_shift",
        "fail",
        f"In every sample the target is the value at place {seen.column} of the {seen.columns} of its window.",
        "The answer stands in the input: what is learned is to copy it, and not what comes next.",
        "inputs, targets = series[i : i + n], series[i + n]   # the value after the window",
        "no column of the inputs is equal to the targets",
        "05",
        weight=7,
        explains=("data_leakage",),
    )


RULES = [
    every_pair,
    every_sample_with_every_other,
    wrong_size,
    heavy_penalty,
    sees_what_it_predicts,
    target_in_the_window,
]
