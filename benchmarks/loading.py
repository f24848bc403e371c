"""Pictures per second: labkit's loader against the usual ones, with the same work for each picture.

    python -m benchmarks.loading [--json]

The work: a random flip, a random crop after reflection padding by 4, float32, normalised. The data: 50,000 pictures of
3 × 32 × 32 in memory. The usual pipeline transforms one picture after the other in a DataLoader, with the number of
workers that is best on this machine. The masked one changes whole batches, once for each shift that occurs.
"""

import argparse
import os
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from benchmarks.measuring import median_seconds, report
from labkit.data import ImageSet, loader
from labkit.table import Table

PICTURES, BATCH, SHIFT = 50_000, 512, 4
FEW = 5_000  # for the usual pipeline, which would take half a minute for all
ROUNDS = 5


class OneByOne(Dataset):
    """The usual data set: a picture at a time, through torchvision's transforms."""

    def __init__(self, data: ImageSet) -> None:
        self.data = data
        mean, deviation = data.statistics()
        self.transform = v2.Compose(
            [
                v2.RandomHorizontalFlip(),
                v2.RandomCrop(32, padding=SHIFT, padding_mode="reflect"),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(mean.tolist(), deviation.tolist()),
            ]
        )

    def __len__(self) -> int:
        return FEW

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image, label = self.data[index]
        return self.transform(image), label


class Masked:
    """A whole-batch loader with a mask for each shift; it keeps all pictures padded and normalised, as float32."""

    def __init__(self, data: ImageSet) -> None:
        mean, deviation = (value[:, None, None] for value in data.statistics())
        inputs = (data.images.float() / 255 - mean) / deviation
        self.padded = torch.nn.functional.pad(inputs, (SHIFT,) * 4, mode="reflect")
        self.labels = data.labels

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for indices in torch.randperm(len(self.labels)).split(BATCH):
            padded, count = self.padded[indices], len(indices)
            inputs = padded.new_empty(count, 3, 32, 32)
            shifts = torch.randint(0, 2 * SHIFT + 1, (count, 2))
            for down in range(2 * SHIFT + 1):
                for right in range(2 * SHIFT + 1):
                    mask = (shifts[:, 0] == down) & (shifts[:, 1] == right)
                    inputs[mask] = padded[mask, :, down : down + 32, right : right + 32]
            mirrored = torch.rand(count) < 0.5
            yield torch.where(mirrored[:, None, None, None], inputs.flip(3), inputs), self.labels[indices]


def count(batches: object) -> int:
    """Go through one epoch and return the number of pictures."""
    return sum(len(targets) for _, targets in batches)


def best_workers(data: OneByOne) -> tuple[DataLoader, int]:
    """Return the usual loader with the number of workers that is fastest here."""
    choices = sorted({0, 1, 2, os.cpu_count() or 1})
    loaders = {
        workers: DataLoader(data, BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
        for workers in choices
    }
    seconds = median_seconds({str(workers): lambda one=one: count(one) for workers, one in loaders.items()}, rounds=2)
    best = int(min(seconds, key=seconds.get))
    return loaders[best], best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    as_json = parser.parse_args().json
    noise = torch.randint(0, 256, (PICTURES, 3, 32, 32), dtype=torch.uint8)
    data = ImageSet(noise, torch.arange(PICTURES) % 10, tuple("0123456789"), "noise")
    usual, workers = best_workers(OneByOne(data))
    mine, masked = loader(data, BATCH, shuffle=True, flip=True, shift=SHIFT), Masked(data)
    seconds = median_seconds(
        {"labkit": lambda: count(mine), "masked": lambda: count(masked), "usual": lambda: count(usual)}, ROUNDS
    )
    rate = {
        "labkit": PICTURES / seconds["labkit"],
        "masked": PICTURES / seconds["masked"],
        "usual": FEW / seconds["usual"],
    }
    names = {
        "labkit": "labkit.data.loader, one process",
        "masked": "whole batches, a mask for each shift, one process",
        "usual": f"torchvision's transforms in a DataLoader, {workers} workers",
    }
    rows = [
        {
            "loader": names[name],
            "pictures per second": round(rate[name]),
            "labkit is faster by": rate["labkit"] / rate[name],
        }
        for name in names
    ]
    ratios = {"over_torchvision": rate["labkit"] / rate["usual"], "over_masked": rate["labkit"] / rate["masked"]}
    report(Table(rows, f"Flip, crop, normalise: {PICTURES:,} pictures of 3 × 32 × 32."), ratios, as_json)


if __name__ == "__main__":
    main()
