"""Small raw data sets of every kind, as they are before anything is split, scaled or wrapped in a Dataset.

Real ones come from scikit-learn, drawn ones from fixed generators of their own; every call gives fresh, equal tensors,
so a program may spoil its copy. The samples come in random order unless it says otherwise.
"""

import math
from collections.abc import Iterable
from functools import cache

import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset


def draws(number: int) -> torch.Generator:
    """Return a fresh generator with that seed."""
    return torch.Generator().manual_seed(number)


def shuffled(number: int, *columns: Tensor) -> list[Tensor]:
    """Return the columns in one random order."""
    order = torch.randperm(len(columns[0]), generator=draws(number))
    return [column[order] for column in columns]


def loaders(train: Dataset, validation: Dataset, batch_size: int = 32, **options) -> dict:
    """Return the two loaders of a program; the first one shuffles unless the options say otherwise."""
    options.setdefault("shuffle", True)
    return {
        "train_loader": DataLoader(train, batch_size, **options),
        "val_loader": DataLoader(validation, 200),
    }


def halves(count: int, *columns: Tensor) -> tuple[TensorDataset, TensorDataset]:
    """Return the samples before `count` and those from `count` on."""
    return TensorDataset(*(c[:count] for c in columns)), TensorDataset(*(c[count:] for c in columns))


def digits(count: int = 1797) -> tuple[Tensor, Tensor]:
    """Handwritten digits: float32 (N, 1, 8, 8) from 0 to 1 and int64 (N,) of ten."""
    x, y = shuffled(31, *_digits())
    return x[:count], y[:count]


@cache
def _digits() -> tuple[Tensor, Tensor]:
    bunch = load_digits()
    x = torch.tensor(bunch.images, dtype=torch.float32)[:, None] / 16
    return x, torch.tensor(bunch.target, dtype=torch.int64)


def _table(loaded, number: int) -> tuple[Tensor, Tensor]:
    x, y = torch.tensor(loaded.data, dtype=torch.float32), torch.tensor(loaded.target)
    return tuple(shuffled(number, x, y))


def tumours() -> tuple[Tensor, Tensor]:
    """Benign or malignant from 30 measurements in their own units: float32 (569, 30), int64 (569,)."""
    return _table(load_breast_cancer(), 32)


def wines() -> tuple[Tensor, Tensor]:
    """Three wines from 13 analyses in their own units, up to 1,680: float32 (178, 13), int64 (178,)."""
    return _table(load_wine(), 33)


def diabetes() -> tuple[Tensor, Tensor]:
    """Progress of a disease (25 to 346) from ten standardised readings: float32 (442, 10), float32 (442,)."""
    x, y = _table(load_diabetes(), 34)
    return x / x.std(0), y.float()


def signs(count: int = 600) -> tuple[Tensor, Tensor]:
    """Arrowheads in a colour of their own on grey: uint8 (N, 3, 12, 12), int64 (N,) of four directions."""
    x, y = arrows(count)
    tint = torch.rand(count, 3, 1, 1, generator=draws(44)) - 0.5
    tint = tint / tint.norm(dim=1, keepdim=True)
    return (128 + 80 * x * tint).clamp(0, 255).round().to(torch.uint8), y


def arrows(count: int = 900, side: int = 12) -> tuple[Tensor, Tensor]:
    """Arrowheads that point right, down, left or up, in noise: float32 (N, 1, side, side) and int64 (N,)."""
    draw = draws(35)
    y = torch.randint(0, 4, (count,), generator=draw)
    ticks = torch.arange(side) - (side - 1) / 2
    row = ticks[:, None] - torch.randint(-2, 3, (count, 1, 1), generator=draw)
    column = ticks[None, :] - torch.randint(-2, 3, (count, 1, 1), generator=draw)
    right = ((column + row.abs() - 2).abs() < 0.8) & (row.abs() < 4)
    x = right.float()
    x = torch.stack([image.rot90(-int(turns)) for image, turns in zip(x, y, strict=True)])
    return (x + 0.3 * torch.randn(x.shape, generator=draw))[:, None], y


def signals(count: int = 900, length: int = 24) -> tuple[Tensor, Tensor]:
    """Two sensors hear one of four machines in noise: float32 (N, length, 2) and int64 (N,)."""
    draw = draws(36)
    y = torch.randint(0, 4, (count,), generator=draw)
    time = torch.arange(length) / length
    phase = 2 * math.pi * (torch.rand(count, 1, generator=draw) + (1 + y[:, None]) * time)
    x = torch.stack([phase.sin(), (phase + 1).cos()], 2)
    return x + 0.4 * torch.randn(x.shape, generator=draw), y


def reviews(count: int = 1000, longest: int = 12, words: int = 40, topics: int = 4) -> tuple[Tensor, Tensor]:
    """Short texts on one of some topics, padded with 0: int64 (N, longest) below `words`, int64 (N,)."""
    draw = draws(37)
    y = torch.randint(0, topics, (count,), generator=draw)
    common = torch.randint(1, words, (count, longest), generator=draw)
    special = 1 + 5 * y[:, None] + torch.randint(0, 5, (count, longest), generator=draw)
    x = torch.where(torch.rand(count, longest, generator=draw) < 0.4, special, common)
    length = torch.randint(5, longest + 1, (count, 1), generator=draw)
    return x * (torch.arange(longest) < length), y


def spots(count: int = 400, side: int = 12) -> tuple[Tensor, Tensor]:
    """Bright discs in noisy pictures and where they are: float32 (N, 1, side, side), float32 masks of this shape."""
    draw = draws(38)
    ticks = torch.arange(side)
    centre = 2 + (side - 4) * torch.rand(count, 2, 1, 1, generator=draw)
    distance = (ticks[:, None] - centre[:, 0]) ** 2 + (ticks - centre[:, 1]) ** 2
    mask = (distance < 4 + 4 * torch.rand(count, 1, 1, generator=draw)).float()[:, None]
    return mask + 0.35 * torch.randn(mask.shape, generator=draw), mask


def rare(count: int = 2000, share: float = 0.05, features: int = 8) -> tuple[Tensor, Tensor]:
    """A rare event that overlaps with the ordinary: float32 (N, features), int64 (N,) of 0 and 1."""
    draw = draws(39)
    y = (torch.rand(count, generator=draw) < share).long()
    centre = torch.zeros(features)
    centre[:3] = 1.2
    return torch.randn(count, features, generator=draw) + y[:, None] * centre, y


def melodies(count: int = 500, length: int = 14, notes: int = 8) -> Tensor:
    """Tunes in which a note mostly fixes the next: int64 (N, length)."""
    draw = draws(40)
    rule = torch.randperm(notes, generator=draw)
    tune = [torch.randint(0, notes, (count,), generator=draw)]
    while len(tune) < length:
        other = torch.randint(0, notes, (count,), generator=draw)
        tune.append(torch.where(torch.rand(count, generator=draw) < 0.85, rule[tune[-1]], other))
    return torch.stack(tune, 1)


def tides(length: int = 1200) -> Tensor:
    """A long series of two overlaid waves with a little noise: float32 (length,)."""
    time = torch.arange(length)
    return (time / 4).sin() + 0.6 * (time / 11).sin() + 0.05 * torch.randn(length, generator=draws(41))


def patients(count: int = 120, visits: int = 8, features: int = 12) -> tuple[Tensor, Tensor, Tensor]:
    """Visits of patients: float32 (N, features), int64 diagnosis (N,), int64 patient (N,), visit after visit.

    A patient's readings hardly change, and say little about the diagnosis of other patients.
    """
    draw = draws(42)
    y = torch.randint(0, 2, (count,), generator=draw)
    person = torch.randn(count, features, generator=draw)
    person[:, 0] += 0.8 * (2 * y - 1)
    x = person[:, None] + 0.15 * torch.randn(count, visits, features, generator=draw)
    return x.flatten(0, 1), y.repeat_interleave(visits), torch.arange(count).repeat_interleave(visits)


def crops(count: int = 1200) -> tuple[Tensor, Tensor]:
    """A harvest of spread 1 from six measurements: float32 (N, 6), float32 (N,)."""
    draw = draws(43)
    x = torch.randn(count, 6, generator=draw)
    y = (2 * x[:, 0]).sin() + x[:, 1] * x[:, 2] + 0.5 * x[:, 3] + 0.1 * torch.randn(count, generator=draw)
    return x, y / y.std()


def labels_of(loader: Iterable) -> Tensor:
    """Return all targets of a loader, in the order in which they come."""
    return torch.cat([y for _, y in loader])
