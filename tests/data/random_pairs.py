"""A data set that draws from every global generator, and a program that reads it with workers, as users do.

`python random_pairs.py START_METHOD WORKERS` prints the digest of what the workers gave. It is a file of its own
because a worker that is spawned, as on Windows and macOS, imports the main module again.
"""

import hashlib
import multiprocessing
import random
import sys

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset

from labkit.data.images import ImageSet
from labkit.data.loading import Loader, loader
from labkit.data.samplers import balanced


class RandomPairs(Dataset):
    """Pairs (index and three random numbers: float64 (4,), label)."""

    def __len__(self) -> int:
        return 13

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        numbers = [index, random.random(), numpy.random.random(), torch.rand(()).item()]
        return torch.tensor(numbers, dtype=torch.float64), index % 3


def pictures() -> ImageSet:
    images = torch.arange(13 * 48).remainder(251).to(torch.uint8).view(13, 3, 4, 4)
    return ImageSet(images, torch.arange(13) % 3, ("a", "b", "c"), "test")


def make(kind: str, num_workers: int, start_method: str | None = None) -> Loader:
    """Return a loader over random pairs or augmented pictures, shuffled or sampled: batches of 4, 4, 4 and 1."""
    options = {"seed": 3, "num_workers": num_workers, "start_method": start_method}
    if kind == "pairs":
        return loader(RandomPairs(), 4, shuffle=True, **options)
    if kind == "balanced":
        return loader(RandomPairs(), 4, sampler=balanced([index % 3 for index in range(13)]), **options)
    return loader(pictures(), 4, shuffle=True, flip=True, shift=2, cutout=2, **options)


def digest(batches: Loader, epochs: int = 2) -> str:
    """Return one hash of all bits that a loader gives."""
    content = hashlib.sha256()
    for _ in range(epochs):
        for inputs, targets in batches:
            content.update(inputs.contiguous().numpy())
            content.update(targets.numpy())
    return content.hexdigest()


if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    print(digest(make("pairs", int(sys.argv[2]))), digest(make("pictures", int(sys.argv[2]))))
