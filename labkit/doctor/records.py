"""What is written down of updates and of an evaluation: plain data."""

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from labkit.doctor.events import Event
from labkit.doctor.program import Program


@dataclass
class LossCall:
    """One call of loss_fn: what went in and what came out (detached; targets as they were)."""

    outputs: Any
    targets: Any
    value: Any
    requires_grad: bool


@dataclass
class ForwardCall:
    """One call of the model (not of its layers): inputs and outputs detached, modes as they were at that moment."""

    inputs: tuple
    outputs: Any
    training: dict[str, bool]
    grad_enabled: bool
    requires_grad: bool


@dataclass
class Mark:
    """The gradients at one moment: kind "backward" (it begins), "step" (it begins), "stepped" (it is over), "end".

    norms: name -> norm of the gradient, None without one. optimizer: number of the optimizer that steps, in the order
    in which they first stepped. loss: what backward began from. nodes: how many operations its graph has. weights: at
    steps, name -> copy of the weights; empty for models of more than MOST_WEIGHTS. state: how many parameters the
    stepping optimizer remembers something of. along: cosine of the angle between all gradients and all weights; 1 says
    that the step shrinks the weights and does nothing else. accumulated: norms as the last backward left them.
    """

    kind: str
    order: int
    norms: dict[str, float | None]
    optimizer: int = -1
    loss: float | None = None
    nodes: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)
    state: int = 0
    along: float = 0.0
    accumulated: dict[str, float] = field(default_factory=dict)

    @property
    def nonzero(self) -> set[str]:
        """Names of the parameters whose gradient is there and is not zero."""
        return {name for name, norm in self.norms.items() if norm}


@dataclass
class Update:
    """One call of train_step on one batch.

    gradients, at the last `optimizer.step` of the update (or, without one, at the end): name -> norm, None where there
    is no gradient. left_over: the same, when the first backward of the update began. made: after the last backward.
    moved: name -> norm of the change ÷ norm of the weights. losses and forwards: what was called on the way.
    marks: the gradients at every backward and step. frozen: names that required no gradient before it and after it.
    result: what the step returned.
    """

    number: int
    batch: Any
    events: list[Event] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    losses: list[LossCall] = field(default_factory=list)
    forwards: list[ForwardCall] = field(default_factory=list)
    left_over: dict[str, float | None] = field(default_factory=dict)
    made: dict[str, float | None] = field(default_factory=dict)
    gradients: dict[str, float | None] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    learning_rates: list[float] = field(default_factory=list)
    frozen: set[str] = field(default_factory=set)
    result: Any = None
    error: Exception | None = None

    def kinds(self) -> list[str]:
        """Return the kinds of its events, in order."""
        return [event.kind for event in self.events]


@dataclass
class Recording:
    """Some updates from the start, then an evaluation (None without val_loader), and the program in its state after.

    scores, evaluation_…: of that evaluation, made twice. warnings: texts of the warnings on the way.
    """

    program: Program
    updates: list[Update] = field(default_factory=list)
    scores: list[Any] = field(default_factory=list)
    evaluation_events: list[Event] = field(default_factory=list)
    evaluation_forwards: list[ForwardCall] = field(default_factory=list)
    evaluation_error: Exception | None = None
    modes_after_evaluation: dict[str, bool] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)  # those that stepped, in order
    loader_error: Exception | None = None
    live: list[int] = field(default_factory=list)  # of how many updates a graph was still alive, after each update
    traces: list[list[weakref.ref]] = field(default_factory=list, repr=False)

    @property
    def error(self) -> Exception | None:
        """The first exception of an update, or that which ended the reading of batches, if there was one."""
        return next((update.error for update in self.updates if update.error is not None), self.loader_error)
