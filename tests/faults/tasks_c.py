"""Small data sets for faulty updates and for healthy programs: each returns a training and a validation TensorDataset.

Real ones come from scikit-learn, drawn ones from their own fixed generators, so that every call gives equal samples.
"""

import math
from functools import lru_cache

import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from labkit.data import shapes as draw_shapes

Pair = tuple[TensorDataset, TensorDataset]


def draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def cut(count: int, *columns: Tensor) -> Pair:
    """Return the samples before `count` and those from `count` on."""
    return TensorDataset(*(each[:count] for each in columns)), TensorDataset(*(each[count:] for each in columns))


def both(pair: Pair, batch_size: int = 32, **options) -> dict:
    """Return the two loaders of a program; the first one shuffles."""
    return {
        "train_loader": DataLoader(pair[0], batch_size, shuffle=True, **options),
        "val_loader": DataLoader(pair[1], 200),
    }


def _shuffled(seed: int, *columns: Tensor) -> list[Tensor]:
    order = torch.randperm(len(columns[0]), generator=draws(seed))
    return [column[order] for column in columns]


def _standardised(count: int, x: Tensor) -> Tensor:
    return (x - x[:count].mean(0)) / x[:count].std(0)


@lru_cache
def handwriting(count: int = 1200) -> Pair:
    """Handwritten digits, float32 (N, 1, 8, 8) from 0 to 1 and int64 (N,) of ten; `count` for training, 500 beside."""
    bunch = load_digits()
    x = torch.tensor(bunch.images, dtype=torch.float32)[:, None] / 16
    x, y = _shuffled(11, x, torch.tensor(bunch.target, dtype=torch.int64))
    return cut(count, x[: count + 500], y[: count + 500])


@lru_cache
def wines(raw: bool = False) -> Pair:
    """Chemical analyses of three wines: float32 (178, 13) standardised, or raw with ranges up to 1,680; int64 (N,)."""
    bunch = load_wine()
    x = torch.tensor(bunch.data, dtype=torch.float32)
    x, y = _shuffled(12, x, torch.tensor(bunch.target, dtype=torch.int64))
    return cut(120, x if raw else _standardised(120, x), y)


@lru_cache
def tumours(column: bool = False) -> Pair:
    """Benign or malignant from 30 measurements: float32 (569, 30) standardised, int64 (N,) or float32 (N, 1)."""
    bunch = load_breast_cancer()
    x = torch.tensor(bunch.data, dtype=torch.float32)
    x, y = _shuffled(13, x, torch.tensor(bunch.target, dtype=torch.int64))
    return cut(400, _standardised(400, x), y[:, None].float() if column else y)


@lru_cache
def diabetes() -> Pair:
    """How far a disease went after a year: float32 (442, 10) standardised and float32 (N, 1) from 25 to 346."""
    bunch = load_diabetes()
    x, y = torch.tensor(bunch.data, dtype=torch.float32), torch.tensor(bunch.target, dtype=torch.float32)
    x, y = _shuffled(14, x, y[:, None])
    return cut(340, _standardised(340, x), y)


@lru_cache
def figures(count: int = 200, side: int = 32) -> Pair:
    """Drawn shapes in colour: float32 (N, 3, side, side) around 0 and int64 (N,) of four; a quarter is validation."""
    found = draw_shapes(count * 3, seed=5)
    kept = found.labels < 4
    x, y = found.images[kept][:count].float() / 127.5 - 1, found.labels[kept][:count]
    if side != 32:
        x = torch.nn.functional.interpolate(x, size=side, mode="bilinear", antialias=True)
    return cut(3 * count // 4, x, y)


@lru_cache
def clusters(classes: int = 4, features: int = 10, count: int = 1200) -> Pair:
    """Two clouds of points a class: float32 (N, features), int64 (N,)."""
    draw = draws(15)
    centres = 1.6 * torch.randn(2 * classes, features, generator=draw)
    member = torch.randint(0, 2 * classes, (count + 400,), generator=draw)
    x = centres[member] + 0.9 * torch.randn(count + 400, features, generator=draw)
    return cut(count, x, member % classes)


@lru_cache
def surface(spread: float = 1.0) -> Pair:
    """A bent surface over five numbers: float32 (1600, 5), float32 (1600, 1) with that deviation."""
    draw = draws(16)
    x = torch.randn(1600, 5, generator=draw)
    y = (2 * x[:, 0]).sin() + x[:, 1] * x[:, 2] + 0.5 * x[:, 3] + 0.1 * torch.randn(1600, generator=draw)
    return cut(1200, x, spread * y[:, None] / y.std())


@lru_cache
def vibrations(length: int = 20, count: int = 900) -> Pair:
    """Three machines heard in noise: float32 (N, length, 3) from three sensors, int64 (N,) of three."""
    draw = draws(17)
    y = torch.randint(0, 3, (count + 300,), generator=draw)
    time = torch.arange(length) / length
    phase = 2 * math.pi * (torch.rand(count + 300, 1, generator=draw) + (1.5 + y[:, None]) * time)
    x = torch.stack([phase.sin(), phase.cos(), (2 * phase).sin()], 2)
    return cut(count, x + 0.5 * torch.randn(x.shape, generator=draw), y)


@lru_cache
def phrases(longest: int = 12, count: int = 900) -> Pair:
    """Which of three moods has most words in a phrase padded with 0: int64 (N, longest), int64 (N,) of three."""
    draw = draws(18)
    y = torch.randint(0, 3, (count + 300,), generator=draw)
    moody = 1 + 5 * y[:, None] + torch.randint(0, 5, (count + 300, longest), generator=draw)
    x = torch.where(torch.rand(count + 300, longest, generator=draw) < 0.5, moody, 16)
    x = torch.where(x == 16, torch.randint(1, 30, x.shape, generator=draw), x)
    length = torch.randint(5, longest + 1, (count + 300, 1), generator=draw)
    return cut(count, x * (torch.arange(longest) < length), y)


@lru_cache
def sayings(length: int = 12, count: int = 500) -> Pair:
    """Texts in which two letters mostly fix the third: int64 (N, length) and the same moved by one, 10 letters."""
    draw = draws(19)
    rule = torch.randint(0, 10, (10, 10), generator=draw)
    letters = [torch.randint(0, 10, (count + 150,), generator=draw) for _ in range(2)]
    while len(letters) <= length:
        usual = torch.rand(count + 150, generator=draw) < 0.9
        other = torch.randint(0, 10, (count + 150,), generator=draw)
        letters.append(torch.where(usual, rule[letters[-2], letters[-1]], other))
    text = torch.stack(letters, 1)
    return cut(count, text[:, :-1], text[:, 1:])


@lru_cache
def visits() -> Pair:
    """How many customers come in an hour, from six circumstances: float32 (1500, 6), counts float32 (1500, 1)."""
    draw = draws(20)
    x = torch.randn(1500, 6, generator=draw)
    rate = (1 + 0.6 * x[:, 0] - 0.4 * x[:, 1] + 0.3 * x[:, 2] * x[:, 3]).clamp(max=4).exp()
    return cut(1100, x, torch.poisson(rate, generator=draw)[:, None])


@lru_cache
def tags() -> Pair:
    """Six tags that a text of 40 words may carry: float32 (1400, 40) of 0 and 1, float32 (1400, 6) of 0 and 1."""
    draw = draws(21)
    y = (torch.rand(1400, 6, generator=draw) < 0.35).float()
    hints = 2.5 * torch.randn(6, 40, generator=draw)
    return cut(1000, (torch.rand(1400, 40, generator=draw) < (y @ hints - 1.5).sigmoid()).float(), y)


@lru_cache
def blobs(side: int = 12) -> Pair:
    """Noisy pictures with a bright rectangle: float32 (N, 1, side, side), masks of the same shape, float32."""
    draw = draws(22)
    ticks = torch.arange(side)
    start = torch.randint(1, side - 5, (520, 2), generator=draw)
    end = start + torch.randint(2, 6, (520, 2), generator=draw)
    rows = (ticks >= start[:, :1]) & (ticks < end[:, :1])
    columns = (ticks >= start[:, 1:]) & (ticks < end[:, 1:])
    mask = (rows[:, :, None] & columns[:, None, :]).float()[:, None]
    return cut(400, mask - 0.5 + 0.4 * torch.randn(mask.shape, generator=draw), mask)
