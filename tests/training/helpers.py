"""Small real data, a small model with dropout and batch normalisation, and a way to compare two runs bit for bit."""

import torch
import torch.nn as nn

from labkit import randomness
from labkit.data.images import ImageSet
from labkit.data.loading import loader


def stripes(count: int = 90, seed: int = 0) -> ImageSet:
    """Draw noisy pictures of three kinds: horizontal stripes, vertical stripes, none."""
    noise = torch.randint(0, 60, (count, 1, 8, 8), generator=randomness.generator(seed, "noise"))
    labels = torch.arange(count) % 3
    stripe = (torch.arange(8) % 2 * 150)[None, None, None, :]
    patterns = torch.stack(
        [stripe.transpose(2, 3).expand(1, 1, 8, 8)[0], stripe.expand(1, 1, 8, 8)[0], torch.zeros(1, 8, 8).long()]
    )
    return ImageSet((noise + patterns[labels]).to(torch.uint8), labels, ("horizontal", "vertical", "none"), "stripes")


def small_model(seed: int = 0) -> nn.Module:
    with randomness.frozen_randomness(seed):
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(256, 3),
        )


def small_loaders(batch_size: int = 8, num_workers: int = 0):
    """Return (training loader with augmentation, validation loader) of 60 and 30 pictures: the last batch is short."""
    data = stripes()
    train, val = data.select(torch.arange(60)), data.select(torch.arange(60, 90))
    train_loader = loader(train, batch_size, shuffle=True, flip=True, shift=1, cutout=2, num_workers=num_workers)
    return train_loader, loader(val, 16, statistics=train_loader.statistics)


def without_times(value):
    """Return a history, or a checkpoint's content, without what a clock put in."""
    if isinstance(value, dict):
        return {key: without_times(entry) for key, entry in value.items() if key not in ("seconds", "run_dir", "name")}
    return [without_times(entry) for entry in value] if isinstance(value, list | tuple) else value


def assert_identical(first, second, where: str = "") -> None:
    """Compare nested plain data bit for bit; name the first place that differs."""
    assert type(first) is type(second), where
    if isinstance(first, dict):
        assert list(first) == list(second), where
        for key in first:
            assert_identical(first[key], second[key], f"{where}/{key}")
    elif isinstance(first, list | tuple):
        assert len(first) == len(second), where
        for index, pair in enumerate(zip(first, second, strict=True)):
            assert_identical(*pair, f"{where}/{index}")
    elif isinstance(first, torch.Tensor):
        assert first.dtype == second.dtype and torch.equal(first, second), where
    else:
        assert first == second, where
