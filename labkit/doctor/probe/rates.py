"""Learning rates: what they are over an epoch, what schedules make of them, and how far they move the weights."""

import warnings
from dataclasses import dataclass, field
from typing import Any

from labkit.doctor.program import Program
from labkit.doctor.recording import Recording

EPOCHS = 5  # of a schedule that moves once an epoch
MOST = 2_000  # moves of a schedule that are tried


@dataclass
class RatesEvidence:
    """What was seen of the learning rates.

    first: the largest rate of any group at the start. in_step: whether the schedule moves inside updates; before_step:
    whether it moves before the first step of the optimizer. trace: the rates of the first group, after each move of the
    schedule; per_epoch: moves in an epoch. other_optimizer: whether it belongs to an optimizer that never steps.
    plateau_mode: "min" or "max" of a ReduceLROnPlateau that the caller feeds with the score. decay: the largest weight
    decay. losses: of each update. ratios: median over the weights of change ÷ size, each update. adaptive: whether the
    optimizer divides by the size of the gradients (Adam and its kin).
    """

    first: float | None = None
    in_step: bool = False
    before_step: bool = False
    trace: list[float] = field(default_factory=list)
    per_epoch: int | None = None
    other_optimizer: bool = False
    kind: str = ""
    plateau_mode: str | None = None
    decay: float = 0.0
    losses: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    adaptive: bool = False


def look_at_rates(program: Program, recording: Recording) -> RatesEvidence:
    """Read the rates of a recording, and try the schedule on a copy."""
    seen = RatesEvidence()
    groups = program.optimizer.param_groups
    seen.first = max((float(group["lr"]) for group in groups if "lr" in group), default=None)
    seen.decay = max((float(group.get("weight_decay", 0.0)) for group in groups), default=0.0)
    seen.adaptive = any("betas" in group or "rho" in group or "alpha" in group for group in groups)
    seen.losses = [_loss(update) for update in recording.updates if _loss(update) is not None]
    seen.ratios = [
        sorted(update.moved.values())[len(update.moved) // 2] for update in recording.updates if update.moved
    ]
    moves = [[event for event in update.events if event.kind == "schedule"] for update in recording.updates]
    seen.in_step = any(moves)
    if seen.in_step:
        first = next(update for update, moved in zip(recording.updates, moves, strict=True) if moved)
        steps = [event.order for event in first.events if event.kind == "step"]
        order = next(event.order for event in first.events if event.kind == "schedule")
        earlier = any(event.kind == "step" for update in recording.updates[: first.number] for event in update.events)
        seen.before_step = not earlier and bool(steps) and order < min(steps)
    _look_at_schedule(program, seen)
    return seen


def _loss(update: Any) -> float | None:
    values = [mark.loss for mark in update.marks if mark.kind == "backward" and mark.loss is not None]
    return sum(values) / len(values) if values else None


def _look_at_schedule(program: Program, seen: RatesEvidence) -> None:
    scheduler = program.scheduler
    if scheduler is None or not hasattr(scheduler, "step"):
        return
    seen.kind = type(scheduler).__name__
    owner = getattr(scheduler, "optimizer", None)
    seen.other_optimizer = owner is not None and owner is not program.optimizer
    if hasattr(scheduler, "is_better"):
        seen.plateau_mode = scheduler.mode
        return
    batches = len(program.train_loader) if hasattr(program.train_loader, "__len__") else None
    seen.per_epoch = batches if seen.in_step else 1
    copy = program.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for _ in range(min(MOST, EPOCHS * (seen.per_epoch or 1))):
                seen.trace.append(copy.scheduler.optimizer.param_groups[0]["lr"])
                copy.scheduler.step()
        except Exception:  # a schedule that is over, or that wants other arguments
            return
