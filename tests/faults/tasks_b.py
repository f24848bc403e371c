"""Small data sets for faulty models and objectives: each function returns a training and a validation TensorDataset.

They are drawn from their own fixed generators, so a program that asks twice gets the same samples.
"""

from functools import lru_cache

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

Pair = tuple[TensorDataset, TensorDataset]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def split(count: int, *tensors: Tensor) -> Pair:
    """Return the samples before `count` and those from `count` on."""
    return TensorDataset(*(part[:count] for part in tensors)), TensorDataset(*(part[count:] for part in tensors))


def loaders(pair: Pair, batch_size: int = 40, **options) -> dict:
    """Return the two loaders of a program: the first one shuffles."""
    train, validation = pair
    return {
        "train_loader": DataLoader(train, batch_size, shuffle=True, **options),
        "val_loader": DataLoader(validation, 100),
    }


@lru_cache
def digits(flat: bool = False) -> Pair:
    """Handwritten digits: float32 (N, 1, 8, 8) or (N, 64) from 0 to 1, labels int64 (N,)."""
    bunch = load_digits()
    pixels = torch.tensor(bunch.images, dtype=torch.float32) / 16
    labels = torch.tensor(bunch.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=generator(1))
    pixels = pixels.flatten(1) if flat else pixels[:, None]
    return split(1400, pixels[order], labels[order])


@lru_cache
def rings() -> Pair:
    """Three rings around the origin in two features, six more are noise: float32 (N, 8), labels int64 (N,)."""
    draw = generator(2)
    labels = torch.randint(0, 3, (1500,), generator=draw)
    angle = 6.2832 * torch.rand(1500, generator=draw)
    radius = 0.5 + labels + 0.15 * torch.randn(1500, generator=draw)
    noise = 0.5 * torch.randn(1500, 6, generator=draw)
    return split(1200, torch.cat([torch.stack([radius * angle.cos(), radius * angle.sin()], 1), noise], 1), labels)


@lru_cache
def yields(spread: float = 1.0, offset: float = 0.0, column: bool = False) -> Pair:
    """A crop's yield from six measurements: float32 (N, 6), and float32 (N,) or (N, 1) of that spread around offset."""
    draw = generator(3)
    x = torch.randn(1500, 6, generator=draw)
    y = x[:, 0] + (2 * x[:, 1]).sin() + 0.8 * x[:, 2] * x[:, 3] + 0.1 * torch.randn(1500, generator=draw)
    y = offset + spread * y / y.std()
    return split(1200, x, y[:, None] if column else y)


@lru_cache
def waves(length: int = 24) -> Pair:
    """Four wave forms in noise, of any phase: float32 (N, length, 2), labels int64 (N,)."""
    draw = generator(4)
    labels = torch.randint(0, 4, (1100,), generator=draw)
    time = torch.arange(length) / length
    phase = 6.2832 * torch.rand(1100, 1, generator=draw) + 6.2832 * (1 + labels[:, None]) * time
    x = torch.stack([phase.sin(), phase.cos() * (1 - 2 * (labels[:, None] % 2))], 2)
    return split(900, x + 0.3 * torch.randn(x.shape, generator=draw), labels)


@lru_cache
def ordered_words(length: int = 10) -> Pair:
    """Which of two key words comes first in a sentence of 20 words: int64 (N, length), labels int64 (N,) of two."""
    draw = generator(5)
    x = torch.randint(3, 20, (1600, length), generator=draw)
    places = torch.rand(1600, length, generator=draw).argsort(1)[:, :2].sort(1).values
    labels = torch.randint(0, 2, (1600,), generator=draw)
    rows = torch.arange(1600)
    x[rows, places[:, 0]] = 1 + labels
    x[rows, places[:, 1]] = 2 - labels
    return split(1300, x, labels)


@lru_cache
def topics(longest: int = 14, empty: float = 0.0) -> Pair:
    """Sentences about one of five topics, padded with 0: int64 (N, longest), labels int64 (N,); a share is empty."""
    draw = generator(6)
    labels = torch.randint(0, 5, (1300,), generator=draw)
    common = torch.randint(1, 10, (1300, longest), generator=draw)
    special = 10 + 4 * labels[:, None] + torch.randint(0, 4, (1300, longest), generator=draw)
    x = torch.where(torch.rand(1300, longest, generator=draw) < 0.3, special, common)
    lengths = torch.randint(4, longest + 1, (1300,), generator=draw)
    lengths[torch.rand(1300, generator=draw) < empty] = 0
    return split(1000, x * (torch.arange(longest) < lengths[:, None]), labels)


@lru_cache
def cells(side: int = 12) -> Pair:
    """Round cells in noisy pictures: float32 (N, 1, side, side) and the masks of the cells, float32, same shape."""
    draw = generator(7)
    ticks = torch.arange(side, dtype=torch.float32)
    centre = 2 + (side - 4) * torch.rand(500, 2, 1, 1, generator=draw)
    radius = 1.2 + 1.3 * torch.rand(500, 1, 1, generator=draw)
    distance = ((ticks[:, None] - centre[:, 0]) ** 2 + (ticks - centre[:, 1]) ** 2).sqrt()
    masks = (distance < radius).float()[:, None]
    shade = 0.6 + 0.4 * torch.rand(500, 1, 1, 1, generator=draw)
    return split(400, masks * shade + 0.25 * torch.randn(masks.shape, generator=draw), masks)


@lru_cache
def symptoms() -> Pair:
    """Five ailments that may come together, from twelve readings: float32 (N, 12), float32 (N, 5) of 0 and 1."""
    draw = generator(8)
    y = (torch.rand(1500, 5, generator=draw) < torch.tensor([0.5, 0.4, 0.3, 0.5, 0.2])).float()
    mixing = torch.randn(5, 12, generator=draw)
    return split(1200, (y - 0.4) @ mixing + 0.4 * torch.randn(1500, 12, generator=draw), y)


@lru_cache
def melodies(length: int = 16) -> Pair:
    """Tunes over twelve notes where the two last notes mostly fix the next one: int64 (N, length + 1)."""
    draw = generator(9)
    rule = torch.randint(0, 12, (12, 12), generator=draw)
    notes = [torch.randint(0, 12, (700,), generator=draw) for _ in range(2)]
    while len(notes) < length + 1:
        surprise = torch.randint(0, 12, (700,), generator=draw)
        usual = torch.rand(700, generator=draw) < 0.9
        notes.append(torch.where(usual, rule[notes[-2], notes[-1]], surprise))
    return split(550, torch.stack(notes, 1))


@lru_cache
def colours() -> Pair:
    """Stripes and spots in two colours, pictures channels-last: float32 (N, 12, 12, 3), labels int64 (N,) of four."""
    draw = generator(10)
    labels = torch.randint(0, 4, (1000,), generator=draw)
    shift = torch.randint(0, 4, (1000, 1, 1), generator=draw)
    row, column = torch.arange(12)[:, None], torch.arange(12)[None, :]
    across = torch.where((labels < 2)[:, None, None], row + 0 * column + shift, column + 0 * row + shift) // 2 % 2
    tint = torch.where((labels % 2 == 0)[:, None], torch.tensor([0.9, 0.5, 0.2]), torch.tensor([0.2, 0.5, 0.9]))
    x = 0.5 + (across[..., None] - 0.5) * tint[:, None, None]
    return split(800, x + 0.25 * torch.randn(x.shape, generator=draw), labels)


@lru_cache
def balances(length: int = 8) -> Pair:
    """Whether the sum of a short series is positive: float32 (N, length, 1), labels int64 (N,) of two."""
    draw = generator(11)
    x = torch.randn(1300, length, 1, generator=draw)
    return split(1000, x, (x.sum((1, 2)) > 0).long())


@lru_cache
def tides(window: int = 12, ahead: int = 3) -> Pair:
    """Windows of a tide gauge and the level `ahead` steps after the last one: float32 (N, window), float32 (N,)."""
    time = torch.arange(1500.0)
    level = (0.9 * time).sin() + 0.6 * (0.53 * time + 1).sin() + 0.1 * torch.randn(1500, generator=generator(12))
    windows = level.unfold(0, window, 1)[: 1480 - window]
    return split(1100, windows, level[window - 1 + ahead :][: len(windows)])
