"""The estimate counts what a program keeps, and the largest batch is the largest."""

import pytest
import torch
import torch.nn as nn
from ten_models import CLASSES, MAKERS

from labkit import models
from labkit.errors import ConfigError, DataError
from labkit.models.memory import kept_for_backward
from labkit.trials import estimate_memory, largest_batch
from labkit.trials.fitting import largest_that, tried


def kinds(estimate) -> dict[str, int]:
    return {row["kind"]: row["bytes"] for row in estimate.rows}


def test_the_bytes_of_a_linear_layer_are_those_of_arithmetic() -> None:
    model = nn.Linear(10, 5)
    estimate = estimate_memory(model, (10,), 8, torch.optim.Adam)
    weights = 4 * (10 * 5 + 5)
    expected = {"weights": weights, "buffers": 0, "gradients": weights, "optimizer state": 2 * weights + 2 * 4}
    assert kinds(estimate) == expected | {"kept for backward": 8 * 10 * 4}  # two counters of Adam; the inputs
    assert estimate.per_sample == 40 and estimate.fixed == 4 * weights + 8
    assert estimate.total == estimate.fixed + 8 * 40 and f"{estimate.total:,} bytes" in repr(estimate)
    assert kinds(estimate_memory(model, (10,), 8, torch.optim.SGD))["optimizer state"] == 0
    assert kinds(estimate_memory(models.freeze(nn.Sequential(model, nn.Linear(5, 2)), "0"), (10,)))["gradients"] == 48


def test_a_tied_weight_counts_once() -> None:
    one, two = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
    two.weight = one.weight
    found = kinds(estimate_memory(nn.Sequential(one, two), (6,), optimizer=torch.optim.SGD))
    assert found["weights"] == found["gradients"] == 4 * 36


@pytest.mark.filterwarnings("ignore::labkit.trials.TrialWarning")
@pytest.mark.parametrize("name", MAKERS)
def test_what_is_kept_is_what_a_batch_of_that_size_keeps(name: str) -> None:
    model = MAKERS[name]().train()
    estimate = estimate_memory(model, (1, 8, 8), 32)
    own = [*model.parameters(), *model.buffers()]
    measured = kept_for_backward(lambda: model(torch.zeros(32, 1, 8, 8)).sum(), own)
    assert kinds(estimate)["kept for backward"] == pytest.approx(measured, rel=0.01)


def test_a_batch_with_targets_pays_for_its_loss_and_words_need_no_zeros() -> None:
    words = nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(12, 7))
    samples, targets = torch.randint(0, 50, (9, 3)), torch.arange(9) % 7
    alone, whole = estimate_memory(words, samples, 16), estimate_memory(words, (samples, targets), 16)
    assert whole.per_sample > alone.per_sample + 7 * 4 - 1  # the softmax of each sample's outputs
    with pytest.raises(ConfigError):
        estimate_memory(words, (3,))


def test_the_computed_batch_is_the_largest_within_the_limit() -> None:
    model, limit = models.build("cnn", (1, 8, 8), CLASSES), 30_000_000
    found = largest_batch(model, (1, 8, 8), limit)
    assert found.tries == [] and repr(found).startswith(f"largest batch: {found.batch_size:,}. Computed: ")
    totals = [estimate_memory(model, (1, 8, 8), found.batch_size + more).total for more in (0, 1)]
    assert totals[0] <= limit < totals[1]
    assert largest_batch(model, (1, 8, 8), 1000).batch_size == 0
    free = largest_batch(nn.Linear(2, 2), (2,))
    assert free.batch_size == 65_536 and "20% of what is free" in repr(free) and "No larger one" in repr(free)


@pytest.mark.parametrize("answer", [0, 1, 2, 3, 4, 63, 64, 65, 99, 100])
def test_doubling_and_halving_find_the_largest_size(answer: int) -> None:
    tried_sizes = []

    def fits(size: int) -> bool:
        tried_sizes.append(size)
        return size <= answer

    assert largest_that(fits, 100) == answer
    assert len(tried_sizes) == len(set(tried_sizes)) <= 14 and max(tried_sizes) <= 100


class Limited(nn.Linear):
    """Runs out of memory with more than `most` samples."""

    most = 45

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if len(inputs) > self.most:
            raise torch.OutOfMemoryError(f"no memory for {len(inputs)} samples")
        return super().forward(inputs)


@pytest.mark.parametrize("most", [45, 1, 0])
def test_sizes_that_run_out_of_memory_are_too_large(most: int) -> None:
    model = Limited(3, 2)
    model.most, before = most, model.weight.detach().clone()
    found = tried(model, (3,), None, torch.optim.AdamW, nn.functional.cross_entropy)
    assert found.batch_size == most and (most + 1, False) in found.tries
    assert all(fitted == (size <= most) for size, fitted in found.tries) and "were too many" in repr(found)
    assert torch.equal(model.weight, before) and model.weight.grad is None


def test_on_every_device_the_limit_is_kept_and_the_memory_comes_back(device: torch.device) -> None:
    model = models.build("cnn", (3, 32, 32), 10).to(device)
    before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
    found = largest_batch(model, (3, 32, 32), 500_000_000)
    assert 100 < found.batch_size < 500 and bool(found.tries) == (device.type == "cuda")
    assert before == (torch.cuda.memory_allocated() if device.type == "cuda" else 0)


def test_what_does_not_fit_is_a_sentence() -> None:
    model = nn.Linear(3, 2)
    for example in ("cnn", (3, 0), (3.0,), torch.tensor(1.0), torch.zeros(0, 3), None):
        with pytest.raises(ConfigError, match="Give the shape of one sample"):
            estimate_memory(model, example)
    with pytest.raises(ConfigError, match=r"nn\.Linear\(4, 2\)"):
        estimate_memory(model, (4,))
    with pytest.raises(DataError, match="one target for each"):
        largest_batch(model, (torch.ones(3, 3), torch.ones(2)))
    with pytest.raises(ConfigError, match="batch_size=0"):
        estimate_memory(model, (3,), 0)
    with pytest.raises(ConfigError, match="limit_bytes=-1"):
        largest_batch(model, (3,), -1)
