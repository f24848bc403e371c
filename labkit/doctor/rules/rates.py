"""What is wrong with the learning rate, its schedule and the weight decay."""

import math
from itertools import pairwise

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.mends import (
    constant_rate,
    learning_rate_times,
    rate_at_steps_times,
    schedule_of_the_optimizer,
    usual_step_without_penalty,
    without_decay,
    without_penalty,
)
from labkit.doctor.rules.weight_mends import written_by_optimizers_only
from labkit.doctor.trial import validation_score

LARGEST_MOVE = 0.3  # change ÷ size of the weights in one update; healthy ones are near 0.001
SMALLEST_MOVE = 2e-5
ENDLESS = ("StepLR", "ExponentialLR")  # they have no last step: nobody means them to reach nothing in three epochs
EPOCHS = 5  # after so many a warm-up should be over


def too_high(evidence: Evidence) -> Finding | None:
    """The loss rises, or the weights move as far as they are large, and a tenth of the rate does better."""
    rates = evidence.updates.rates
    if rates.first is None or not rates.losses or _class_by_class(evidence):
        return None
    finite = [loss for loss in rates.losses if math.isfinite(loss)]
    exploded = len(finite) < len(rates.losses) and bool(finite)
    rises = len(finite) >= 4 and min(finite[-2:]) > 1.5 * abs(finite[0])
    far = [ratio for ratio in rates.ratios if ratio > LARGEST_MOVE]
    if not (exploded or rises or len(far) >= 2 or (rates.ratios and _median(rates.ratios) > 0.03)):
        return None
    moved = f"the weights move by {_median(rates.ratios):.2g} of their size in an update" if rates.ratios else ""
    return Finding(
        "lr_too_high",
        "warn",
        f"With a learning rate of {rates.first:g} the loss goes from {finite[0]:.3g} to {rates.losses[-1]:.3g} "
        f"in {len(rates.losses)} updates; {moved}.",
        "Steps that are longer than the valley is wide climb its other side.",
        _rate(rates.first, 0.1),
        "the loss falls in the first ten updates",
        "05",
        mend=learning_rate_times(0.1),
        instead=tuple((learning_rate_times(factor), _rate(rates.first, factor)) for factor in (1e-2, 1e-3)),
        confirm=True,
        weight=3,
        explains=("dead_units", "numeric_instability"),
    )


def _class_by_class(evidence: Evidence) -> bool:
    """Say whether the classes come one after the other: then the loss jumps with any rate."""
    order = evidence.data.order
    return order.batches >= 4 and 1 < order.classes <= order.runs <= 2 * order.classes


def too_low(evidence: Evidence) -> Finding | None:
    """The weights hardly move, and a much larger rate does better."""
    rates, moved = evidence.updates.rates, evidence.updates.moved
    largest = max([*rates.trace, rates.first or 0.0])
    if not rates.first or not moved or not rates.ratios or largest > 10 * rates.first:
        return None
    if _median(rates.ratios) > SMALLEST_MOVE * (20 if not rates.adaptive else 10):
        return None
    return Finding(
        "lr_too_low",
        "warn",
        f"With a learning rate of {rates.first:g} the weights move by {_median(rates.ratios):.2g} of their size "
        "in an update.",
        "At this pace training needs many times the updates that it could do with.",
        _rate(rates.first, 100.0),
        "the weights move by about 0.001 of their size in an update",
        "05",
        mend=learning_rate_times(100.0),
        instead=tuple((learning_rate_times(factor), _rate(rates.first, factor)) for factor in (1e3, 1e4)),
        confirm=True,
        weight=2,
    )


def _rate(first: float, factor: float) -> str:
    return f"lr={first * factor:g}"


def warm_up_too_long(evidence: Evidence) -> Finding | None:
    """The step raises the rate by hand, so slowly that some epochs later it is still next to nothing."""
    rates = evidence.updates.rates
    rising = len(rates.by_hand) >= 6 and all(later > earlier for earlier, later in pairwise(rates.by_hand))
    if not rising or not rates.ratios or not evidence.updates.batches:
        return None
    later = EPOCHS * max(evidence.updates.batches, len(rates.by_hand))
    growth = later / len(rates.by_hand)
    if growth * rates.ratios[-1] > SMALLEST_MOVE * (20 if not rates.adaptive else 10):
        return None
    return Finding(
        "lr_too_low",
        "warn",
        f"In {len(rates.by_hand)} updates the learning rate rises from {rates.by_hand[0]:.2g} to "
        f"{rates.by_hand[-1]:.2g}; at this pace it is {growth * rates.by_hand[-1]:.2g} after {EPOCHS} epochs "
        f"({later} updates).",
        "A warm-up is meant for the first few per cent of the updates; this one is longer than most trainings.",
        f"warm_up = {max(evidence.updates.batches // 2, 1)}  # updates, not more than the first epoch",
        "the learning rate reaches its highest value in the first epoch",
        "05",
        mend=rate_at_steps_times(1e-3 / rates.ratios[-1]),
        instead=((rate_at_steps_times(5e-3 / rates.ratios[-1]), ""),),
        confirm=True,
        weight=4,
        explains=("scheduler_misuse", "model_too_weak"),
    )


def decay_too_high(evidence: Evidence) -> Finding | None:
    """The penalty pulls harder than the loss."""
    rates = evidence.updates.rates
    if rates.first is None or rates.decay < 0.05 or rates.decay * max(1.0, rates.first) < 0.05:
        return None
    return Finding(
        "weight_decay_too_high",
        "warn",
        f"The weight decay is {rates.decay:g} with a learning rate of {rates.first:g}.",
        "The penalty pulls the weights to zero faster than the loss can hold them.",
        "weight_decay=1e-4",
        "the norm of the weights does not shrink from epoch to epoch while the loss stands still",
        "05",
        mend=without_decay,
        confirm=True,
        weight=4,
    )


def penalty_rules(evidence: Evidence) -> Finding | None:
    """The gradient points along the weights, or the weights are shrunk by hand: the penalty does all the work."""
    seen = evidence.updates
    if seen.shrunk > 0.02:
        what = f"Between two steps all weights become smaller by {100 * seen.shrunk:.1f} %."
    elif len(seen.along) >= 3 and min(seen.along[:3]) > 0.8:
        cosine = min(seen.along[:3])
        what = f"The gradient points along the weights (cosine {cosine:.2f}): a step shrinks them and does little else."
    else:
        return None
    return Finding(
        "weight_decay_too_high",
        "warn",
        what,
        "The penalty pulls the weights to zero faster than the loss can hold them.",
        "a factor of 1e-4 or less for the penalty",
        "the gradient of the loss without the penalty is the larger part",
        "05",
        mend=written_by_optimizers_only if seen.shrunk > 0.02 else without_penalty,
        instead=() if seen.shrunk > 0.02 else ((usual_step_without_penalty, ""),),
        judge=validation_score,
        weight=4,
        explains=("loss_scaling", "model_too_weak"),
    )


def schedule_before_optimizer(evidence: Evidence) -> Finding | None:
    """The schedule moves before the optimizer's first step."""
    if not evidence.updates.rates.before_step:
        return None
    return Finding(
        "scheduler_misuse",
        "fail",
        "`scheduler.step()` comes before the first `optimizer.step()`.",
        "The first value of the schedule is skipped.",
        "optimizer.step()\nscheduler.step()",
        "no warning `Detected call of lr_scheduler.step() before optimizer.step()`",
        "05",
        weight=3,
    )


def schedule_of_another(evidence: Evidence) -> Finding | None:
    """The schedule belongs to an optimizer that is not the one that trains."""
    rates = evidence.updates.rates
    if not rates.other_optimizer or evidence.updates.own_steps == 0:
        return None
    return Finding(
        "scheduler_misuse",
        "fail",
        f"The {rates.kind} was made for another optimizer than the one that steps.",
        "A schedule writes into the param_groups of the optimizer it was made with.",
        "scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)  # after the optimizer",
        "scheduler.optimizer is optimizer",
        "05",
        mend=schedule_of_the_optimizer,
        weight=5,
    )


def schedule_kills(evidence: Evidence) -> Finding | None:
    """The schedule takes the learning rate away long before training is over."""
    rates = evidence.updates.rates
    if not rates.trace or not rates.per_epoch:
        return None
    start, span = max(rates.trace[0], 1e-30), rates.trace[: 3 * rates.per_epoch if rates.in_step else 3]
    if rates.trace[0] == 0 and all(rate == 0 for rate in rates.trace[: rates.per_epoch]):
        what = f"The learning rate is 0 in all of the first epoch ({rates.kind})."
    elif len(span) > 1 and min(span) < 0.02 * start and rates.kind != "OneCycleLR":
        moves = next(number for number, rate in enumerate(span) if rate < 0.02 * start)
        unit = "updates" if rates.in_step else "epochs"
        what = (
            f"After {moves} {unit} the learning rate has fallen from {start:.3g} to {span[moves]:.3g} ({rates.kind})."
        )
    elif max(rates.trace) < 0.1 * rates.meant:
        what = (
            f"In the first {len(rates.trace) // rates.per_epoch} epochs the learning rate stays below "
            f"{max(rates.trace):.3g}, and {rates.meant:g} is meant ({rates.kind})."
        )
    else:
        return None
    return Finding(
        "scheduler_misuse",
        "warn",
        what,
        "What is learned after that is next to nothing; often an epoch's schedule is stepped in every update.",
        "scheduler.step()  # once an epoch, outside the loop over batches; or count the schedule's length in updates",
        "print(scheduler.get_last_lr()) over the epochs",
        "05",
        mend=constant_rate,
        confirm=not (rates.kind in ENDLESS and min(span) < 1e-4 * start),
        updates=int(2.5 * (evidence.updates.batches or 20)),
        weight=5,
        explains=("lr_too_low",),
    )


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


RULES = [
    too_high,
    too_low,
    warm_up_too_long,
    decay_too_high,
    penalty_rules,
    schedule_before_optimizer,
    schedule_of_another,
    schedule_kills,
]
