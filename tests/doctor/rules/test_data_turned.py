"""A random mirror that turns left into right is found; one that changes nothing, or the label too, is left alone."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from labkit.doctor.evidence import Evidence
from labkit.doctor.examine import examine
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data import DataEvidence
from labkit.doctor.probe.data_reading import Samples
from labkit.doctor.probe.data_turned import Steady, look_at_turned
from labkit.doctor.rules.data_turned import RULES


def halves(count: int, seed: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    """Return pictures (n, 1, 6, 6) that are bright in the first half or, class 1, the second half of an axis."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (count,), generator=draw)
    bright = torch.where(labels[:, None] == 0, torch.arange(6) < 3, torch.arange(6) >= 3).float()
    rows = bright[:, None, None, :] if axis == -1 else bright[:, None, :, None]
    return rows + 0.5 * torch.randn(count, 1, 6, 6, generator=draw), labels


class Mirrored(Dataset):
    """Pictures, half of the time mirrored from left to right; `also`: a change of the label with it."""

    def __init__(self, pictures: Tensor, labels: Tensor, also=None) -> None:
        self.pictures, self.labels, self.also = pictures, labels, also

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        picture, label = self.pictures[place], self.labels[place]
        if torch.rand(()) < 0.5:
            return picture.flip(-1), label if self.also is None else self.also(label)
        return picture, label


def said(train: Dataset, axis: int = -1) -> dict[str, Finding]:
    seen = look_at_turned(DataLoader(train, 20, shuffle=True), Samples(*halves(80, 2, axis)))
    evidence = Evidence(DataEvidence(turned=seen), None, None, None, None)
    return {finding.fault: finding for rule in RULES if (finding := rule(evidence)) is not None}


def test_left_becomes_right() -> None:
    (finding,) = said(Mirrored(*halves(200, 1))).values()
    assert finding.fault == "augmentation_misuse"
    assert "comes as it is and mirrored left to right" in finding.what
    assert "look like class" in finding.what and "0% of the cases as they are" in finding.what


def test_a_mirror_that_keeps_the_class_or_changes_the_label_is_left_alone() -> None:
    assert said(Mirrored(*halves(200, 1, axis=-2)), axis=-2) == {}
    assert said(Mirrored(*halves(200, 1), also=lambda label: 1 - label)) == {}
    assert said(TensorDataset(*halves(200, 1))) == {}


def test_a_steady_data_set_is_read_with_the_same_random_numbers() -> None:
    data = Mirrored(*halves(20, 1))
    steady = [Steady(data, seed) for seed in (0, 0, 1)]
    first, again, other = ([torch.equal(data.pictures[n], each[n][0]) for n in range(20)] for each in steady)
    assert first == again and len(set(first)) == len(set(other)) == 1


def test_a_trial_without_the_mirror_confirms_it() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    train = DataLoader(Mirrored(*halves(200, 1)), 20, shuffle=True)
    val = DataLoader(TensorDataset(*halves(80, 2)), 80)
    report = examine(model, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=0.02), train, val)
    assert [finding.fault for finding in report.findings][:1] == ["augmentation_misuse"]
