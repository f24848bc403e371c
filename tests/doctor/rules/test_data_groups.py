"""Relatives and windows on both sides of a split are found; independent samples and whole families are left alone."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.evidence import Evidence
from labkit.doctor.examine import examine
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data import DataEvidence
from labkit.doctor.probe.data_groups import families, look_at_groups
from labkit.doctor.probe.data_reading import Samples
from labkit.doctor.rules.data_groups import RULES

VISITS = 5


def visits() -> tuple[Tensor, Tensor]:
    """Return five visits each of 80 patients, (400, 8), and a label for each patient that nothing tells."""
    draw = torch.Generator().manual_seed(0)
    patients = torch.randn(80, 1, 8, generator=draw) + 0.05 * torch.randn(80, VISITS, 8, generator=draw)
    return patients.flatten(0, 1), (torch.rand(80, generator=draw) < 0.5).long().repeat_interleave(VISITS)


def mixed() -> Tensor:
    return torch.randperm(400, generator=torch.Generator().manual_seed(1))


def said(train: Tensor, val: Tensor) -> dict[str, Finding]:
    seen = look_at_groups({"train": Samples(train, None), "val": Samples(val, None)})
    evidence = Evidence(DataEvidence(groups=seen), None, None, None, None)
    return {finding.fault: finding for rule in RULES if (finding := rule(evidence)) is not None}


def test_families_that_stay_together_and_independent_samples_are_left_alone() -> None:
    x, _ = visits()
    assert said(x[:300], x[300:]) == {}
    alone = torch.randn(400, 8, generator=torch.Generator().manual_seed(2))
    assert said(alone[:300], alone[300:]) == {}
    assert said(alone[:300, :2], alone[300:, :2]) == {}


def test_visits_of_a_patient_in_both_parts() -> None:
    x = visits()[0][mixed()]
    (finding,) = said(x[:300], x[300:]).values()
    assert finding.fault == "data_leakage"
    assert "come in families" in finding.what


def test_windows_that_overlap() -> None:
    series = torch.randn(330, generator=torch.Generator().manual_seed(3))
    windows = series.unfold(0, 8, 1)
    assert said(windows[:240], windows[240:]) == {}
    order = torch.randperm(len(windows), generator=torch.Generator().manual_seed(4))
    (finding,) = said(windows[order[:240]], windows[order[240:]]).values()
    assert "are a training sample moved on by 1" in finding.what


def test_families_are_linked_rows() -> None:
    rows = torch.tensor([[0.0], [10.0], [1.0], [2.0], [10.5]])
    assert families(rows, 1.5).tolist() == [0, 1, 0, 0, 1]


def examined(order: Tensor) -> list[str]:
    x, y = (part[order] for part in visits())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
    loaders = DataLoader(TensorDataset(x[:300], y[:300]), 30, shuffle=True), DataLoader(TensorDataset(x[300:], y[300:]))
    report = examine(model, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=0.02), *loaders)
    return [finding.fault for finding in report.findings]


def test_a_trial_with_whole_families_confirms_it() -> None:
    assert examined(mixed()) == ["data_leakage"]


def test_rows_of_bits_are_alike_by_chance() -> None:
    rows = torch.randint(0, 2, (600, 10), generator=torch.Generator().manual_seed(4)).float()
    found = look_at_groups({"train": Samples(rows[:400]), "val": Samples(rows[400:])})
    assert found is None or found.overlapping == 0
