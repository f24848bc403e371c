"""An answer among the features, one answer for all and parts that are drawn again are found, and nothing else."""

from collections.abc import Iterator

import numpy
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from labkit.doctor.evidence import Evidence
from labkit.doctor.examine import examine
from labkit.doctor.probe.data import DataEvidence, look
from labkit.doctor.probe.data_told import tells
from labkit.doctor.program import Program
from labkit.doctor.recording import record
from labkit.doctor.rules.data_told import RULES


def points() -> tuple[Tensor, Tensor]:
    """Return 240 points (n, 4) of two classes that overlap, and the classes."""
    labels = torch.arange(240) % 2
    return torch.randn(240, 4, generator=torch.Generator().manual_seed(0)) + 0.5 * labels[:, None], labels


def pieces(x: Tensor, y: Tensor, loss_fn: nn.Module | None = None, outputs: int = 2) -> dict:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(x.shape[1], outputs), nn.Flatten(0) if outputs == 1 else nn.Identity())
    return {
        "model": model,
        "loss_fn": loss_fn or nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.01),
        "train_loader": DataLoader(TensorDataset(x[:160], y[:160]), 20, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[160:], y[160:]), 40),
    }


def said(**given) -> dict[str, str]:
    program = Program(**given)
    told = look(program, record(program.copy(), updates=3)).told
    evidence = Evidence(DataEvidence(told=told), None, None, None, None)
    return {finding.fault: finding.what for rule in RULES if (finding := rule(evidence)) is not None}


def test_a_feature_that_is_the_class() -> None:
    x, y = points()
    assert said(**pieces(x, y)) == {}
    x[:, 2] = torch.tensor([3.0, 7.0])[y]
    assert "Feature 2 of 4 has a value of its own for each class" in said(**pieces(x, y))["data_leakage"]
    assert said(**pieces((x > 4).float(), y)) == {}
    x[7, 2] = 3.0
    assert said(**pieces(x, y)) == {}


def test_a_feature_that_is_the_number() -> None:
    x, _ = points()
    y = x[:, 0] + x[:, 1].square()
    assert said(**pieces(x, y, nn.MSELoss(), outputs=1)) == {}
    x[:, 3] = 1.8 * y + 32
    found = said(**pieces(x, y, nn.MSELoss(), outputs=1))["data_leakage"]
    assert "Feature 3 of 4 is the target in another unit" in found


@pytest.mark.parametrize(("x", "expected"), [([5, 5, 9, 9], "class"), ([5, 5, 9, 5], ""), ([1, 2, 3, 4], "")])
def test_what_tells_a_class(x: list[int], expected: str) -> None:
    assert tells(torch.tensor(x).double(), torch.tensor([0, 0, 1, 1])) == expected


def test_one_class_for_all() -> None:
    x, y = points()
    report = examine(**pieces(x, (y / 255).long(), outputs=3))
    assert [finding.fault for finding in report.findings] == ["label_encoding"]
    assert "All training targets are class 0, and the network tells 3 classes apart" in report.findings[0].what


def test_targets_that_no_loss_asks_for_may_be_constant() -> None:
    class Spread(nn.Module):
        def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return outputs.square().mean() - outputs.std()

    x, y = points()
    assert said(**pieces(x, 0 * y, Spread())) == {}


class Part:
    """A part of the points, drawn anew each time it is read; with a seed always the same."""

    def __init__(self, train: bool, seed: int | None) -> None:
        self.train, self.seed = train, seed

    def __iter__(self) -> Iterator:
        order = numpy.random.default_rng(self.seed).permutation(240).tolist()
        rows = order[:160] if self.train else order[160:]
        return iter(DataLoader(Subset(TensorDataset(*points()), rows), 20, shuffle=self.train))


def test_parts_that_are_drawn_again() -> None:
    x, y = points()
    fixed = {"train_loader": Part(True, 0), "val_loader": Part(False, 0)}
    assert said(**pieces(x, y) | fixed) == {}
    drawn = {"train_loader": Part(True, None), "val_loader": Part(False, None)}
    found = said(**pieces(x, y) | drawn)["unseeded_split"]
    assert "of 80 validation samples of a second epoch were training samples" in found
