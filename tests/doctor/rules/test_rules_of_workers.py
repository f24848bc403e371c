"""What workers would do is told without starting one."""

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from labkit.doctor.evidence import Evidence
from labkit.doctor.probe.data import DataEvidence
from labkit.doctor.probe.data_workers import WorkersEvidence, look_at_workers
from labkit.doctor.program import Program
from labkit.doctor.rules.data_workers import RULES


class Noise(Dataset):
    """Noise of a generator of its own (seed 0), or of NumPy's global one."""

    def __init__(self, own: bool) -> None:
        self.draw = numpy.random.default_rng(0).random if own else numpy.random.random

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[float, int]:
        return index + self.draw(), index % 2


class Rows(IterableDataset):
    """Twenty rows; the workers share them out, or each of them reads all; `noise` is added to them."""

    def __init__(self, shared: bool, noise: numpy.random.Generator | None = None) -> None:
        self.shared, self.noise = shared, noise

    def __iter__(self):
        info = get_worker_info()
        begin, step = (info.id, info.num_workers) if self.shared and info is not None else (0, 1)
        for row in range(begin, 20, step):
            yield row + (self.noise.random() if self.noise is not None else 0.0), row % 2


def constant_seed(worker: int) -> None:
    numpy.random.seed(7)


def number_as_seed(worker: int) -> None:
    numpy.random.seed(worker)


def from_the_loader(worker: int) -> None:
    numpy.random.seed(torch.initial_seed() % 2**32)


def look(data: Dataset, **options) -> WorkersEvidence:
    model = nn.Linear(1, 2)
    loader = DataLoader(data, 4, **({"num_workers": 2} | options))
    return look_at_workers(Program(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1), loader))


def said(seen: WorkersEvidence) -> dict[str, str]:
    evidence = Evidence(DataEvidence(workers=seen), None, None, None, None)
    return {finding.fault: finding.what for rule in RULES if (finding := rule(evidence)) is not None}


@pytest.mark.parametrize(
    ("data", "options", "workers", "epochs"),
    [
        (Noise(own=True), {}, True, True),
        (Noise(own=False), {"worker_init_fn": constant_seed}, True, True),
        (Noise(own=False), {"worker_init_fn": number_as_seed}, False, True),
        (Noise(own=True), {"persistent_workers": True}, True, False),
        (Rows(shared=False, noise=numpy.random.default_rng(0)), {}, True, False),
    ],
)
def test_random_numbers_that_come_again(data: Dataset, options: dict, workers: bool, epochs: bool) -> None:
    seen = look(data, **options)
    assert (seen.workers, seen.random, seen.same_in_workers, seen.same_in_epochs) == (2, True, workers, epochs)
    assert set(said(seen)) == {"worker_rng"}


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (Noise(own=False), {}),
        (Noise(own=False), {"worker_init_fn": from_the_loader}),
        (Noise(own=False), {"worker_init_fn": number_as_seed, "persistent_workers": True}),
        (Noise(own=True), {"num_workers": 0}),
        (Noise(own=True), {"num_workers": 1, "persistent_workers": True}),
        (Rows(shared=True), {}),
        (Rows(shared=False), {"num_workers": 0}),
        (Rows(shared=False), {"num_workers": 1}),
    ],
)
def test_workers_that_do_as_they_should(data: Dataset, options: dict) -> None:
    assert said(look(data, **options)) == {}


def test_a_stream_that_every_worker_reads_from_its_beginning() -> None:
    found = said(look(Rows(shared=False)))
    assert set(found) == {"duplicate_samples"}
    assert "Each of the 2 workers begins with the same 4 samples" in found["duplicate_samples"]


def test_playing_a_worker_leaves_no_trace() -> None:
    data = Noise(own=True)
    torch.manual_seed(3)
    nn.Linear(1, 2)
    before = torch.get_rng_state()
    torch.manual_seed(3)
    numpy.random.seed(3)
    state = numpy.random.get_state()[1].copy()
    look(data, worker_init_fn=constant_seed)
    assert get_worker_info() is None
    assert torch.equal(before, torch.get_rng_state())
    assert (state == numpy.random.get_state()[1]).all()
    assert data.draw() == numpy.random.default_rng(0).random()
