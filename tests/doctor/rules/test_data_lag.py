"""Targets that stand some places from their inputs are found, with the places; right ones and series are left alone."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from labkit.doctor.evidence import Evidence
from labkit.doctor.examine import examine
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data import DataEvidence
from labkit.doctor.probe.data_lag import MOST_LAG, best_way, look_at_lag, moved
from labkit.doctor.probe.data_reading import Samples
from labkit.doctor.rules.data_lag import RULES


def clouds(count: int = 420) -> tuple[Tensor, Tensor]:
    """Return points in three clouds, (n, 4), and the number of their cloud, in no order."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 3, (count,), generator=draw)
    return torch.randn(count, 4, generator=draw) + 3 * torch.eye(3, 4)[labels], labels


def lost(x: Tensor, y: Tensor, rows: list[int]) -> tuple[Tensor, Tensor]:
    """Leave rows out of the inputs only; what is left over of the targets is cut off."""
    kept = torch.ones(len(x), dtype=torch.bool).index_fill(0, torch.tensor(rows), False)
    return x[kept], y[: int(kept.sum())]


def said(x: Tensor, y: Tensor) -> dict[str, Finding]:
    seen = look_at_lag(DataLoader(TensorDataset(x, y), 20, shuffle=True))
    evidence = Evidence(DataEvidence(lag={"train": seen} if seen else {}), None, None, None, None)
    return {finding.fault: finding for rule in RULES if (finding := rule(evidence)) is not None}


def test_targets_beside_their_inputs_are_left_alone() -> None:
    x, y = clouds()
    seen = look_at_lag(DataLoader(TensorDataset(x, y), 20))
    assert abs(seen.own - seen.best) < 1e-6 and set(seen.lags) == {0}
    assert said(x, y) == {}
    assert said(x, x[:, :2]) == {}
    assert said(x, torch.zeros(420, dtype=torch.long)) == {}
    assert said(x, torch.randn(420, 1, generator=torch.Generator().manual_seed(1))) == {}


def test_lost_rows_move_the_targets() -> None:
    (finding,) = said(*lost(*clouds(), rows=[0, 1, 2, 150, 250, 251])).values()
    assert finding.fault == "label_misaligned"
    assert "+3 places on at the beginning and +6 at the end" in finding.what


def test_targets_rolled_by_one_and_numbers_as_targets() -> None:
    x, y = clouds()
    (finding,) = said(x, y.roll(1)).values()
    assert "+1 places on at the beginning and +1 at the end" in finding.what
    (finding,) = said(x, (x @ torch.tensor([1.0, -1.0, 0.5, 0.0])).roll(-2)).values()
    assert "-2 places on at the beginning and -2 at the end" in finding.what


def test_rows_are_looked_at_as_they_are_stored() -> None:
    x, y = clouds()
    order = torch.randperm(420, generator=torch.Generator().manual_seed(2)).tolist()
    seen = look_at_lag(DataLoader(Subset(TensorDataset(x, y.roll(2)), order[:300]), 20))
    assert seen.samples == 420 and set(seen.lags) == {2}


def test_a_series_is_not_looked_at() -> None:
    wave = (torch.arange(430) / 5).sin()
    windows = wave.unfold(0, 8, 1)[:420]
    assert look_at_lag(DataLoader(TensorDataset(windows, wave[8:428]), 20)) is None


def test_the_best_way_changes_its_lag_slowly() -> None:
    table = torch.zeros(4, 2 * MOST_LAG + 1)
    for row, lag in enumerate((0, 2, 9, 3)):
        table[row, MOST_LAG + lag] = 1.0 + row
    total, lags = best_way(table)
    assert total == 1 + 2 + 4 and (lags[0], lags[1], lags[3]) == (0, 2, 3)
    assert moved(Samples(torch.arange(200), torch.arange(200)), (0, 5)).targets[-1] == MOST_LAG + 29 + 5


def test_a_trial_with_moved_targets_confirms_it() -> None:
    x, y = lost(*clouds(), rows=[0, 1, 2, 150, 250, 251])
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    report = examine(
        model,
        nn.CrossEntropyLoss(),
        torch.optim.Adam(model.parameters(), lr=0.05),
        DataLoader(TensorDataset(x[:300], y[:300]), 20, shuffle=True),
        DataLoader(TensorDataset(x[300:], y[300:]), 200),
    )
    assert [finding.fault for finding in report.findings] == ["label_misaligned"]
