"""Read samples as a loader would deliver them, within a budget: few, in this process, and always from a copy."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Subset

from labkit import randomness
from labkit.doctor.copying import copied
from labkit.doctor.loading import without_workers
from labkit.doctor.program import Program

MOST_SAMPLES = 600
SECONDS = 0.12  # for one reading


@dataclass
class Samples:
    """Samples side by side: inputs (n, ...) and targets (n, ...), each None where they are no tensors of one shape."""

    inputs: Tensor | None = None
    targets: Tensor | None = None

    def __len__(self) -> int:
        part = self.inputs if self.inputs is not None else self.targets
        return 0 if part is None else len(part)

    @property
    def classes(self) -> Tensor | None:
        """The targets if they are one class number a sample, otherwise None."""
        return self.targets if is_class(self.targets) else None


def loaders_of(program: Program) -> dict[str, Any]:
    """Return copies of the loaders, {"train": ..., "val": ... or None}, that read in this process."""
    copies = copied({"train": program.train_loader, "val": program.val_loader})
    for loader in copies.values():
        if isinstance(loader, DataLoader):
            without_workers(loader)
    return copies


def pair(batch: Any) -> tuple[Any, Any]:
    """Return inputs and targets of a batch (or sample) that is a tuple or list of two or more; else (None, None)."""
    if isinstance(batch, tuple | list) and len(batch) >= 2:
        return batch[0], batch[1]
    return None, None


def draw(loader: Any, most: int = MOST_SAMPLES, seconds: float = SECONDS, seed: int = 0) -> list[Any]:
    """Return the first batches of an epoch: until there are enough samples or the time is over."""
    batches, count, begin = [], 0, time.thread_time()
    with randomness.frozen_randomness(seed):
        for batch in loader:
            batches.append(batch)
            targets = pair(batch)[1]
            count += len(targets) if hasattr(targets, "__len__") else 1
            if count >= most or time.thread_time() - begin > seconds:
                break
    return batches


def stacked(batches: list[Any]) -> Samples:
    """Return the samples of some batches side by side."""
    inputs, targets = zip(*map(pair, batches), strict=True) if batches else ((), ())
    return Samples(_joined(inputs, torch.cat), _joined(targets, torch.cat))


def _joined(parts: tuple, join: Callable) -> Tensor | None:
    if not parts or not all(isinstance(part, Tensor) for part in parts):
        return None
    try:
        return join([part.detach() for part in parts])
    except RuntimeError:  # of different shapes
        return None


def has_places(loader: Any) -> bool:
    """Say whether samples can be read by their number."""
    return isinstance(loader, DataLoader) and not isinstance(loader.dataset, IterableDataset) and size(loader) > 0


def size(loader: DataLoader) -> int:
    """Return how many samples the data set has, 0 if it does not say."""
    try:
        return len(loader.dataset)
    except (TypeError, NotImplementedError):
        return 0


def read(loader: DataLoader, places: list[int], seconds: float = SECONDS, seed: int | None = 0) -> Samples:
    """Return the samples at some places of the data set, as many as there is time for, before they are collated.

    seed: of the random numbers while reading; None goes on with those that are in use.
    """
    if seed is not None:
        with randomness.frozen_randomness(seed):
            return read(loader, places, seconds, None)
    begin, found = time.thread_time(), []
    for place in places:
        inputs, targets = pair(loader.dataset[place])
        found.append((as_tensor(inputs), as_tensor(targets)))
        if time.thread_time() - begin > seconds:
            break
    inputs, targets = zip(*found, strict=True)
    return Samples(_joined(inputs, torch.stack), _joined(targets, torch.stack))


def as_tensor(thing: Any) -> Tensor | None:
    """Return a copy of a tensor, an array or a number as a tensor, None for anything else."""
    try:
        return torch.as_tensor(thing).detach().clone()
    except (TypeError, ValueError, RuntimeError):
        return None


def spread_out(count: int, most: int = MOST_SAMPLES) -> list[int]:
    """Return places from the first to the last, at equal distances, not more than `most`."""
    return [number * count // min(count, most) for number in range(min(count, most))]


def order_of(loader: DataLoader, seed: int = 0, most: int = 20_000) -> list[list[int]] | None:
    """Return the places of an epoch, batch by batch, as the sampler gives them; None if they are no numbers."""
    batches: list[list[int]] = []
    with randomness.frozen_randomness(seed):
        for places in loader.batch_sampler if loader.batch_sampler is not None else loader.sampler:
            try:
                batches.append([int(place) for place in (places if hasattr(places, "__iter__") else [places])])
            except (TypeError, ValueError):
                return None
            if len(batches) * max(1, len(batches[0])) >= most:
                break
    return batches


def prints(values: Tensor) -> list[int]:
    """Return a number for each row that is equal for equal rows only (a hash of its bytes)."""
    rows = values.detach().cpu().flatten(1) if values.dim() > 1 else values.detach().cpu()[:, None]
    return [hash(row.tobytes()) for row in rows.contiguous().numpy()]


def is_class(targets: Tensor | None) -> bool:
    """Say whether targets are one small whole number a sample: (n,), or (n, 1), of few values."""
    if targets is None or targets.numel() != len(targets) or targets.dtype.is_complex:
        return False
    values = targets.flatten()
    whole = not targets.is_floating_point() or bool((values == values.round()).all())
    return whole and 2 <= len(values.unique()) <= max(2, min(100, len(values) // 5))


def root(dataset: Any, places: list[int]) -> tuple[Any, list[int]]:
    """Return the data set under all `Subset`s, and where the places are in it."""
    while isinstance(dataset, Subset):
        places = [int(dataset.indices[place]) for place in places]
        dataset = dataset.dataset
    return dataset, places
