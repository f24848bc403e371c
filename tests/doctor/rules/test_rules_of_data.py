"""Each fault of the data is found in a small program, and its healthy twin is left alone."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, WeightedRandomSampler

from labkit.doctor.evidence import Evidence
from labkit.doctor.examine import gather
from labkit.doctor.probe.data_parts import look_at_parts
from labkit.doctor.probe.data_reading import Samples
from labkit.doctor.program import Program
from labkit.doctor.rules import data as rules


def points(count: int = 120) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(count, 5, generator=draw)
    return x, (x[:, 0] > 0).long()


def evidence_of(train: DataLoader, val: DataLoader | None = None, loss_fn: Callable | None = None) -> Evidence:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return gather(Program(model, loss_fn or nn.CrossEntropyLoss(), optimizer, train, val))


def findings(train: DataLoader, val: DataLoader | None = None, loss_fn: Callable | None = None) -> dict[str, str]:
    """Return {fault: what was said} of the rules of the data."""
    evidence = evidence_of(train, val, loss_fn)
    found = [finding for rule in rules.RULES if (finding := rule(evidence)) is not None]
    return {finding.fault: finding.what for finding in found}


class Reads(Dataset):
    """Points; `how` says what a reading does to them."""

    def __init__(self, how: str = ""):
        (self.x, self.y), self.how = points(), how

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.x[index]
        if self.how == "writes":
            x -= 1
        return (x + 0.1 * torch.randn(5) if self.how == "noise" else x), self.y[index]


def test_healthy_data_are_left_alone() -> None:
    x, y = points()
    train, val = TensorDataset(x[:90], y[:90]), TensorDataset(x[90:], y[90:])
    assert findings(DataLoader(train, 10, shuffle=True), DataLoader(val, 30)) == {}


def test_one_nan_is_counted() -> None:
    x, y = points()
    x[3, 2] = torch.nan
    found = findings(DataLoader(TensorDataset(x, y), 10, shuffle=True))
    assert found["non_finite_data"].startswith("1 of 120 samples")


def test_targets_from_one() -> None:
    x, y = points()
    found = findings(DataLoader(TensorDataset(x, y + 1), 60))
    assert found["label_encoding"].startswith("The targets go from 1 to 2 (2 values in this batch)")


def test_samples_sorted_by_class() -> None:
    x, y = points()
    order = y.argsort(stable=True)
    sorted_samples = TensorDataset(x[order], y[order])
    assert "in 2 blocks" in findings(DataLoader(sorted_samples, 10))["not_shuffled"]
    assert findings(DataLoader(sorted_samples, 10, shuffle=True)) == {}


def test_a_weight_for_each_class_draws_two_samples() -> None:
    x, y = points()
    weights = 1 / torch.bincount(y)
    data = TensorDataset(x, y)
    found = findings(DataLoader(data, 10, sampler=WeightedRandomSampler(weights, 120)))
    assert "drew 360 times and gave 2 of 120 samples" in found["sampler_misuse"]
    assert findings(DataLoader(data, 10, sampler=WeightedRandomSampler(weights[y], 120))) == {}


def longest_first(samples: list) -> tuple[torch.Tensor, torch.Tensor]:
    rows, targets = (torch.stack(part) for part in zip(*samples, strict=True))
    return rows[rows[:, 0].argsort()], targets


def columns(samples: list) -> tuple[torch.Tensor, torch.Tensor]:
    rows, targets = (torch.stack(part) for part in zip(*samples, strict=True))
    return rows.T.reshape(rows.shape), targets


@pytest.mark.parametrize(("collate", "fault"), [(longest_first, "label_misaligned"), (columns, "axis_mixup")])
def test_a_collate_function_that_mixes_samples(collate, fault: str) -> None:
    data = TensorDataset(*points())
    assert fault in findings(DataLoader(data, 10, shuffle=True, collate_fn=collate))


def test_a_store_that_reading_changes() -> None:
    found = findings(DataLoader(Reads("writes"), 10, shuffle=True))
    assert "(120, 5)" in found["data_mutated"]
    assert "data_mutated" not in findings(DataLoader(Reads("noise"), 10, shuffle=True))


def test_a_data_set_that_repeats_itself() -> None:
    x = torch.randn(8, 20, generator=torch.Generator().manual_seed(1)).repeat(15, 1)
    loader = DataLoader(TensorDataset(x), 10)
    seen = look_at_parts({"train": Samples(x), "val": None}, {"train": loader, "val": None})
    assert (seen.read, seen.different) == (120, 8)


def test_validation_with_noise() -> None:
    train = DataLoader(Reads("noise"), 10, shuffle=True)
    assert "augmentation_misuse" in findings(train, DataLoader(Reads("noise"), 30))


def test_validation_samples_that_are_trained() -> None:
    data = TensorDataset(*points())
    train = DataLoader(Subset(data, range(0, 90)), 10, shuffle=True)
    assert findings(train, DataLoader(Subset(data, range(80, 120)), 40))["data_leakage"].startswith("10 of 40")
    assert findings(train, DataLoader(Subset(data, range(90, 120)), 40)) == {}


def test_validation_on_another_scale() -> None:
    x, y = points()
    train = DataLoader(TensorDataset(x[:90], y[:90]), 10, shuffle=True)
    assert "train_val_mismatch" in findings(train, DataLoader(TensorDataset(100 * x[90:], y[90:]), 30))


def test_inputs_in_the_hundreds() -> None:
    x, y = points()
    assert "input_scale" in findings(DataLoader(TensorDataset(100 * x, y), 10, shuffle=True))


def test_validation_with_noise_that_is_the_task() -> None:
    def agreement(views: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return views.var()

    train, val = DataLoader(Reads("noise"), 10, shuffle=True), DataLoader(Reads("noise"), 30)
    assert "augmentation_misuse" not in findings(train, val, agreement)
