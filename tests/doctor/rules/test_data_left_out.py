"""A sampler that leaves out another kind of samples, or belongs to other data, is found; a part by chance is not."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, RandomSampler, SubsetRandomSampler, TensorDataset

from labkit.doctor.evidence import Evidence
from labkit.doctor.examine import examine
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data import DataEvidence
from labkit.doctor.probe.data_left_out import look_at_left_out
from labkit.doctor.probe.data_reading import Samples
from labkit.doctor.rules.data_left_out import RULES


def points() -> tuple[Tensor, Tensor]:
    """Return 400 points from small to large ones; those beyond 0.3 are of class 1."""
    draw = torch.Generator().manual_seed(0)
    x = torch.arange(400)[:, None] / 200 - 1 + 0.1 * torch.randn(400, 3, generator=draw)
    return x, (x.mean(1) > 0.3).long()


def loader(sampler=None) -> DataLoader:
    return DataLoader(TensorDataset(*points()), 20, sampler=sampler, shuffle=sampler is None)


def said(sampler=None, val: DataLoader | None = None) -> dict[str, Finding]:
    seen = look_at_left_out(Samples(*points()), {"train": loader(sampler), "val": val})
    evidence = Evidence(DataEvidence(left_out=seen), None, None, None, None)
    return {finding.fault: finding for rule in RULES if (finding := rule(evidence)) is not None}


def test_all_samples_or_a_part_by_chance_are_left_alone() -> None:
    assert said() == {}
    assert said(SubsetRandomSampler(torch.randperm(400, generator=torch.Generator().manual_seed(1))[:150])) == {}
    assert said(RandomSampler(range(400), num_samples=100)) == {}


def test_what_validation_draws_is_not_left_out() -> None:
    data = loader().dataset
    train = DataLoader(data, 20, sampler=SubsetRandomSampler(range(250)))
    val = DataLoader(data, 20, sampler=SubsetRandomSampler(range(250, 400)))
    seen = look_at_left_out(Samples(*points()), {"train": train, "val": val})
    assert (seen.samples, seen.drawn, seen.differs) == (400, 250, 0.0)


def test_the_first_samples_only() -> None:
    (finding,) = said(SubsetRandomSampler(range(200))).values()
    assert "In 4 epochs the sampler drew 200 of 400 samples" in finding.what
    assert "standard errors in the mean input" in finding.what


def test_a_sampler_of_other_data() -> None:
    (finding,) = said(RandomSampler(range(100))).values()
    assert "it was made for data of length 100" in finding.what


def test_a_trial_with_all_samples_confirms_it() -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    val = DataLoader(TensorDataset(*(part[::3] for part in points())), 200)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    report = examine(model, nn.CrossEntropyLoss(), optimizer, loader(SubsetRandomSampler(range(280))), val)
    assert [finding.fault for finding in report.findings][:1] == ["sampler_misuse"]
