"""Mechanical fixes of masks that do not lie on their pictures: for a trial, not to be kept."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset, TensorDataset

from labkit.doctor.probe.data_masks import (
    MOST,
    TURNS,
    classes_of,
    explained_alone,
    look_at_masks,
    turned_to_fit,
    views_of,
)
from labkit.doctor.probe.data_reading import Samples, draw, stacked
from labkit.doctor.program import Program


def paired_anew(parts: tuple[str, ...]) -> Callable[[Program], None]:
    """Return a fix that gives each picture the mask that explains most of it, of all masks that some parts have.

    If both parts are wrong, the mask of a validation picture may be in training: they are put together, paired, and
    split anew. Pictures without a mask that fits well are left out.
    """

    def mend(program: Program) -> None:
        loaders = {part: getattr(program, f"{part}_loader") for part in parts}
        samples = [stacked(draw(loader, most=MOST, seconds=0.5)) for loader in loaders.values()]
        inputs, targets = (torch.cat([getattr(each, side) for each in samples]) for side in ("inputs", "targets"))
        pairs = _best_pairs(inputs, targets)
        cut = len(pairs) * len(samples[0]) // len(inputs)
        for part, rows in zip(parts, (range(cut), range(cut, len(pairs))), strict=False):
            size = getattr(loaders[part], "batch_size", None) or 32
            setattr(program, f"{part}_loader", DataLoader(Subset(pairs, rows), size, shuffle=part == "train"))

    return mend


def _best_pairs(inputs: Tensor, targets: Tensor) -> TensorDataset:
    """Return pictures with the masks that fit them, in random order, without the third that fits worst."""
    partners = list(look_at_masks(Samples(inputs, targets), most=len(inputs)).partners)
    views, masks = views_of(inputs, len(inputs)), classes_of(targets[partners], len(inputs))
    best = explained_alone(views, masks).amax(0).argsort(descending=True)[: max(1, 2 * len(inputs) // 3)]
    rows = best[torch.randperm(len(best), generator=torch.Generator().manual_seed(0))]
    return TensorDataset(inputs[rows], targets[partners][rows])


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
