"""Note who calls what, in which order, while a piece of the user's program runs.

Python tells a profile function about every call (`sys.setprofile`). So nothing of the user's or of torch's is replaced,
and a function is recognised under whatever name it was imported.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch
import torch.nn as nn
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import _get_current_function_mode


@dataclass
class Event:
    """One call: its kind, the object it was made on (or the first argument), and the arguments that matter.

    kind: "mode" (`train`, `eval`), "backward", "zero_grad", "step", "clip", "schedule", "scale", "unscale",
    "scaler step", "load", "state", "apply", "initialise", "dropout", "softmax", "forward" (of the model).
    order: its place among all events. update: the number of the update in which it came, -1 outside.
    """

    kind: str
    subject: Any
    arguments: dict[str, Any] = field(default_factory=dict)
    order: int = 0
    update: int = -1


def _code_of(function: Callable) -> CodeType:
    return inspect.unwrap(function).__code__


def _watched() -> dict[CodeType, tuple[str, str, tuple[str, ...]]]:
    """Return, for the code of each function of interest: kind of event, name of the subject, names of arguments."""
    scaler, optimizer = torch.amp.GradScaler, torch.optim.Optimizer
    schedulers = torch.optim.lr_scheduler
    watched = {
        nn.Module.train: ("mode", "self", ("mode",)),
        nn.Module.zero_grad: ("zero_grad", "self", ("set_to_none",)),
        nn.Module.load_state_dict: ("load", "self", ("state_dict", "strict")),
        nn.Module.state_dict: ("state", "self", ()),
        nn.Module.apply: ("apply", "self", ("fn",)),
        torch.Tensor.backward: ("backward", "self", ("retain_graph",)),
        torch.autograd.backward: ("autograd backward", "tensors", ("retain_graph",)),
        torch.autograd.grad: ("autograd grad", "outputs", ("inputs", "create_graph")),
        optimizer.zero_grad: ("zero_grad", "self", ("set_to_none",)),
        optimizer.__init__: ("optimizer made", "self", ()),
        torch.nn.utils.clip_grad._clip_grads_with_norm_: ("clip", "parameters", ("max_norm",)),  # with them as a list
        torch.nn.utils.clip_grad_value_: ("clip", "parameters", ("clip_value",)),
        schedulers.LRScheduler.step: ("schedule", "self", ()),
        schedulers.ReduceLROnPlateau.step: ("schedule", "self", ("metrics",)),
        scaler.scale: ("scale", "self", ("outputs",)),
        scaler.unscale_: ("unscale", "self", ("optimizer",)),
        scaler.step: ("scaler step", "self", ("optimizer",)),
        functional.dropout: ("dropout", "input", ("p", "training")),
        functional.softmax: ("softmax", "input", ("dim",)),
        functional.log_softmax: ("log_softmax", "input", ("dim",)),
    }
    return {_code_of(function): how for function, how in watched.items()}


def _is_public(name: str) -> bool:
    """Say whether a function of torch.nn.init is one that users call: `zeros_`, and not what stands behind it."""
    return name.endswith("_") and not name.startswith("_")


def _with_gradient(parameters: Any) -> int | None:
    """Return how many of some parameters have a gradient, None if they can be read only once."""
    if isinstance(parameters, torch.Tensor):
        return int(parameters.grad is not None)
    if not isinstance(parameters, list | tuple):
        return None
    return sum(parameter.grad is not None for parameter in parameters)


class Recorder:
    """Collects events; `update` is set by whoever runs the updates.

    at_event: called with each event at once, while the call has not done its work yet (after it for "stepped").
    """

    def __init__(self, at_event: Callable[[Event], None] | None = None) -> None:
        self.events: list[Event] = []
        self.update = -1
        self._at_event = at_event
        self._watched = _watched()
        self._init_file = inspect.getfile(nn.init)
        self._functional_file = inspect.getfile(functional)

    def note(self, kind: str, subject: Any, **arguments: Any) -> None:
        """Add an event."""
        event = Event(kind, subject, arguments, len(self.events), self.update)
        self.events.append(event)
        if self._at_event is not None:
            self._at_event(event)

    def _profile(self, frame: FrameType, what: str, _: Any) -> None:
        if what != "call":
            return
        code = frame.f_code
        how = self._watched.get(code)
        if how is None:
            if code.co_name == "reset_parameters" and "self" in frame.f_locals:
                self.note("initialise", frame.f_locals["self"])
            elif code.co_filename == self._init_file and "tensor" in frame.f_locals and _is_public(code.co_name):
                self.note("initialise", frame.f_locals["tensor"], function=code.co_name)
            return
        kind, subject, names = how
        if code.co_filename == self._functional_file and _get_current_function_mode() is not None:
            return  # the mode answers: if it calls the function itself, that call is the one that counts
        found = frame.f_locals
        arguments = {name: found.get(name) for name in names}
        if kind == "clip":
            arguments["with_gradient"] = _with_gradient(found["parameters"])
        self.note(kind, found.get(subject), **arguments)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note the calls of this thread while the block runs; an outer profile function is put back."""
        before = sys.getprofile()
        last: list = []

        def begins(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            if optimizer._optimizer_step_pre_hooks:  # they come after this one, and may change the gradients
                last.append(optimizer.register_step_pre_hook(lambda *_: self.note("step", optimizer)))
            else:
                self.note("step", optimizer)

        def ends(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            while last:
                last.pop().remove()
            self.note("stepped", optimizer)

        hooks = [register_optimizer_step_pre_hook(begins), register_optimizer_step_post_hook(ends)]
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)
            for hook in (*hooks, *last):
                hook.remove()
