"""The tools leave ten models, their optimizers, their loaders and all random numbers bit for bit as they were."""

import pytest
import torch
import torch.nn as nn
from ten_models import MAKERS, everything, used
from torch import Tensor

from labkit.trials import estimate_memory, find_learning_rate, largest_batch, overfit_small_batch, profile_step
from labkit.trials.fitting import tried

BATCH = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3


def overfit(model, optimizer, source, loss_fn) -> None:
    overfit_small_batch(model, source, loss_fn, updates=4)


def learning_rate(model, optimizer, source, loss_fn) -> None:
    find_learning_rate(model, source, loss_fn, optimizer, updates=10)


def profile(model, optimizer, source, loss_fn) -> None:
    profile_step(model, source, loss_fn, optimizer, updates=2)


def memory(model, optimizer, source, loss_fn) -> None:
    estimate_memory(model, BATCH, 8, optimizer, loss_fn)


def computed_batch(model, optimizer, source, loss_fn) -> None:
    largest_batch(model, BATCH, 10**8, optimizer, loss_fn)


def tried_batch(model, optimizer, source, loss_fn) -> None:
    tried(model, BATCH, None, optimizer, loss_fn)


TOOLS = [overfit, learning_rate, profile, memory, computed_batch, tried_batch]


class Interrupts(nn.Module):
    """A loss whose third call is cut short."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt
        return nn.functional.cross_entropy(outputs, targets)


@pytest.fixture(autouse=True)
def smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen samples are enough to leave a trace."""
    monkeypatch.setattr("labkit.trials.fitting.MOST", 16)


@pytest.mark.filterwarnings("ignore::labkit.trials.TrialWarning")
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", MAKERS)
def test_a_tool_leaves_no_trace(name: str, tool) -> None:
    model, optimizer, batches = used(name)
    before = everything(model, optimizer, batches)
    tool(model, optimizer, batches, nn.functional.cross_entropy)
    assert everything(model, optimizer, batches) == before
    loss_fn = Interrupts()
    with pytest.raises(KeyboardInterrupt):
        tool(model, optimizer, batches, loss_fn)
    assert everything(model, optimizer, batches) == before and loss_fn.calls == 0


def test_a_trial_works_on_copies_of_the_samples() -> None:
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 3))
    before = BATCH[0].clone()
    overfit_small_batch(model, BATCH, updates=3)
    find_learning_rate(model, [BATCH], updates=10)
    profile_step(model, torch.utils.data.DataLoader([BATCH], batch_size=None), updates=1)
    estimate_memory(model, BATCH)
    assert torch.equal(BATCH[0], before)


def test_the_same_trial_gives_the_same_numbers() -> None:
    model, optimizer, batches = used("cnn")
    results = [find_learning_rate(model, batches, optimizer=optimizer, updates=10) for _ in range(2)]
    assert results[0] == results[1]
