"""The weights of a model: under names that no wrapper changes, from a checkpoint, and as a running average."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn as nn
from torch import Tensor

from labkit.errors import CheckpointError


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside `torch.compile` or a parallel wrapper: its names carry no `_orig_mod.` or `module.`."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inner = model.module
        if inner is None:
            return model
        model = inner


def load_weights(model: nn.Module, weights: dict, origin: Path) -> None:
    """Load weights into a model, or raise CheckpointError that names the first entry that does not fit."""
    target = unwrapped(model)
    ours = target.state_dict()
    for name in [*ours, *weights]:
        if name not in weights or name not in ours:
            side = "the checkpoint" if name not in weights else "this model"
            problem = f"{side} has no {name!r}"
        elif not isinstance(weights[name], torch.Tensor):
            problem = f"{name!r} is no tensor there"
        elif ours[name].shape != weights[name].shape:
            problem = f"{name!r} is {tuple(weights[name].shape)} there and {tuple(ours[name].shape)} here"
        else:
            continue
        raise CheckpointError(
            f"The checkpoint in {origin} is of another model than this {type(target).__name__}: {problem}. "
            "Build the model with the settings in run.json."
        )
    target.load_state_dict(weights)


def infinite_entries(model: nn.Module) -> set[str]:
    """Return the names of what holds a NaN or an infinity in a model's state. Waits for the device."""
    state = unwrapped(model).state_dict()
    return {name for name, value in state.items() if isinstance(value, Tensor) and not torch.isfinite(value).all()}


class Average:
    """A running average of everything in a model's state, which is often better than the last state.

    After update n the average keeps the share min(decay, (1 + n) / (10 + n)) of itself and takes the rest from the
    model: so it forgets the random start soon (the rule of TensorFlow's ExponentialMovingAverage). The statistics of a
    batch normalisation are averaged like weights, since they must fit them; its counter is copied.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.model, self.decay = unwrapped(model), decay
        self.values = {name: value.clone() for name, value in self._state().items()}
        device = next(iter(self.values.values())).device
        self.updates = torch.zeros((), dtype=torch.float32, device=device)

    def follow(self, stepped: Tensor) -> None:
        """Take one update in, if the optimizer stepped: bool scalar. Nothing here waits for the device."""
        self.updates += stepped
        keep = ((1 + self.updates) / (10 + self.updates)).clamp(max=self.decay)
        for name, value in self._state().items():
            own = self.values[name]
            moved = own.lerp(value, (1 - keep).to(own.dtype)) if own.is_floating_point() else value
            moves = stepped & (value != own)  # an infinity that stays, as in an attention mask, would become NaN
            torch.where(moves, moved, own, out=own)

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Run a block with the average in the model, then put the model's own numbers back."""
        own = {name: value.clone() for name, value in self._state().items()}
        self.put_into_model()
        try:
            yield
        finally:
            self._fill(own)

    def put_into_model(self) -> None:
        """Replace the model's own numbers by the average."""
        self._fill(self.values)

    def state_dict(self) -> dict:
        """Return the average as plain data."""
        return {"values": self.values, "updates": self.updates}

    def load_state_dict(self, state: dict) -> None:
        """Go back to an average that `state_dict` returned."""
        for name, value in self.values.items():
            value.copy_(state["values"][name])
        self.updates.copy_(state["updates"])

    def _state(self) -> dict[str, Tensor]:
        return {name: value for name, value in self.model.state_dict().items() if isinstance(value, Tensor)}

    def _fill(self, values: dict[str, Tensor]) -> None:
        for name, value in self._state().items():
            value.copy_(values[name])
