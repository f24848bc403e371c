"""Samples that do not simply stack: of different lengths, or missing; and who was missing is told."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from labkit.data.collate import Padded, missing_samples, pad, skip_missing
from labkit.data.loading import loader
from labkit.data.pictures import DataWarning
from labkit.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


class Words(Dataset):
    """Sample i is i + 1 numbers long."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((index + 1, 2), float(index)), index


class Holes(Dataset):
    """Samples of which some are missing; it can tell names and reasons."""

    def __init__(self, missing: set[int], count: int = 10):
        self.missing, self.count = missing, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int] | None:
        return None if index in self.missing else (torch.full((2,), float(index)), index)

    def name(self, index: int) -> str:
        return f"picture_{index}.jpg"

    def why_missing(self, index: int) -> str:
        return "it is damaged"


def test_padding_fills_up_at_the_end_and_says_how_long_each_was() -> None:
    (values, lengths), targets = batch = pad([Words()[index] for index in (0, 2, 1)])
    assert values.shape == (3, 3, 2) and lengths.tolist() == [1, 3, 2] and targets.tolist() == [0, 2, 1]
    mask = batch[0].mask()
    assert mask.tolist() == [[True, False, False], [True, True, True], [True, True, False]]
    assert (values[~mask] == 0).all()
    for row, index in enumerate((0, 2, 1)):
        assert torch.equal(values[row, : index + 1], Words()[index][0])
    assert (pad([Words()[0], Words()[2]], value=-1)[0].values[0, 1:] == -1).all()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_ragged_samples_go_through_the_loader(num_workers: int, device: torch.device) -> None:
    batches = list(loader(Words(), 2, device=device, collate=pad, num_workers=num_workers))
    assert [tuple(inputs.values.shape) for inputs, _ in batches] == [(2, 2, 2), (2, 4, 2), (1, 5, 2)]
    assert all(type(inputs) is Padded and inputs.lengths.device.type == device.type for inputs, _ in batches)


def test_both_serve_torchs_own_loader() -> None:
    lengths = [inputs.lengths.tolist() for inputs, _ in DataLoader(Words(), 3, collate_fn=pad)]
    assert lengths == [[1, 2, 3], [4, 5]]
    targets = [targets.tolist() for _, targets in DataLoader(Holes({1}), 5, collate_fn=skip_missing)]
    assert targets == [[0, 2, 3, 4], [5, 6, 7, 8, 9]]


@pytest.mark.parametrize("collate", [skip_missing, pad])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_missing_samples_are_left_out_and_named(num_workers: int, collate: Callable) -> None:
    data = Holes({1, 4, 5, 9})
    batches = loader(data, 2, collate=collate, num_workers=num_workers)
    with pytest.warns(DataWarning, match=r"4 of 10 samples were None and left out \(indices 1, 4, 5, …\).*missing_s"):
        targets = [targets.tolist() for _, targets in batches]
    assert targets == [[0], [2, 3], [6, 7], [8]], "a batch of which nobody is there is left out"
    assert batches.missing == {1, 4, 5, 9} and batches.state() == {"epoch": 1, "batch": 0}
    table = missing_samples(data, sorted(batches.missing))
    assert table.rows[0] == {"index": 1, "name": "picture_1.jpg", "reason": "it is damaged"} and len(table) == 4
    assert table.caption == "4 of 10 samples of Holes were missing."
    list(batches)  # what is known already is not told again


def test_nobody_missing_is_no_warning() -> None:
    batches = loader(Holes(set()), 3, collate=skip_missing)
    assert len(list(batches)) == 4 and batches.missing == set()


def test_a_data_set_may_bring_its_own_collate() -> None:
    class Own(Words):
        collate = staticmethod(pad)

    inputs, _ = next(iter(loader(Own(), 2)))
    assert type(inputs) is Padded
    with pytest.raises(DataError, match="do not stack"):
        next(iter(loader(Own(), 2, collate=skip_missing)))


def test_the_fingerprint_sees_padded_and_missing_samples() -> None:
    prints = {loader(Holes(missing), 2, collate=skip_missing).fingerprint() for missing in (set(), {0}, {9}, {0, 9})}
    assert len(prints) == 4
    assert loader(Words(), 2, collate=pad).fingerprint() == loader(Words(), 3, collate=pad).fingerprint()


@pytest.mark.parametrize(
    ("collate", "sentence"),
    [
        (lambda samples: torch.zeros(2), r"must return a pair \(inputs, targets\).*got Tensor"),
        (lambda samples: (torch.zeros(2), "cat"), r"must return a pair.*got \(Tensor, str\)"),
        (lambda samples: [torch.zeros(2)] * 3, r"must return a pair.*got \(Tensor, Tensor, Tensor\)"),
        (skip_missing, "The samples do not stack .*use collate=pad"),
    ],
)
def test_what_makes_no_batch_is_refused(collate: Callable, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        next(iter(loader(Words(), 2, collate=collate)))


def test_inputs_that_differ_in_more_than_length_cannot_be_padded() -> None:
    with pytest.raises(DataError, match=r"the others and the dtype must agree: the inputs are \(2, 3\), \(2, 4\)"):
        pad([(torch.zeros(2, 3), 0), (torch.zeros(2, 4), 1)])
    with pytest.raises(DataError, match="float32, torch.int64"):
        pad([(torch.zeros(2), 0), (torch.zeros(2, dtype=torch.int64), 1)])
    with pytest.raises(DataError, match="All 2 samples of a batch are None"):
        skip_missing([None, None])


def test_collate_is_not_for_pictures_in_memory(noise_set) -> None:
    with pytest.raises(DataError, match="an ImageSet gives whole batches"):
        loader(noise_set(), 2, collate=pad)


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        ([], "no sample to make a batch of"),
        ([None, None], "All 2 samples of a batch are None"),
        ([("abc", 0)], r"each input a tensor or a row of numbers; got \(str, int\)"),
        ([1, 2], "each input a tensor or a row of numbers; got int"),
        ([(torch.zeros(2),)], r"pad needs samples \(input, target\)"),
        ([{"input": 1}], "pad needs samples"),
    ],
)
def test_what_cannot_be_padded_is_a_sentence(samples: list, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        pad(samples)
