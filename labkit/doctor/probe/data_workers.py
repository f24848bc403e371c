"""What the workers of a loader would do: played in this process, each with a copy of the data set and seeds of its own.

A loader gives worker number w the seed `base + w` for random, NumPy and torch, with a new base each epoch, then calls
`worker_init_fn(w)`. What the data set remembers is the same in every worker, as all begin as copies.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy
import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data._utils import worker as torch_worker

from labkit import randomness
from labkit.doctor.copying import copied
from labkit.doctor.loading import workers_of
from labkit.doctor.nested import leaves
from labkit.doctor.probe.data_reading import as_tensor, prints, size
from labkit.doctor.program import Program

FIRST = 4  # so many samples are read in a worker


@dataclass
class WorkersEvidence:
    """What was seen of the workers of the training loader.

    workers: how many there are. random: whether one sample, read twice in a worker, differs. same_in_workers: whether
    two workers give it with the same random numbers. same_in_epochs: whether the first worker does so in two epochs.
    whole: how many samples of a stream two workers both began with; 0 for a data set with places.
    """

    workers: int = 0
    random: bool = False
    same_in_workers: bool = False
    same_in_epochs: bool = False
    whole: int = 0


def look_at_workers(program: Program) -> WorkersEvidence:
    """Read the same samples in two workers, and in two epochs; none is started."""
    found, loader = WorkersEvidence(), program.train_loader
    if not isinstance(loader, DataLoader) or workers_of(loader) == 0:
        return found
    found.workers = workers_of(loader)
    if not isinstance(loader.dataset, IterableDataset) and size(loader) == 0:
        return found
    first, again = _readings(loader, worker=0, base=1000, times=2)
    later = _readings(loader, worker=0, base=2000, times=1)[0]
    other = _readings(loader, worker=1, base=1000, times=1)[0] if found.workers > 1 else None
    if isinstance(loader.dataset, IterableDataset):
        found.random = first != later or first != again
        found.whole = len(first) if first == other and len(set(first)) == FIRST else 0
        found.same_in_workers = bool(found.whole)
        return found
    found.random = all(one != two for one, two in zip(first, again, strict=True))
    found.same_in_workers = first == other
    found.same_in_epochs = first == later and not loader.persistent_workers
    return found


def _readings(loader: DataLoader, worker: int, base: int, times: int) -> list[list[int]]:
    """Return, for each of some readings of the same samples in a new worker, the prints of what came out."""
    with _inside(loader, worker, base) as dataset:
        if isinstance(dataset, IterableDataset):
            return [[_print(sample) for sample in islice(dataset, FIRST)] for _ in range(times)]
        places = [number * size(loader) // FIRST for number in range(FIRST)]
        return [[_print(dataset[place]) for place in places] for _ in range(times)]


def _print(sample: Any) -> int:
    values = [as_tensor(leaf) for leaf in leaves(sample)]
    return hash(tuple(prints(value.reshape(1, -1))[0] for value in values if value is not None and value.numel()))


@contextmanager
def _inside(loader: DataLoader, worker: int, base: int) -> Iterator[Any]:
    """Be a worker for a while: yield its copy of the data set; afterwards everything is as it was."""
    pieces = copied({"dataset": loader.dataset, "begin": loader.worker_init_fn})
    seed, threads, outside = base + worker, torch.get_num_threads(), torch_worker._worker_info
    with randomness.frozen_randomness(seed):
        random.seed(seed)
        torch.manual_seed(seed)
        numpy.random.seed(seed)
        torch_worker._worker_info = torch_worker.WorkerInfo(
            id=worker, num_workers=workers_of(loader), seed=seed, dataset=pieces["dataset"]
        )
        try:
            if pieces["begin"] is not None:
                pieces["begin"](worker)
            yield pieces["dataset"]
        finally:
            torch_worker._worker_info = outside
            torch.set_num_threads(threads)
