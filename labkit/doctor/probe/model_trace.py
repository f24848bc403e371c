"""Trace the operations of a forward pass: which layer asked for which, on what.

torch tells a function mode about every call of its functions and methods (`torch.overrides`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.overrides import TorchFunctionMode

RECTIFIERS = {
    "relu",
    "relu_",
    "relu6",
    "threshold",
    "_threshold",
    "threshold_",
    "hardtanh",
    "hardtanh_",
    "clamp_min",
    "clamp",
}
RESHAPES = {"view", "reshape"}
CUTS = {
    "detach",
    "data",
    "numpy",
    "item",
    "tolist",
    "argmax",
    "tensor",
    "as_tensor",
    "gt",
    "lt",
    "ge",
    "le",
    "eq",
    "ne",
}
STEPS = {"round", "floor", "ceil", "sign", "trunc"}  # their slope is zero everywhere


@dataclass
class Operation:
    """One call of a torch function: its name, the layer ("" is the model) that made it, and what went in and came out.

    inputs, output: detached; shapes: of the first tensor that went in and of the output. needs, gives: whether any
    input, and the output, require a gradient. options: the other arguments.
    """

    name: str
    layer: str
    given: Tensor | None
    output: Any
    needs: bool
    gives: bool
    recorded: bool
    options: dict[str, Any] = field(default_factory=dict)


class Trace(TorchFunctionMode):
    """The operations of interest while the block runs. behind: in-place changes that autograd did not see.

    keep: names of operations whose tensors are kept.
    """

    def __init__(self, keep: set[str]) -> None:
        super().__init__()
        self.keep = keep
        self.operations: list[Operation] = []
        self.behind: list[tuple[str, str]] = []
        self.layers: list[str] = []
        self._in_graph: dict[int, Tensor] = {}

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
        target = args[0] if args and isinstance(args[0], Tensor) else None
        hidden = target is not None and self._writes_behind(name, target)
        recorded = torch.is_grad_enabled()
        output = func(*args, **kwargs)
        if hidden:
            self.behind.append((name, self.layer))
        if isinstance(output, Tensor) and output.grad_fn is not None and output.layout is torch.strided:
            self._in_graph.setdefault(output.untyped_storage().data_ptr(), output)
        if name in self.keep:
            needs = any(isinstance(a, Tensor) and a.requires_grad for a in (*args, *kwargs.values()))
            gives = isinstance(output, Tensor) and output.requires_grad
            options = dict(enumerate(args[1:], 1)) | kwargs
            self.operations.append(Operation(name, self.layer, target, output, needs, gives, recorded, options))
        return output

    @property
    def layer(self) -> str:
        """The layer that is running, "" for the model itself."""
        return self.layers[-1] if self.layers else ""

    def _writes_behind(self, name: str, target: Tensor) -> bool:
        """Say whether a call changes, unseen by autograd, the values of something in the middle of a graph."""
        writes = (name.endswith("_") and not name.endswith("__")) or name in ("__setitem__", "__iadd__", "__imul__")
        if not writes or name in ("requires_grad_", "detach_", "retain_grad_") or target.layout is not torch.strided:
            return False
        return target.untyped_storage().data_ptr() in self._in_graph and not (
            target.requires_grad and torch.is_grad_enabled()
        )


@contextmanager
def traced(model: nn.Module, keep: set[str]) -> Iterator[Trace]:
    """Trace the operations of some names while the block runs the model."""
    trace = Trace(keep)

    def leave(*_: Any) -> None:
        trace.layers.pop()

    hooks = []
    for name, module in model.named_modules():
        hooks.append(module.register_forward_pre_hook(lambda _, __, name=name: trace.layers.append(name)))
        hooks.append(module.register_forward_hook(leave, always_call=True))
    try:
        with trace:
            yield trace
    finally:
        for hook in hooks:
            hook.remove()


def option(operation: Operation, name: str, position: int, default: Any) -> Any:
    """Return an argument of an operation, by name or by position."""
    return operation.options.get(name, operation.options.get(position, default))
