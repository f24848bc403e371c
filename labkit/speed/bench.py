"""The small trainings with which devices are measured: the same ones everywhere, with larger batches on a GPU."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit import models, randomness

CLASSES = 10


@dataclass(frozen=True)
class Bench:
    """A device to measure on. quick: small and few, for a look; else as much as gives figures to keep.

    notes: what could not be measured here, each in a sentence.
    """

    device: torch.device
    quick: bool = True
    notes: list[str] = field(default_factory=list)

    @property
    def batch_size(self) -> int:
        """Pictures in a batch: what a CPU computes in a moment, and what a GPU needs to have work."""
        if self.device.type == "cpu":
            return 8 if self.quick else 32
        return 256 if self.quick else 1024

    @property
    def side(self) -> int:
        """Pixels of a side of a picture."""
        return 16 if self.quick and self.device.type == "cpu" else 32

    @property
    def rounds(self) -> int:
        """How often each way is measured."""
        return 5 if self.quick else 15

    @property
    def seconds(self) -> float:
        """After how long no further round begins, once there are three."""
        return 2.0 if self.quick else 20.0

    def network(self) -> nn.Module:
        """Return the convolutional network of the course on the device, with the same weights each time."""
        return models.build("cnn", (3, self.side, self.side), CLASSES).to(self.device)

    def batch(self, size: int | None = None) -> tuple[Tensor, Tensor]:
        """Return pictures float32 (B, 3, side, side) of noise and their classes int64 (B,), on the device."""
        source = randomness.generator(0, "bench")
        size = size or self.batch_size
        inputs = torch.randn(size, 3, self.side, self.side, generator=source)
        targets = torch.randint(0, CLASSES, (size,), generator=source)
        return inputs.to(self.device), targets.to(self.device)


def many_layers(bench: Bench) -> nn.Module:
    """Return forty small layers in a row, float32 (B, 32) to (B, 32): little to compute, and much to order."""
    return nn.Sequential(*(nn.Linear(32, 32) for _ in range(40))).to(bench.device)


def updates(
    model: nn.Module,
    batch: tuple[Tensor, Tensor],
    dtype: torch.dtype | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> Callable[[], Tensor]:
    """Return a function that makes one update with a batch and returns its loss, on the device and not waited for.

    dtype: that of autocast, None for float32 everywhere; float16 comes with a scaler. Optimizer: AdamW unless given.
    """
    inputs, targets = batch
    device = inputs.device.type
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), fused=True)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)

    def update() -> Tensor:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = F.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return update
