"""Learning rates: what they are over an epoch, what schedules make of them, and how far they move the weights."""

import warnings
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from labkit.doctor.copying import reachable
from labkit.doctor.program import Program
from labkit.doctor.records import Recording

EPOCHS = 5  # of a schedule that moves once an epoch
MOST = 2_000  # moves of a schedule that are tried


@dataclass
class RatesEvidence:
    """What was seen of the learning rates.

    first: the largest rate of any group at the start. in_step: whether the schedule moves inside updates; before_step:
    whether it moves before the first step of the optimizer. trace: the rates of the first group, after each move of the
    schedule; per_epoch: moves in an epoch. other_optimizer: whether it belongs to an optimizer that never steps.
    meant: the rate that the schedule starts from or rises to. plateau_mode: "min" or "max" of a ReduceLROnPlateau that
    the caller feeds with the score. decay: the largest weight decay. losses: of each update. ratios: for each update
    the median of change ÷ size over the weights that moved. adaptive: whether the optimizer divides by the size of the
    gradients (Adam and its kin). by_hand: the rates of the watched updates, where the step itself writes them.
    """

    first: float | None = None
    in_step: bool = False
    before_step: bool = False
    trace: list[float] = field(default_factory=list)
    per_epoch: int | None = None
    other_optimizer: bool = False
    kind: str = ""
    meant: float = 0.0
    plateau_mode: str | None = None
    decay: float = 0.0
    losses: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    adaptive: bool = False
    by_hand: list[float] = field(default_factory=list)


def look_at_rates(program: Program, recording: Recording) -> RatesEvidence:
    """Read the rates of a recording, and try the schedule on a copy."""
    seen = RatesEvidence()
    groups = program.optimizer.param_groups
    seen.first = max((float(group["lr"]) for group in groups if "lr" in group), default=None)
    seen.decay = max((float(group.get("weight_decay", 0.0)) for group in groups), default=0.0)
    seen.adaptive = any("betas" in group or "rho" in group or "alpha" in group for group in groups)
    seen.losses = [_loss(update) for update in recording.updates if _loss(update) is not None]
    moves = [[change for change in update.moved.values() if change > 0] for update in recording.updates]
    seen.ratios = [median(changes) for changes in moves if changes]
    moves = [[event for event in update.events if event.kind == "schedule"] for update in recording.updates]
    seen.in_step = any(moves)
    if seen.in_step:
        first = next(update for update, moved in zip(recording.updates, moves, strict=True) if moved)
        steps = [event.order for event in first.events if event.kind == "step"]
        order = next(event.order for event in first.events if event.kind == "schedule")
        earlier = any(event.kind == "step" for update in recording.updates[: first.number] for event in update.events)
        seen.before_step = not earlier and bool(steps) and order < min(steps)
        batches, made = program.batches(), sum(map(bool, moves))
        seen.per_epoch = max(1, round(batches * made / len(moves))) if batches else None
    else:
        seen.per_epoch = 1
    used = [max(update.learning_rates) for update in recording.updates if update.learning_rates]
    seen.by_hand = used if not seen.in_step and len(set(used)) > len(used) // 2 else []
    _look_at_schedule(program, seen)
    return seen


def _loss(update: Any) -> float | None:
    values = [mark.loss for mark in update.marks if mark.kind == "backward" and mark.loss is not None]
    return sum(values) / len(values) if values else None


def schedules_of(program: Program) -> list[Any]:
    """Return the schedules of a program: its own, and those that its functions and its context use."""
    pieces = {name: piece for name, piece in vars(program).items() if name not in ("train_loader", "val_loader")}
    return [thing for thing in reachable(pieces) if isinstance(thing, LRScheduler)]


def _look_at_schedule(program: Program, seen: RatesEvidence) -> None:
    copy = program.copy()
    schedules = schedules_of(copy)
    plateaus = [schedule for schedule in schedules if isinstance(schedule, ReduceLROnPlateau)]
    if copy.scheduler is not None and copy.scheduler in plateaus:
        seen.plateau_mode = copy.scheduler.mode
    schedules = [schedule for schedule in schedules if schedule not in plateaus]
    if not schedules:
        return
    schedule = schedules[0]
    seen.kind = type(schedule).__name__
    seen.other_optimizer = copy.scheduler is schedule and schedule.optimizer is not copy.optimizer
    groups = schedule.optimizer.param_groups
    seen.meant = max(max(group.get("max_lr", 0.0), group.get("initial_lr", group["lr"])) for group in groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for _ in range(min(MOST, EPOCHS * (seen.per_epoch or 1))):
                seen.trace.append(groups[0]["lr"])
                schedule.step()
        except Exception:  # a schedule that is over, or that wants other arguments
            return
