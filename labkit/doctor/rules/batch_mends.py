"""Mechanical fixes of what a batch holds: targets in the form the loss takes, numbers that are finite."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from labkit.doctor.nested import leaves
from labkit.doctor.program import Program
from labkit.doctor.rules.data_mends import Changed

Mend = Callable[[Program], None]


def in_both_loaders(change: Callable[[Tensor], Tensor], place: int) -> Mend:
    """Return a fix that changes inputs (place 0) or targets (place 1) of training and validation."""

    def mend(program: Program) -> None:
        for name in ("train_loader", "val_loader"):
            loader = getattr(program, name)
            if loader is not None:
                setattr(program, name, Changed(loader, change, place))

    return mend


whole_targets = in_both_loaders(Tensor.long, 1)
real_targets = in_both_loaders(Tensor.float, 1)
whole_inputs = in_both_loaders(Tensor.long, 0)
targets_without_column = in_both_loaders(lambda targets: targets.squeeze(1), 1)


def classes_of_one_hot(loss_fn: Callable, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of the classes that rows of zeros and a one stand for."""
    return loss_fn(outputs, targets.argmax(1))


def in_one_shape(loss_fn: Callable, outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the loss of outputs in the shape of the targets: number beside number, where there are as many of both."""
    return loss_fn(outputs.reshape(targets.shape), targets)


class Finite:
    """A loader without the samples that hold a NaN or an infinity."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self.loader:
            kept = torch.stack([leaf.flatten(1).isfinite().all(1) for leaf in _columns(batch)]).all(0)
            if kept.any():
                yield tuple(part[kept] for part in batch)


def _columns(batch: Any) -> list[Tensor]:
    """Return the tensors of a batch as (samples, numbers)."""
    return [leaf.reshape(len(leaf), -1) for leaf in leaves(batch) if isinstance(leaf, Tensor)]


def finite_samples(program: Program) -> None:
    """Leave samples with a NaN or an infinity out, of training and of validation."""
    for name in ("train_loader", "val_loader"):
        loader = getattr(program, name)
        if loader is not None:
            setattr(program, name, Finite(loader))


def filled(program: Program) -> None:
    """Put zeros where inputs are NaN or infinite, in training and in validation."""
    in_both_loaders(_filled, 0)(program)


def _filled(inputs: Tensor) -> Tensor:
    return inputs.nan_to_num(0.0, posinf=0.0, neginf=0.0)
