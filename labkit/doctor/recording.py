"""Run some updates and an evaluation of a copied program, and write down all that can be seen from outside."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from labkit import randomness
from labkit.doctor.events import Event, Recorder
from labkit.doctor.program import Program

UPDATES = 10  # as many as are watched, if they do not take longer than
SECONDS = 1.5
SEED = 0


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
class Update:
    """One call of train_step on one batch.

    gradients, at the last `optimizer.step` of the update (or, without one, at the end): name -> norm, None where there
    is no gradient. left_over: the same, when the first backward of the update began. made: after the last backward.
    moved: name -> norm of the change ÷ norm of the weights. losses and forwards: what was called on the way.
    result: what the step returned. growth: tensors with a graph that live longer after this update than before it.
    """

    number: int
    batch: Any
    events: list[Event] = field(default_factory=list)
    losses: list[LossCall] = field(default_factory=list)
    forwards: list[ForwardCall] = field(default_factory=list)
    left_over: dict[str, float | None] = field(default_factory=dict)
    made: dict[str, float | None] = field(default_factory=dict)
    gradients: dict[str, float | None] = field(default_factory=dict)
    moved: dict[str, float] = field(default_factory=dict)
    learning_rates: list[float] = field(default_factory=list)
    result: Any = None
    error: Exception | None = None

    def kinds(self) -> list[str]:
        """Return the kinds of its events, in order."""
        return [event.kind for event in self.events]


@dataclass
class Recording:
    """Some updates from the start, then an evaluation (None without val_loader), and the program in its state after.

    evaluations: (score or None, events, forwards) of each evaluation. warnings: texts of the warnings on the way.
    """

    program: Program
    updates: list[Update] = field(default_factory=list)
    scores: list[Any] = field(default_factory=list)
    evaluation_events: list[Event] = field(default_factory=list)
    evaluation_forwards: list[ForwardCall] = field(default_factory=list)
    evaluation_error: Exception | None = None
    modes_after_evaluation: dict[str, bool] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def error(self) -> Exception | None:
        """The first exception of an update, if there was one."""
        return next((update.error for update in self.updates if update.error is not None), None)


def record(program: Program, updates: int = UPDATES, seconds: float = SECONDS, seed: int = SEED) -> Recording:
    """Make some updates, as a loop would that calls `model.train()` once, then an evaluation; return the record.

    The program is changed by it: give it a copy. It ends at the first exception, which is in the record.
    """
    recording = Recording(program)
    with randomness.frozen_randomness(seed), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        program.model.train()
        begin = time.perf_counter()
        for number, batch in enumerate(program.train_loader):
            if number == updates or (number >= 2 and time.perf_counter() - begin > seconds):
                break
            recording.updates.append(_watch_update(program, number, batch))
            if recording.error is not None:
                break
        recording.warnings = [str(warning.message) for warning in said]
    return recording


def record_evaluation(recording: Recording, loader: Any) -> None:
    """Evaluate the recorded program twice on a loader, with the same random numbers before the first time only."""
    program = recording.program
    recorder = Recorder()
    with randomness.frozen_randomness(SEED), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with watched_model(program.model, recording.evaluation_forwards), recorder.listening():
            try:
                recording.scores = [program.score(loader), program.score(loader)]
            except Exception as error:  # whatever the user's evaluation raises
                recording.evaluation_error = error
    recording.evaluation_events = recorder.events
    recording.modes_after_evaluation = modes(program.model)


def _watch_update(program: Program, number: int, batch: Any) -> Update:
    update = Update(number, batch)
    parameters = dict(program.model.named_parameters())
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}

    def at_event(event: Event) -> None:
        if event.kind == "backward" and not update.left_over:
            update.left_over = gradient_norms(parameters)
        if event.kind == "step":
            update.gradients = gradient_norms(parameters)

    recorder = Recorder(at_event)
    recorder.update = number
    loss_fn = program.loss_fn
    with watched_model(program.model, update.forwards), watched_loss(program, update.losses), recorder.listening():
        try:
            update.result = program.step(batch)
        except Exception as error:  # whatever the user's step raises
            update.error = error
    program.loss_fn = loss_fn
    update.events = recorder.events
    update.made = gradient_norms(parameters)
    update.gradients = update.gradients or update.made
    update.learning_rates = [group["lr"] for group in program.optimizer.param_groups if "lr" in group]
    for name, parameter in program.model.named_parameters():
        if name in before and before[name].shape == parameter.shape:
            change = (parameter.detach() - before[name]).norm() / before[name].norm().clamp(min=1e-12)
            update.moved[name] = change.item()
    return update


def gradient_norms(parameters: dict[str, Tensor]) -> dict[str, float | None]:
    """Return the norm of each parameter's gradient, None where there is none."""
    with torch.no_grad():
        return {
            name: None if parameter.grad is None else parameter.grad.detach().float().norm().item()
            for name, parameter in parameters.items()
        }


def modes(model: nn.Module) -> dict[str, bool]:
    """Return for each module by name ("" is the model) whether it is in training mode."""
    return {name: module.training for name, module in model.named_modules()}


@contextmanager
def watched_model(model: nn.Module, calls: list[ForwardCall]) -> Iterator[None]:
    """Append to `calls` each call of the model while the block runs."""

    def note(module: nn.Module, inputs: tuple, outputs: Any) -> None:
        tensors = [leaf for leaf in leaves(outputs) if isinstance(leaf, Tensor)]
        needs = any(tensor.requires_grad for tensor in tensors)
        calls.append(ForwardCall(inputs, detached(outputs), modes(module), torch.is_grad_enabled(), needs))

    hook = model.register_forward_hook(note)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def watched_loss(program: Program, calls: list[LossCall]) -> Iterator[None]:
    """Append to `calls` each call of the program's loss_fn while the block runs."""
    loss_fn = program.loss_fn

    def note(outputs: Any, targets: Any, value: Any) -> None:
        needs = isinstance(value, Tensor) and value.requires_grad
        calls.append(LossCall(detached(outputs), detached(targets), detached(value), needs))

    if isinstance(loss_fn, nn.Module):
        hook = loss_fn.register_forward_hook(lambda _, inputs, value: note(*_first_two(inputs), value))
        try:
            yield
        finally:
            hook.remove()
        return

    def watching(*arguments: Any, **named: Any) -> Any:
        value = loss_fn(*arguments, **named)
        note(*_first_two((*arguments, *named.values())), value)
        return value

    program.loss_fn = watching
    try:
        yield
    finally:
        program.loss_fn = loss_fn


def _first_two(values: tuple) -> tuple:
    return (*values, None, None)[:2]


def leaves(thing: Any) -> Iterator[Any]:
    """Yield what is inside nested tuples, lists and dicts."""
    if isinstance(thing, dict):
        for part in thing.values():
            yield from leaves(part)
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from leaves(part)
    else:
        yield thing


def detached(thing: Any) -> Any:
    """Return the same nested structure with copies of its tensors, without their graphs."""
    return mapped(thing, lambda tensor: tensor.detach().clone())


def mapped(thing: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the same nested structure of dicts, lists and tuples with every tensor changed."""
    if isinstance(thing, Tensor):
        return change(thing)
    if isinstance(thing, dict):
        return {name: mapped(part, change) for name, part in thing.items()}
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return type(thing)(*(mapped(part, change) for part in thing))
    if isinstance(thing, list | tuple):
        return type(thing)(mapped(part, change) for part in thing)
    return thing
