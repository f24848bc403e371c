"""Copies of loaders read without workers, and know how many the user's have."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from labkit.doctor.loading import in_this_process, workers_of
from labkit.doctor.program import Program


class Rows(Dataset):
    """Twenty rows; if `needs` is set, only a worker can read them."""

    def __init__(self, needs: bool = False) -> None:
        self.needs, self.begun = needs, False

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[float, int]:
        if self.needs and torch.utils.data.get_worker_info() is None:
            raise RuntimeError("no worker has opened the file")
        return float(index), index % 2


def program(**options) -> Program:
    model = nn.Linear(1, 2)
    loader = DataLoader(Rows(**options), 4, num_workers=2)
    return Program(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.1), loader)


def test_a_copy_reads_in_this_process() -> None:
    original = program()
    copy = in_this_process(original.copy())
    assert (copy.train_loader.num_workers, workers_of(copy.train_loader)) == (0, 2)
    assert (original.train_loader.num_workers, workers_of(original.train_loader)) == (2, 2)
    assert sum(len(x) for x, _ in copy.train_loader) == 20


def test_workers_that_are_needed_stay() -> None:
    copy = in_this_process(program(needs=True).copy())
    assert (copy.train_loader.num_workers, workers_of(copy.train_loader)) == (2, 2)


def test_what_is_no_loader_of_torch_has_no_workers() -> None:
    assert workers_of([1, 2]) == 0
