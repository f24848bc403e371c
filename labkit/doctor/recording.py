"""Run some updates and an evaluation of a copied program, and write down all that can be seen from outside."""

import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from labkit import randomness
from labkit.doctor.events import Event, Recorder
from labkit.doctor.program import Program

UPDATES = 40  # as many as are watched, over more than one epoch if need be; after FEWEST no longer than SECONDS
FEWEST = 6
SECONDS = 0.6
SEED = 0
MOST_WEIGHTS = 500_000


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
    live: list[int] = field(default_factory=list)  # graphs that were still alive after each update
    traces: list[weakref.ref] = field(default_factory=list, repr=False)

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
        begin = time.thread_time()
        for number, batch in enumerate(_epochs(program)):
            spent = time.thread_time() - begin
            if number == updates or (number >= FEWEST and spent > (seconds if recording.optimizers else 4 * seconds)):
                break  # who has not stepped yet may be in a long window of accumulation
            recording.updates.append(_watch_update(recording, number, batch))
            if recording.error is not None:
                break
            recording.live.append(sum(trace() is not None for trace in recording.traces))
        recording.warnings = [str(warning.message) for warning in said]
    return recording


def _epochs(program: Program) -> Iterator[Any]:
    """Yield batch after batch, epoch after epoch, as a loop does that begins each with `model.train()`."""
    empty = False
    while not empty:
        program.model.train()
        empty = True
        for batch in program.train_loader:
            empty = False
            yield batch


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


def _watch_update(recording: Recording, number: int, batch: Any) -> Update:
    program, update = recording.program, Update(number, batch)
    parameters = dict(program.model.named_parameters())
    before = {name: parameter.detach().clone() for name, parameter in parameters.items()}

    frozen = {name for name, parameter in parameters.items() if not parameter.requires_grad}
    accumulated: dict[str, float] = {}

    def note_accumulated(name: str, parameter: Tensor) -> None:
        accumulated[name] = parameter.grad.detach().float().norm().item()

    hooks = [
        parameter.register_post_accumulate_grad_hook(partial(note_accumulated, name))
        for name, parameter in parameters.items()
        if parameter.requires_grad
    ]

    def at_event(event: Event) -> None:
        if event.kind in ("autograd backward", "step", "stepped"):
            update.marks.append(_mark(event, parameters, recording))
        if event.kind == "autograd backward" and not update.left_over:
            update.left_over = update.marks[-1].norms
        elif event.kind == "step":
            update.gradients = update.marks[-1].norms
            update.marks[-1].accumulated = dict(accumulated)
        event.subject, event.arguments = _without_graph(event.subject), _without_graph(event.arguments)

    recorder = Recorder(at_event)
    recorder.update = number
    watched = watched_model(program.model, update.forwards, recording.traces)
    with watched, watched_loss(program, update.losses), recorder.listening():
        try:
            update.result = _without_graph(program.step(batch))
        except Exception as error:  # whatever the user's step raises
            update.error = error
    for hook in hooks:
        hook.remove()
    update.frozen = {name for name in frozen if not parameters[name].requires_grad}
    update.events = recorder.events
    update.made = gradient_norms(parameters)
    update.gradients = update.gradients or update.made
    update.marks.append(Mark("end", len(recorder.events), update.made))
    update.learning_rates = [group["lr"] for group in program.optimizer.param_groups if "lr" in group]
    for name, parameter in program.model.named_parameters():
        if name in before and before[name].shape == parameter.shape:
            change = (parameter.detach() - before[name]).norm() / before[name].norm().clamp(min=1e-12)
            update.moved[name] = change.item()
    return update


def _mark(event: Event, parameters: dict[str, Tensor], recording: Recording) -> Mark:
    """Write down the gradients at an event, and number the optimizer that steps."""
    mark = Mark(event.kind.removeprefix("autograd "), event.order, gradient_norms(parameters))
    optimizers = recording.optimizers
    if mark.kind in ("step", "stepped"):
        known = [number for number, optimizer in enumerate(optimizers) if optimizer is event.subject]
        if not known:
            optimizers.append(event.subject)
        mark.optimizer = known[0] if known else len(optimizers) - 1
        mark.along = _along(parameters)
        mark.state = sum(bool(remembered) for remembered in event.subject.state.values())
        if sum(parameter.numel() for parameter in parameters.values()) <= MOST_WEIGHTS:
            mark.weights = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    else:
        losses = [leaf for leaf in leaves(event.subject) if isinstance(leaf, Tensor)]
        if len(losses) == 1 and losses[0].numel() == 1:
            mark.loss = losses[0].item()
        mark.nodes = _count_nodes(losses)
        _tie_to_graph(losses, recording.traces)
    return mark


def _along(parameters: dict[str, Tensor]) -> float:
    """Return the cosine of the angle between the weights and their gradients, all parameters together."""
    pairs = [(p.detach().float(), p.grad.float()) for p in parameters.values() if p.grad is not None]
    dot = sum((weight * gradient).sum().item() for weight, gradient in pairs)
    lengths = sum(w.square().sum().item() for w, _ in pairs) * sum(g.square().sum().item() for _, g in pairs)
    return dot / lengths**0.5 if lengths > 0 else 0.0


def _count_nodes(losses: list[Tensor], most: int = 20_000) -> int:
    """Return how many operations the graph behind some tensors has; no more than `most` are counted."""
    waiting = [loss.grad_fn for loss in losses if loss.grad_fn is not None]
    seen = set()
    while waiting and len(seen) < most:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting.extend(before for before, _ in node.next_functions if before is not None)
    return len(seen)


class _Trace:
    """Something that lives exactly as long as the operation of a graph that it is tied to."""


def _tie_to_graph(losses: list[Tensor], traces: list[weakref.ref]) -> None:
    """Tie a trace to the graph behind each tensor: it is gone when nothing keeps the graph any more."""
    for loss in losses:
        if loss.grad_fn is not None:
            trace = loss.grad_fn.metadata.setdefault("trace", _Trace())
            traces.append(weakref.ref(trace))


def _without_graph(thing: Any) -> Any:
    return mapped(thing, Tensor.detach) if not isinstance(thing, Iterator) else thing


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
def watched_model(
    model: nn.Module, calls: list[ForwardCall], traces: list[weakref.ref] | None = None
) -> Iterator[None]:
    """Append to `calls` each call of the model while the block runs, and to `traces` what lives with its graph."""

    def note(module: nn.Module, inputs: tuple, outputs: Any) -> None:
        tensors = [leaf for leaf in leaves(outputs) if isinstance(leaf, Tensor)]
        needs = any(tensor.requires_grad for tensor in tensors)
        if traces is not None:
            _tie_to_graph(tensors, traces)
        calls.append(
            ForwardCall(mapped(inputs, Tensor.detach), detached(outputs), modes(module), torch.is_grad_enabled(), needs)
        )

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
