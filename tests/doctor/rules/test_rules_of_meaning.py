"""Targets of other samples, classes numbered apart and parts that do not fit are found; the healthy twin is silent."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor import examine
from labkit.doctor.probe.data_meaning import look_at_meaning, predicted
from labkit.doctor.probe.data_parts import equal_by_chance, look_at_parts
from labkit.doctor.probe.data_reading import Samples

CLASSES = 3


def clouds(count: int = 300) -> tuple[Tensor, Tensor]:
    """Return points in three clouds far apart, (n, 6), and the number of their cloud, in no order."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(0, CLASSES, (count,), generator=draw)
    centres = 3 * torch.eye(CLASSES, 6)
    return torch.randn(count, 6, generator=draw) + centres[labels], labels


def first_finding(x: Tensor, y: Tensor, val_x: Tensor, val_y: Tensor) -> str:
    """Return "fault: what was measured" of the first finding, "" without any."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    report = examine(
        model,
        nn.CrossEntropyLoss(),
        torch.optim.Adam(model.parameters(), lr=0.02),
        DataLoader(TensorDataset(x, y), 20, shuffle=True),
        DataLoader(TensorDataset(val_x, val_y), 100),
    )
    return "".join(f"{finding.fault}: {finding.what}" for finding in report.findings[:1])


def parts() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x, y = clouds()
    return x[:200], y[:200], x[200:], y[200:]


def test_what_belongs_together_is_left_alone() -> None:
    assert first_finding(*parts()) == ""


def test_training_labels_in_another_order() -> None:
    x, y, val_x, val_y = parts()
    order = torch.randperm(200, generator=torch.Generator().manual_seed(1))
    assert "of 200 cases" in (said := first_finding(x[order], y, val_x, val_y))
    assert said.startswith("label_misaligned")
    assert first_finding(x[order], y[order], val_x, val_y) == ""


def test_validation_labels_in_another_order() -> None:
    x, y, val_x, val_y = parts()
    said = first_finding(x, y, val_x, val_y.sort().values)
    assert said.startswith("label_misaligned")


def test_classes_numbered_apart() -> None:
    x, y, val_x, val_y = parts()
    said = first_finding(x, y, val_x, torch.tensor([1, 2, 0])[val_y])
    assert said.startswith("label_encoding")
    assert "0 is 1 there, 1 is 2 there, 2 is 0 there" in said


def test_features_in_another_order() -> None:
    x, y, val_x, val_y = parts()
    assert first_finding(x, y, val_x[:, [3, 4, 5, 0, 1, 2]], val_y).startswith("train_val_mismatch")


def test_predictions_without_the_sample_itself_are_those_of_a_fit_without_it() -> None:
    x, y = clouds(30)
    k, targets = (x @ x.T).double(), y.double()[:, None]
    penalty = 0.1 * k.diagonal().mean()
    others = torch.arange(1, 30)
    inner = k[others][:, others] + penalty * torch.eye(29, dtype=torch.double)
    expected = k[0, others] @ torch.linalg.solve(inner, targets[others])
    torch.testing.assert_close(predicted(k, targets)[0], expected)


def test_regression_has_no_classes_to_predict() -> None:
    x, _ = clouds()
    assert look_at_meaning({"train": Samples(x, x[:, 0]), "val": None}).train is None


def test_equal_rows_by_chance_have_neighbours_that_differ_in_one_place() -> None:
    draw = torch.Generator().manual_seed(2)
    rows = torch.randint(0, 3, (400, 6), generator=draw)
    assert equal_by_chance(rows[:300], rows[300:])
    texts = torch.randint(0, 50, (400, 12), generator=draw)
    assert not equal_by_chance(texts[:300], texts[250:350])


def test_balanced_training_and_rare_classes_in_validation() -> None:
    x, y = clouds(900)
    held, rare = (y[300:] == 0).nonzero()[:, 0], (y[300:] != 0).nonzero()[:15, 0]
    x_val, y_val = (part[300:][torch.cat([held[:135], rare])] for part in (x, y))
    train = Samples(x[:300], y[:300])
    found = look_at_meaning({"train": train, "val": Samples(x_val, y_val)})
    assert found.across > found.chance_across
    order = torch.randperm(150, generator=torch.Generator().manual_seed(1))
    found = look_at_meaning({"train": train, "val": Samples(x_val, y_val[order])})
    assert found.across <= found.chance_across


def test_phrases_come_again_and_copies_of_rare_texts_do_not() -> None:
    draw = torch.Generator().manual_seed(3)
    words = torch.randint(0, 26, (12, 5), generator=draw)
    text = words[torch.randint(0, 12, (1600,), generator=draw)].flatten()
    windows = text.unfold(0, 20, 5)
    for rows, copies, expected in ((windows, 0, 0), (torch.randint(0, 26, (1500, 20), generator=draw), 60, 60)):
        x, val = rows[:1000], torch.cat([rows[1000:1200], rows[:copies]])
        loaders = {"train": DataLoader(TensorDataset(x), 10), "val": DataLoader(TensorDataset(val), 10)}
        assert look_at_parts({"train": Samples(x), "val": Samples(val)}, loaders).in_both == expected
    assert set(map(tuple, windows[1000:1200].tolist())) & set(map(tuple, windows[:1000].tolist()))


def test_labels_of_which_some_are_wrong_stand_beside_their_own_samples():
    draw = torch.Generator().manual_seed(391)
    x = torch.randn(900, 6, generator=draw)
    y = (x[:, 0] + x[:, 1] > 0).long()
    noisy = torch.where(torch.rand(300, generator=draw) < 0.3, 1 - y[:300], y[:300])
    assert "label_misaligned" not in first_finding(x[:300], noisy, x[300:], y[300:])
    mixed = y[:300][torch.randperm(300, generator=draw)]
    assert "label_misaligned" in first_finding(x[:300], mixed, x[300:], y[300:])
