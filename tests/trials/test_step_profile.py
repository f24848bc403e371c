"""`profile_step` gives each part of an update its own time."""

import time

import pytest
import torch
import torch.nn as nn
from torch import Tensor

from labkit.errors import ConfigError, DataError
from labkit.trials import profile_step

SLOW = 0.02  # seconds: far more than anything else here takes


class Slow(torch.autograd.Function):
    """Passes its input on; takes its time on the way there, or on the way back."""

    @staticmethod
    def forward(context, inputs: Tensor, there: bool) -> Tensor:
        context.there = there
        time.sleep(SLOW if there else 0)
        return inputs.clone()

    @staticmethod
    def backward(context, gradient: Tensor) -> tuple[Tensor, None]:
        time.sleep(0 if context.there else SLOW)
        return gradient, None


class SlowModel(nn.Linear):
    """Three numbers to two classes, slow in one direction or in none."""

    def __init__(self, direction: str) -> None:
        super().__init__(3, 2)
        self.direction = direction

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs)
        slow = self.direction in ("forward", "backward")
        return Slow.apply(outputs, self.direction == "forward") if slow else outputs


class SlowOptimizer(torch.optim.SGD):
    """Plain SGD that takes its time."""

    def step(self, closure=None) -> None:
        """Wait, then step."""
        time.sleep(SLOW)
        super().step(closure)


class SlowData(torch.utils.data.Dataset):
    """Samples that take their time."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        time.sleep(SLOW / 4)
        return torch.ones(3), index % 2


@pytest.mark.parametrize("part", ["data", "forward", "backward", "step"])
def test_the_slow_part_is_found(part: str) -> None:
    source = torch.utils.data.DataLoader(SlowData(), 4) if part == "data" else (torch.ones(4, 3), torch.arange(4) % 2)
    optimizer = SlowOptimizer if part == "step" else torch.optim.SGD
    profile = profile_step(SlowModel(part), source, optimizer=optimizer, updates=5)
    assert [row["part"] for row in profile.rows] == ["data", "forward", "backward", "step"]
    slowest = max(profile.rows, key=lambda row: row["milliseconds"])
    assert slowest["part"] == part and slowest["milliseconds"] >= 1000 * SLOW
    assert sum(row["share"] for row in profile.rows) == pytest.approx(1)
    assert profile.batch_size == 4 and str(profile).endswith(profile.advice) and profile.advice in profile._repr_html_()
    start = {"data": "The computing waits", "step": "The optimizer takes most"}.get(part, f"The {part} pass takes most")
    assert profile.advice.startswith(start)


def test_workers_of_the_copied_loader_are_measured_too() -> None:
    source = torch.utils.data.DataLoader(SlowData(), 4, num_workers=1)
    profile = profile_step(SlowModel("forward"), source, updates=2)
    assert profile.batch_size == 4 and source._iterator is None


def test_what_does_not_fit_is_a_sentence() -> None:
    batch = torch.ones(4, 3), torch.arange(4) % 2
    with pytest.raises(ConfigError, match="updates=0"):
        profile_step(SlowModel(""), batch, updates=0)
    with pytest.raises(DataError, match="targets from 0 to 7"):
        profile_step(SlowModel(""), (torch.ones(8, 3), torch.arange(8)))
