"""Mechanical fixes of an update: the program's own step still runs, and what it does wrong has no effect any more."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grad
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from labkit.doctor.copying import reachable
from labkit.doctor.nested import leaves, mapped
from labkit.doctor.program import Program, usual_step
from labkit.randomness import frozen_randomness

Mend = Callable[[Program], None]


def optimizers_of(program: Program) -> list[Optimizer]:
    """Return the optimizers that a program leads to: its own, those of its context, those its functions remember."""
    pieces = {name: piece for name, piece in vars(program).items() if name not in ("train_loader", "val_loader")}
    return [thing for thing in reachable(pieces) if isinstance(thing, Optimizer)]


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    """Return all parameters of an optimizer that have a gradient."""
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return [parameter for parameter in held if parameter.grad is not None]


def cleared_before_each_update(program: Program) -> None:
    """Clear the gradients that a step has used before the next update begins."""
    step, used = program.train_step or usual_step, []

    def cleared(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        for done in used:
            done.zero_grad()
        used.clear()
        hook = register_optimizer_step_post_hook(lambda stepped, *_: used.append(stepped))
        try:
            return step(model, batch, loss_fn, optimizer)
        finally:
            hook.remove()

    program.train_step = cleared


def before_each_step(program: Program, change: Callable[[Optimizer], None]) -> None:
    """Let something be done to the gradients right before every step of every optimizer."""
    for optimizer in optimizers_of(program):
        optimizer.register_step_pre_hook(lambda stepping, *_: change(stepping))


def gradients_times(factor: float) -> Mend:
    """Return a fix that multiplies all gradients right before a step uses them."""

    def scale(optimizer: Optimizer) -> None:
        for parameter in parameters_of(optimizer):
            parameter.grad.mul_(factor)

    return lambda program: before_each_step(program, scale)


def clipped_at_the_step(program: Program) -> None:
    """Clip all gradients together right before each step, to the limit that the program asks for at another moment."""
    step, limits = program.train_step or usual_step, _limits(program)

    def clip(optimizer: Optimizer) -> None:
        held = parameters_of(optimizer)
        if limits and held:
            norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in held])
            torch.nn.utils.clip_grads_with_norm_(held, limits[-1], norm)

    def without_its_clipping(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        with _noting_limits(limits):
            return step(model, batch, loss_fn, optimizer)

    before_each_step(program, clip)
    program.train_step = without_its_clipping


def _limits(program: Program) -> list[float]:
    """Return the limits that a copy of the program clips to in its first updates."""
    copy, limits = program.copy(), []
    with frozen_randomness(0), _noting_limits(limits):
        for _, batch in zip(range(3), copy.train_loader, strict=False):
            copy.step(batch)
    return limits[-1:]


@contextmanager
def _noting_limits(limits: list[float]) -> Iterator[None]:
    """Let `clip_grad_norm_` measure as ever, note its limit, and change nothing."""
    clipping = clip_grad._clip_grads_with_norm_
    clip_grad._clip_grads_with_norm_ = lambda _, limit, *__: limits.__setitem__(slice(None), [float(limit)])
    try:
        yield
    finally:
        clip_grad._clip_grads_with_norm_ = clipping


def in_the_modes_it_began_with(program: Program) -> None:
    """Let every forward pass that learns run in the modes in which its update began, and leave these behind."""
    step = program.train_step or usual_step

    def kept(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        modes = [(module, module.training) for module in model.modules()]

        def put_back(*_: Any) -> None:
            for module, training in modes:
                module.training = training

        hook = model.register_forward_pre_hook(lambda *_: put_back() if torch.is_grad_enabled() else None)
        try:
            return step(model, batch, loss_fn, optimizer)
        finally:
            hook.remove()
            put_back()

    program.train_step = kept


def without_old_graphs(program: Program) -> None:
    """After every update, detach whatever the program still keeps with the graph of that update."""
    step = program.train_step or usual_step
    replace = partial(replaced, wanted=lambda tensor: tensor.grad_fn is not None, change=Tensor.detach)

    def forgetting(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        result = step(model, batch, loss_fn, optimizer)
        replace([step, loss_fn, model])
        return result

    program.train_step = forgetting


def replaced(root: Any, wanted: Callable[[Tensor], bool], change: Callable[[Tensor], Tensor]) -> None:
    """Change some tensors wherever they are kept: in attributes, dicts, lists, tuples and variables of functions."""

    def new(value: Any) -> Any:
        found = any(isinstance(leaf, Tensor) and wanted(leaf) for leaf in leaves(value))
        return mapped(value, lambda tensor: change(tensor) if wanted(tensor) else tensor) if found else value

    for thing in list(reachable(root)):
        holds = thing if isinstance(thing, dict | list) else getattr(thing, "__dict__", None)
        places = list(holds.items()) if isinstance(holds, dict) else enumerate(holds or ())
        for place, value in places:
            if isinstance(value, Tensor | tuple) and (other := new(value)) is not value:
                holds[place] = other
        for cell in getattr(thing, "__closure__", None) or ():
            with suppress(ValueError):  # a variable without a value
                if isinstance(cell.cell_contents, Tensor | tuple):
                    cell.cell_contents = new(cell.cell_contents)
