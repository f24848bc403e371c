"""`overfit_small_batch` tells a model that can learn from one that cannot, and says what to look at."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from labkit import data, models
from labkit.errors import ConfigError, DataError
from labkit.trials import overfit_small_batch


@pytest.fixture(scope="module")
def digits():
    return data.digits()


def net(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), *layers)


@pytest.mark.parametrize(
    ("name", "kind"), [("mlp", "labkit"), ("lenet", "labkit"), ("cnn", "labkit"), ("mlp", "torch"), ("mlp", "batch")]
)
def test_the_networks_of_the_course_learn_a_few_digits_from_any_source(digits, name: str, kind: str) -> None:
    source = data.loader(digits, 24, shuffle=True)
    if kind != "labkit":
        inputs, targets = map(torch.cat, zip(*[batch for batch, _ in zip(source, range(2), strict=False)], strict=True))
        pairs = torch.utils.data.TensorDataset(inputs, targets)
        source = (inputs, targets) if kind == "batch" else torch.utils.data.DataLoader(pairs, 24)
    result = overfit_small_batch(models.build(name, digits.image_shape, 10, dropout=0.1), source)
    assert result.passed and result.accuracy == 1 and result.samples == 32
    assert repr(result).startswith(f"passed: 32 samples, {len(result.losses)} updates, loss 2.")
    assert "fit together" in result.advice
    again = overfit_small_batch(models.build(name, digits.image_shape, 10, dropout=0.1), source)
    assert again == result


def test_numbers_are_learned_by_their_loss_alone() -> None:
    batch = torch.randn(8, 20), torch.randn(8, 1)
    result = overfit_small_batch(net(nn.Linear(20, 1)), batch, nn.MSELoss(), learning_rate=0.01)
    assert result.passed and result.accuracy is None and "right" not in repr(result)
    assert result.losses[-1] <= 0.05 * result.losses[0] < 0.05 * result.losses[0] + result.losses[-2]


class Detached(nn.Module):
    """Cuts its first layer off."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.first(inputs).detach())


INPUTS, TARGETS = torch.randn(9, 6, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 3
FAILURES = {
    "not finite in update 1": (net(nn.Linear(6, 3)), (INPUTS.log(), TARGETS)),
    "No gradient reaches 'first.weight' and 1 more": (Detached(), (INPUTS, TARGETS)),
    "4 samples have equal inputs and different": (net(nn.Linear(6, 3)), (INPUTS[[0, 0, 1, 1, *range(2, 7)]], TARGETS)),
    "probabilities already": (net(nn.Linear(6, 3), nn.Softmax(1)), (INPUTS, TARGETS)),
    "hardly moves": (net(nn.Linear(6, 3), nn.Hardtanh(-1e-3, 1e-3)), (INPUTS, TARGETS)),
    "more updates": (net(nn.Linear(6, 3)), (INPUTS, TARGETS)),
}


@pytest.mark.parametrize("words", FAILURES)
def test_a_failure_says_what_to_look_at(words: str) -> None:
    result = overfit_small_batch(*FAILURES[words], updates=40)
    assert not result.passed and words in result.advice and result.advice.count(". ") == 0
    assert repr(result).startswith("failed: 9 samples, ")


def test_knowing_in_one_mode_only_is_said() -> None:
    class Modes(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return super().forward(inputs) * (1 if self.training else -1)

    result = overfit_small_batch(Modes(6, 3), (torch.eye(6)[:3], torch.arange(3)), updates=60, learning_rate=0.1)
    assert result.passed and result.accuracy < 1 and "one mode only" in result.advice and len(result.losses) == 60


def test_samples_of_different_lengths_are_not_mixed() -> None:
    batches = [(torch.randn(4, length, 2), torch.arange(4) % 2) for length in (3, 5)]

    class Mean(nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return super().forward(inputs.mean(dim=1))

    assert overfit_small_batch(Mean(2, 2), batches, updates=3).samples == 4


class Nothing(torch.utils.data.IterableDataset):
    """Promises four samples and has none."""

    def __len__(self) -> int:
        return 4

    def __iter__(self):
        return iter(())


def test_what_does_not_fit_is_a_sentence(digits) -> None:
    source, model = data.loader(digits, 16), net(nn.Linear(64, 10))
    for wrong, error, words in [
        ((net(nn.Linear(63, 10)), source), ConfigError, r"nn\.Linear\(64, 10\)"),
        ((net(nn.Linear(64, 9)), source), DataError, "the model has 9 outputs"),
        ((net(nn.LazyLinear(9)), source), ConfigError, "has no size before its first batch"),
        (
            (model, source, lambda outputs, targets: F.cross_entropy(outputs, targets, reduction="none")),
            ConfigError,
            "mean",
        ),
        ((model, source, lambda outputs, targets: F.cross_entropy(outputs.detach(), targets)), ConfigError, "detach"),
        ((models.freeze(net(nn.Linear(64, 10))), source), ConfigError, "frozen: there is nothing to train"),
        (("cnn", source), ConfigError, "must be a torch.nn.Module, got str"),
        ((model, 5), DataError, "int cannot be trained on"),
        ((model, []), DataError, "no batch"),
        ((model, torch.utils.data.DataLoader(Nothing(), 2)), DataError, "no batch, although it has a length"),
        ((model, [1, 2]), DataError, "must be a pair"),
        ((model, (torch.ones(3, 64), torch.arange(2))), DataError, "one target for each"),
        ((model, source, F.cross_entropy, 0), ConfigError, "samples=0 must be a whole number of at least 1"),
        ((model, source, F.cross_entropy, 8, True), ConfigError, "updates=True"),
        ((model, source, F.cross_entropy, 8, 8, -1.0), ConfigError, "learning_rate=-1.0 must be a number above 0"),
    ]:
        with pytest.raises(error, match=words):
            overfit_small_batch(*wrong)
