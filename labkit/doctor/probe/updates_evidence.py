"""What is seen of the optimizers, and small questions that its probes share."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from labkit.doctor.copying import reachable
from labkit.doctor.probe.rates import RatesEvidence
from labkit.doctor.program import Program
from labkit.doctor.records import Mark, Recording, Update


@dataclass
class UpdatesEvidence:
    """What was seen of the optimizers. Names are names of parameters in the model.

    watched, batches: updates that were watched, and batches of an epoch (None if the loader does not know).
    missing: trainable, with a gradient, and in no optimizer. missing_as_made: those of them that still look as their
    layer was made. ahead_of_optimised: those of them whose layer comes after all optimised ones. strangers: tensors in
    the optimizer that are no part of model, loss or context. missing_in_loss: parameters that the loss declares itself,
    with a gradient, and in no optimizer. epoch_without_step: batches of a whole epoch in which no weight moved, else 0.
    shared: whether optimizer and model have any in common.
    steps: how many times any optimizer stepped; own_steps: the program's own. thrown_away: backward passes whose
    gradients were cleared before any step used them. emptied: steps that found every gradient cleared after a backward.
    kept: steps whose gradients still contained those that the step before had used. changed_after: steps after which
    the gradients were changed to other values that nothing used. sums_losses: whether the loss of a batch is a sum
    over samples. windows: backward passes a step uses.
    weights: for each window the sum of (what backward began from ÷ what loss_fn gave), None if it cannot be told.
    clips: calls that clip; of these clips_before_backward, clips_after_step, and clips_of_others, whose parameters have
    no gradient. clipped_in_part: steps at which only some of the gradients had been clipped, with the limit.
    unscaled_late: clips that came before the scaler's `unscale_`. made: optimizers made inside updates.
    forgotten: steps that found the optimizer's state empty, although the step before had filled it.
    frozen_moved: parameters without requires_grad that an update moved; zeroed_moved: those whose gradient was set to
    zero before the step; evaluated_in_training: parts that are trained in evaluation mode, although it changes nothing
    in them; thawed, left_frozen: what the evaluation made trainable, or not. attribute_frozen: modules with a plain
    attribute requires_grad. misspelt_freezing: name -> attribute that is nearly called so, where nothing is frozen.
    nodes: operations in the graph of each backward. live: after each update, of how many a graph was still alive.
    reset: parameters that something else than an optimizer overwrote, with what was seen. shrunk: by which part all
    weights are made smaller between two steps. along: see Mark, for every step. rates: see RatesEvidence.
    """

    watched: int = 0
    batches: int | None = None
    raised: bool = False
    missing: list[str] = field(default_factory=list)
    missing_as_made: list[str] = field(default_factory=list)
    ahead_of_optimised: list[str] = field(default_factory=list)
    missing_in_loss: list[str] = field(default_factory=list)
    epoch_without_step: int = 0
    strangers: int = 0
    optimised: int = 0
    shared: bool = True
    steps: int = 0
    own_steps: int = 0
    backwards: int = 0
    thrown_away: int = 0
    emptied: int = 0
    kept: int = 0
    kept_names: list[str] = field(default_factory=list)
    changed_after: int = 0
    sums_losses: bool = False
    windows: list[int] = field(default_factory=list)
    weights: list[float | None] = field(default_factory=list)
    clips_before_backward: int = 0
    clips_after_step: int = 0
    clips_of_others: int = 0
    clips: int = 0
    clipped_in_part: list[tuple[int, int, float]] = field(default_factory=list)
    unscaled_late: int = 0
    made: int = 0
    forgotten: int = 0
    frozen_moved: dict[str, float] = field(default_factory=dict)
    zeroed_moved: dict[str, float] = field(default_factory=dict)
    evaluated_in_training: list[str] = field(default_factory=list)
    thawed: list[str] = field(default_factory=list)
    left_frozen: list[str] = field(default_factory=list)
    attribute_frozen: list[str] = field(default_factory=list)
    misspelt_freezing: dict[str, str] = field(default_factory=dict)
    nodes: list[int] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    reset: dict[str, str] = field(default_factory=dict)
    shrunk: float = 0.0
    along: list[float] = field(default_factory=list)
    moved: float | None = None
    rates: RatesEvidence = field(default_factory=RatesEvidence)


def marks_of(update: Update, *kinds: str) -> list[Mark]:
    """Return the marks of some kinds, in order."""
    return [mark for mark in update.marks if mark.kind in kinds]


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    """Yield the parameters that an optimizer holds."""
    for group in optimizer.param_groups:
        yield from group["params"]


def pieces_of(program: Program) -> dict:
    """Return the pieces of a program without its loaders, which hold no parameters."""
    return {name: piece for name, piece in vars(program).items() if name not in ("train_loader", "val_loader")}


def optimizers_of(program: Program, recording: Recording) -> list[torch.optim.Optimizer]:
    """Return the recorded copy's optimizers: its own, those in its context or its functions, those that stepped."""
    known = [thing for thing in reachable(pieces_of(recording.program)) if isinstance(thing, torch.optim.Optimizer)]
    return [*known, *(one for one in recording.optimizers if all(one is not other for other in known))]
