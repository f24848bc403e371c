"""Loaders that somebody else made: usable in the training loop, or refused with a sentence."""

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from labkit.data.borrowed import BorrowedLoader, as_loader
from labkit.data.loading import loader
from labkit.errors import DataError

PAIRS = TensorDataset(torch.arange(10.0)[:, None], torch.arange(10))


class Stream(IterableDataset):
    def __iter__(self):
        return iter(PAIRS)


def targets_of(batches) -> list[list[int]]:
    return [targets.tolist() for _, targets in batches]


def test_a_dataloader_gets_what_the_training_loop_needs() -> None:
    borrowed = as_loader(DataLoader(PAIRS, batch_size=4))
    assert len(borrowed) == 3
    assert targets_of(borrowed) == targets_of(borrowed.at(5, 0)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert targets_of(borrowed.at(0, 2)) == [[8, 9]] and targets_of(borrowed.at(0, 3)) == []
    assert borrowed.fingerprint() == "DataLoader of 3 batches" and borrowed.description() == {}


def test_a_list_of_batches_is_a_loader_too() -> None:
    batches = [(torch.zeros(2, 1), torch.tensor([0, 1])), (torch.zeros(1, 1), torch.tensor([2]))]
    assert targets_of(as_loader(batches).at(0, 1)) == [[2]]


def test_a_loader_that_is_ready_is_returned_as_it_is(noise_set) -> None:
    own, borrowed = loader(noise_set(), 4), BorrowedLoader(DataLoader(PAIRS))
    assert as_loader(own) is own and as_loader(borrowed) is borrowed


def test_asking_starts_no_iteration() -> None:
    """An iterator of a DataLoader draws a random number and may start processes."""
    torch.manual_seed(0)
    before = torch.get_rng_state()
    as_loader(DataLoader(PAIRS, batch_size=4, shuffle=True))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "source",
    [DataLoader(Stream(), batch_size=2), (pair for pair in PAIRS), PAIRS, None, 3],
    ids=lambda source: type(source).__name__,
)
def test_what_has_no_length_or_no_batches_is_refused(source: object) -> None:
    with pytest.raises(DataError, match=f"{type(source).__name__} cannot be trained on: it needs a length and batches"):
        as_loader(source)


def test_an_image_set_is_not_a_loader_yet(noise_set) -> None:
    with pytest.raises(DataError, match=r"ImageSet cannot be trained on.*Use labkit\.data\.loader"):
        as_loader(noise_set())


def test_a_loader_without_a_batch_is_refused() -> None:
    for source in ([], DataLoader(PAIRS, batch_size=11, drop_last=True)):
        with pytest.raises(DataError, match="has no batch: the data set is empty, or smaller than one batch"):
            as_loader(source)
