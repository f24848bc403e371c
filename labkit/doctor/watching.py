"""Watch the calls of a model and of a loss, and whether anything keeps their graphs."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from labkit.doctor.nested import detached, leaves, mapped
from labkit.doctor.program import Program
from labkit.doctor.records import ForwardCall, LossCall


@contextmanager
def watched_model(
    model: nn.Module, calls: list[ForwardCall], traces: list[weakref.ref] | None = None
) -> Iterator[None]:
    """Append to `calls` each call of the model while the block runs, and to `traces` what lives with its graph."""

    def note(module: nn.Module, inputs: tuple, outputs: Any) -> None:
        tensors = [leaf for leaf in leaves(outputs) if isinstance(leaf, Tensor)]
        needs = any(tensor.requires_grad for tensor in tensors)
        if traces is not None:
            tie_to_graph(tensors, traces)
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


def modes(model: nn.Module) -> dict[str, bool]:
    """Return for each module by name ("" is the model) whether it is in training mode."""
    return {name: module.training for name, module in model.named_modules()}


class _Trace:
    """Something that lives exactly as long as the operation of a graph that it is tied to."""


def tie_to_graph(losses: list[Tensor], traces: list[weakref.ref]) -> None:
    """Tie a trace to the graph behind each tensor: it is gone when nothing keeps the graph any more."""
    for loss in losses:
        if loss.grad_fn is not None:
            trace = loss.grad_fn.metadata.setdefault("trace", _Trace())
            traces.append(weakref.ref(trace))
