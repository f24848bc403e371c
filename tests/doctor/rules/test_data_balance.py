"""Classes that count too little are named with their shares; what is balanced, by sampler or by weights, is not."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from labkit.doctor.evidence import Evidence
from labkit.doctor.examine import examine
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data import DataEvidence, look
from labkit.doctor.probe.data_balance import BalanceEvidence, cells_of
from labkit.doctor.program import Program
from labkit.doctor.recording import record
from labkit.doctor.rules.data_balance import RULES
from labkit.doctor.rules.data_mends import BalancedLoss


def events() -> tuple[Tensor, Tensor]:
    """Return 320 points of which one in sixteen is of class 1, half a step to the side."""
    labels = (torch.arange(320) % 16 == 0).long()
    return torch.randn(320, 2, generator=torch.Generator().manual_seed(0)) + labels[:, None], labels


def pieces(weights: Tensor | None = None, loss_fn: nn.Module | None = None) -> dict:
    x, y = events()
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    sampler = None if weights is None else WeightedRandomSampler(weights[y], len(y))
    return {
        "model": model,
        "loss_fn": loss_fn or nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.05),
        "train_loader": DataLoader(TensorDataset(x, y), 32, sampler=sampler, shuffle=sampler is None),
        "val_loader": DataLoader(TensorDataset(x, y), 320),
    }


def seen(**changes) -> BalanceEvidence:
    program = Program(**pieces(**changes))
    return look(program, record(program.copy())).balance


def said(balance: BalanceEvidence) -> dict[str, Finding]:
    evidence = Evidence(DataEvidence(balance=balance), None, None, None, None)
    return {finding.fault: finding for rule in RULES if (finding := rule(evidence)) is not None}


def test_a_rare_class_is_confirmed_by_a_trial() -> None:
    report = examine(**pieces())
    assert [finding.fault for finding in report.findings] == ["class_imbalance"]
    assert "Class 1 is 6.2% of the samples and makes 6.2% of the gradient" in report.findings[0].what
    assert "15 times that of class 0" in report.findings[0].fix


def test_weights_in_the_loss_balance_the_gradient() -> None:
    balance = seen(loss_fn=nn.CrossEntropyLoss(weight=torch.tensor([1.0, 15.0])))
    assert abs(balance.delivered[1] - 1 / 16) < 0.01
    assert abs(balance.pull[1] - 0.5) < 0.1
    assert said(balance) == {}


def test_a_sampler_balances_what_is_delivered() -> None:
    balance = seen(weights=torch.tensor([1.0, 15.0]))
    assert abs(balance.drawn[1] - 0.5) < 0.1
    assert said(balance) == {}


def test_a_sampler_that_prefers_the_frequent_class() -> None:
    balance = seen(weights=torch.tensor([15.0, 1.0]))
    assert "sampler_misuse" in (found := said(balance))
    assert (
        f"Class 1 is 6.2% of the samples and {balance.drawn[1]:.1%} of what the sampler" in found["sampler_misuse"].what
    )


def test_classes_of_rows_pixels_and_tags() -> None:
    masks = torch.zeros(2, 1, 3, 3)
    assert cells_of(torch.zeros(2, 1, 3, 3), masks)[1].shape == (2, 1, 3, 3)
    assert cells_of(torch.zeros(2, 4), torch.eye(4)[:2])[1].tolist() == [0, 1]
    assert cells_of(torch.zeros(2, 4), torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 0]]))[1] is None
    assert cells_of(torch.zeros(2, 1), torch.tensor([[0.3], [0.7]]))[1] is None


def test_balanced_loss_is_the_weighted_cross_entropy() -> None:
    x, y = torch.randn(12, 3, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
    mine = BalancedLoss(nn.CrossEntropyLoss(), {0: 1.0, 1: 2.0, 2: 5.0})
    torch.testing.assert_close(mine(x, y), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0]))(x, y))
