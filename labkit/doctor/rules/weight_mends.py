"""Mechanical fixes of who may change weights: frozen ones stay as they are, and nothing but an optimizer writes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from labkit.doctor.program import Program, usual_step
from labkit.doctor.rules.update_mends import optimizers_of

Mend = Callable[[Program], None]
HARMLESS = {"requires_grad_", "detach_", "share_memory_", "embedding_renorm_"}  # they leave what was learned


def still(names: list[str]) -> Mend:
    """Return a fix under which no step moves a parameter that is frozen, or one of these whose gradient is zero.

    Momentum and weight decay go on moving what has a gradient of zero: it is put back after the step.
    """

    def mend(program: Program) -> None:
        held = [program.model.get_parameter(name) for name in names]
        kept: list[tuple[Tensor, Tensor]] = []

        def keep(*_: Any) -> None:
            frozen = [p for p in held if not p.requires_grad or (p.grad is not None and not p.grad.any())]
            kept[:] = [(parameter, parameter.detach().clone()) for parameter in frozen]

        def put_back(*_: Any) -> None:
            with torch.no_grad():
                for parameter, values in kept:
                    parameter.copy_(values)

        for optimizer in optimizers_of(program):
            optimizer.register_step_pre_hook(keep)
            optimizer.register_step_post_hook(put_back)

    return mend


def frozen(names: list[str]) -> Mend:
    """Return a fix that freezes modules or parameters, and takes away a stray attribute `requires_grad = False`."""

    def mend(program: Program) -> None:
        things = dict(program.model.named_parameters()) | {n or "model": m for n, m in program.model.named_modules()}
        for name in names:
            stray = [key for key, value in vars(things[name]).items() if value is False and "grad" in key]
            for key in stray:
                del vars(things[name])[key]
            things[name].requires_grad_(False)

    return mend


def frozen_as_evaluated(names: list[str]) -> Mend:
    """Return a fix that freezes the parts around some modules that `model.train()` leaves in evaluation mode."""

    def mend(program: Program) -> None:
        program.model.train()
        for name in names:
            outer = [name, *(name.rsplit(".", cut)[0] for cut in range(1, name.count(".") + 1))]
            for part in map(program.model.get_submodule, outer):
                if not part.training:
                    part.requires_grad_(False)

    return mend


class _ReadOnly(TorchFunctionMode):
    """Under it nothing writes into some parameters, except while `writable`."""

    def __init__(self, parameters: list[Tensor]) -> None:
        super().__init__()
        self.memory = {parameter.data_ptr() for parameter in parameters if parameter.numel()}
        self.writable = False

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        subject = args[0] if args else (kwargs or {}).get("tensor")
        if not self.writable and _writes(func) and isinstance(subject, Tensor) and subject.data_ptr() in self.memory:
            return subject
        return func(*args, **kwargs or {})


def _writes(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    in_place = name.endswith("_") and not name.endswith("__") and name not in HARMLESS
    return in_place or name == "__setitem__" or function == Tensor.data.__set__


def written_by_optimizers_only(program: Program) -> None:
    """Let nothing but steps of optimizers change weights in updates and forward passes: no loading, no initialising."""
    step, network, forward = program.train_step or usual_step, program.model, program.model.forward

    def reading(*inputs: Any, **named: Any) -> Any:
        with _ReadOnly(list(network.parameters())):
            return forward(*inputs, **named)

    def protected(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
        mode = _ReadOnly(list(model.parameters()))
        hooks = [
            register_optimizer_step_pre_hook(lambda *_: setattr(mode, "writable", True)),
            register_optimizer_step_post_hook(lambda *_: setattr(mode, "writable", False)),
        ]
        try:
            with mode:
                return step(model, batch, loss_fn, optimizer)
        finally:
            for hook in hooks:
                hook.remove()

    network.forward, program.train_step = reading, protected
