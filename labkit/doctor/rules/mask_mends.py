"""Mechanical fixes of masks that do not lie on their pictures: for a trial, not to be kept."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.probe.data_masks import MOST, TURNS, classes_of, look_at_masks, turned_to_fit, views_of
from labkit.doctor.probe.data_reading import draw, stacked
from labkit.doctor.program import Program


def paired_anew(parts: tuple[str, ...]) -> Callable[[Program], None]:
    """Return a fix that gives each picture of some parts the mask, of all there are, that explains most of it."""

    def mend(program: Program) -> None:
        for part in parts:
            loader = getattr(program, f"{part}_loader")
            samples = stacked(draw(loader, most=MOST, seconds=0.5))
            partners = list(look_at_masks(samples).partners)
            pairs = TensorDataset(samples.inputs[: len(partners)], samples.targets[partners])
            size = getattr(loader, "batch_size", None) or 32
            setattr(program, f"{part}_loader", DataLoader(pairs, size, shuffle=part == "train"))

    return mend


class TurnedToFit:
    """A loader whose masks are turned, each as it fits its picture best."""

    def __init__(self, loader: Any):
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for inputs, targets, *rest in self.loader:
            names = turned_to_fit(views_of(inputs), classes_of(targets))
            turned = [TURNS[name](mask) if name else mask for name, mask in zip(names, targets, strict=True)]
            yield inputs, torch.stack(turned), *rest


def turned_anew(parts: tuple[str, ...]) -> Callable[[Program], None]:
    """Return a fix that turns each mask of some parts as it fits best."""

    def mend(program: Program) -> None:
        for part in parts:
            setattr(program, f"{part}_loader", TurnedToFit(getattr(program, f"{part}_loader")))

    return mend
