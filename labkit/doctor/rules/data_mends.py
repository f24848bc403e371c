"""Mechanical fixes of the data: each changes a Program in place; inputs are changed on their way out of a loader."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from labkit.doctor.probe.data_reading import draw, stacked
from labkit.doctor.program import Program


class Changed:
    """A loader whose inputs are changed before anybody sees them."""

    def __init__(self, loader: Any, change: Callable[[Tensor], Tensor]):
        self.loader, self.change = loader, change

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for batch in self.loader:
            yield (self.change(batch[0]), *batch[1:])


def _moments(loader: Any) -> tuple[Tensor, Tensor] | None:
    inputs = stacked(draw(loader)).inputs
    if inputs is None or not inputs.is_floating_point():
        return None
    axes = (0,) if inputs.dim() <= 2 else (0, *range(2, inputs.dim())) if inputs.dim() > 3 else (0, 1)
    spread = inputs.std(axes, keepdim=True)
    return inputs.mean(axes, keepdim=True), torch.where(spread > 0, spread, torch.ones_like(spread))


def standardised(program: Program) -> None:
    """Give every feature (or channel) mean 0 and deviation 1, by what training data have."""
    mean, spread = _moments(program.train_loader)
    for name in ("train_loader", "val_loader"):
        loader = getattr(program, name)
        if loader is not None:
            setattr(program, name, Changed(loader, lambda inputs: (inputs - mean) / spread))


def to_one(program: Program) -> None:
    """Divide all inputs by the largest of the training data: bytes come to lie between 0 and 1."""
    largest = stacked(draw(program.train_loader)).inputs.abs().max()
    for name in ("train_loader", "val_loader"):
        loader = getattr(program, name)
        if loader is not None:
            setattr(program, name, Changed(loader, lambda inputs: inputs / largest))


def validation_like_training(sign: float) -> Callable[[Program], None]:
    """Return a fix that gives validation inputs the mean and deviation of training; sign -1 turns them over."""

    def mend(program: Program) -> None:
        mean, spread = _moments(program.train_loader)
        other, wide = _moments(program.val_loader)
        program.val_loader = Changed(program.val_loader, lambda x: sign * (x - other) / wide * spread + mean)

    return mend
