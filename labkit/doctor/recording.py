"""Run some updates and an evaluation of a copied program, and write down all that can be seen from outside."""

import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from labkit import randomness
from labkit.doctor.events import Event, Recorder
from labkit.doctor.nested import leaves, mapped
from labkit.doctor.pace import affordable, fastest
from labkit.doctor.program import Program
from labkit.doctor.records import Mark, Recording, Update
from labkit.doctor.watching import modes, tie_to_graph, watched_loss, watched_model

UPDATES = 40  # as many as are watched, over more than one epoch if need be
FEWEST = 6  # as many if one takes so long that UPDATES would take longer than SECONDS
SECONDS = 2.0
SEED = 0
MOST_WEIGHTS = 500_000


def record(program: Program, updates: int = UPDATES, seconds: float = SECONDS, seed: int = SEED) -> Recording:
    """Make some updates, as a loop would that calls `model.train()` once, then an evaluation; return the record.

    The program is changed by it: give it a copy. It ends at the first exception, which is in the record.
    """
    recording = Recording(program)
    with randomness.frozen_randomness(seed), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        begins = [time.thread_time()]
        for number, batch in enumerate(_readable(program, recording)):
            budget = seconds if recording.optimizers else 4 * seconds  # else it may be in a window of accumulation
            if number >= affordable(updates, min(FEWEST, updates), fastest(begins), budget):
                break
            recording.updates.append(_watch_update(recording, number, batch))
            begins.append(time.thread_time())
            if recording.error is not None:
                break
            recording.live.append(sum(any(trace() is not None for trace in update) for update in recording.traces))
        recording.warnings = [str(warning.message) for warning in said]
    return recording


def _readable(program: Program, recording: Recording) -> Iterator[Any]:
    """Yield the batches until one cannot be read; the error of the loader is that of the recording."""
    try:
        yield from _epochs(program)
    except Exception as error:  # whatever the user's data set raises
        recording.loader_error = error


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
    recording.traces.append([])
    watched = watched_model(program.model, update.forwards, recording.traces[-1])
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
        tie_to_graph(losses, recording.traces[-1])
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


def _without_graph(thing: Any) -> Any:
    return mapped(thing, Tensor.detach) if not isinstance(thing, Iterator) else thing


def gradient_norms(parameters: dict[str, Tensor]) -> dict[str, float | None]:
    """Return the norm of each parameter's gradient, None where there is none."""
    with torch.no_grad():
        return {
            name: None if parameter.grad is None else parameter.grad.detach().float().norm().item()
            for name, parameter in parameters.items()
        }
