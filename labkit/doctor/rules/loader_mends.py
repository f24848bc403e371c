"""Mechanical fixes of how samples are delivered: order, batches of one, stores that change, chance in validation."""

import copy
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from labkit.doctor.copying import reachable
from labkit.doctor.nested import detached, leaves, mapped
from labkit.doctor.program import Program
from labkit.randomness import frozen_randomness

SMALLEST_BATCH = 16  # where batches of one are meant


def rebuilt(loader: DataLoader, **changes: Any) -> DataLoader:
    """Return a loader of the same data set and settings with some changes."""
    same = ("collate_fn", "num_workers", "pin_memory", "worker_init_fn", "generator", "drop_last", "batch_size")
    settings = {name: getattr(loader, name) for name in same}
    if "shuffle" not in changes:
        settings["sampler"] = loader.sampler
    return DataLoader(changes.pop("dataset", loader.dataset), **settings | changes)


def shuffled(program: Program) -> None:
    """Draw the training samples in random order."""
    program.train_loader = rebuilt(program.train_loader, shuffle=True)


def without_single_samples(program: Program) -> None:
    """Let no training batch have one sample only: leave the rest out, or draw larger batches."""
    loader = program.train_loader
    if not isinstance(loader, DataLoader) or loader.batch_size is None:
        program.train_loader = [batch for batch in loader if len(next(leaves(batch))) > 1]
    elif loader.batch_size == 1:
        program.train_loader = rebuilt(loader, batch_size=SMALLEST_BATCH, drop_last=True)
    else:
        program.train_loader = rebuilt(loader, drop_last=True)


class Untouched(Dataset):
    """A data set whose stored values are the same after a sample was read, and changed, as before."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in vars(self):
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        kept = [(rows, _copy(rows[index])) for rows in self._stores()]
        sample = _own(self.dataset[index])
        for rows, values in kept:
            rows[index] = values
        return sample

    def _stores(self) -> list[Any]:
        """Return the tensors and arrays that have a row for each sample."""
        found = [thing for thing in reachable(self.dataset) if isinstance(thing, Tensor | numpy.ndarray)]
        return [thing for thing in found if thing.ndim and len(thing) == len(self.dataset)]


def _copy(values: Any) -> Any:
    return values.clone() if isinstance(values, Tensor) else numpy.copy(values)


def _own(sample: Any) -> Any:
    """Return a sample with a memory of its own."""
    return mapped(sample, lambda tensor: tensor.detach().clone())


def untouched_store(program: Program) -> None:
    """Read every sample without leaving a trace in the store."""
    for name in ("train_loader", "val_loader"):
        loader = getattr(program, name)
        if isinstance(loader, DataLoader):
            setattr(program, name, rebuilt(loader, dataset=_untouched(loader.dataset)))


def _untouched(dataset: Dataset) -> Dataset:
    return Subset(_untouched(dataset.dataset), dataset.indices) if type(dataset) is Subset else Untouched(dataset)


def validation_without_chance(program: Program) -> None:
    """Take the random transform out of the validation data, if there is one without which samples keep their form."""
    loader = program.val_loader
    program.val_loader = rebuilt(loader, dataset=_without_chance(loader.dataset))


def _without_chance(dataset: Dataset) -> Dataset:
    if type(dataset) is Subset:
        return Subset(_without_chance(dataset.dataset), dataset.indices)
    first = dataset[0]
    for place in _transforms(dataset):
        plain = copy.copy(dataset)
        _leave_out(plain, place)
        if _same_form(first, plain[0]) and _repeats(plain):
            return plain
    return dataset


def _transforms(dataset: Dataset) -> Iterator[tuple[str, int | None]]:
    """Yield the places of functions among the attributes of a data set: (name, None), or in a `transforms` list."""
    for name, value in vars(dataset).items():
        yield from ((name, number) for number in range(len(getattr(value, "transforms", ()))))
        if callable(value) and not isinstance(value, torch.nn.Module | type):
            yield name, None


def _leave_out(dataset: Dataset, place: tuple[str, int | None]) -> None:
    name, number = place
    if number is None:
        setattr(dataset, name, _as_it_is)
        return
    whole = copy.copy(getattr(dataset, name))
    whole.transforms = [*whole.transforms[:number], *whole.transforms[number + 1 :]]
    setattr(dataset, name, whole)


def _as_it_is(thing: Any, *_: Any) -> Any:
    return thing


def _same_form(one: Any, other: Any) -> bool:
    pairs = zip(leaves(one), leaves(other), strict=True)
    return all(
        type(a) is type(b) and (not isinstance(a, Tensor) or (a.shape, a.dtype) == (b.shape, b.dtype)) for a, b in pairs
    )


def _repeats(dataset: Dataset) -> bool:
    """Say whether some samples are the same when they are read again with other random numbers."""
    places = range(min(4, len(dataset)))
    readings = []
    for seed in (0, 1):
        with frozen_randomness(seed):
            readings.append([detached(leaf) for place in places for leaf in leaves(dataset[place])])
    return all(torch.equal(a, b) if isinstance(a, Tensor) else a == b for a, b in zip(*readings, strict=True))
