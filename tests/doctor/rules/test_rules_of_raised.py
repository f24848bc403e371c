"""Errors of the user's program become findings."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.examine import diagnose, gather
from labkit.doctor.program import Program
from labkit.doctor.undisturbed import undisturbed


def raised(model: nn.Module, x: torch.Tensor, y: torch.Tensor, loss_fn=None, **more) -> list:
    loader = DataLoader(TensorDataset(x, y), 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    program = Program(model, loss_fn or nn.CrossEntropyLoss(), optimizer, loader, **more)
    with undisturbed(program):
        findings = diagnose(gather(program))
    return [(finding.fault, finding.severity) for finding in findings if "stops with" in finding.what]


X, Y = torch.randn(32, 4, generator=torch.Generator().manual_seed(0)), torch.arange(32) % 3


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        x = torch.sigmoid(self.layer(x))
        x += 1
        return x


def detached(outputs, targets):
    return nn.functional.cross_entropy(outputs.detach(), targets)


@pytest.mark.parametrize(
    ("model", "y", "loss_fn", "fault"),
    [
        (nn.Linear(4, 3), Y + 1, None, "label_encoding"),
        (nn.Linear(4, 3), Y.float(), None, "label_encoding"),
        (nn.Linear(5, 3), Y, None, "axis_mixup"),
        (InPlace(), Y, None, "inplace_autograd"),
        (nn.Linear(4, 3), Y, detached, "graph_detached"),
    ],
)
def test_kind_of_error_gives_the_label(model, y, loss_fn, fault):
    assert (fault, "fail") in raised(model, X, y, loss_fn)


@pytest.mark.parametrize(("count", "expected"), [(25, [("batch_too_small", "fail")]), (26, [])])
def test_last_batch_of_one(count, expected):
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    assert raised(model, X[:count], Y[:count]) == expected


def test_evaluation_that_raises():
    def evaluate(model, loader):
        return model(torch.zeros(2, 9)).sum().item()

    loader = DataLoader(TensorDataset(X, Y), 8)
    assert ("axis_mixup", "fail") in raised(nn.Linear(4, 3), X, Y, evaluate=evaluate, val_loader=loader)
