"""Loaders: batches that are a function of (seed, epoch, index), whoever makes them and wherever one starts."""

import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import random_pairs
import torch
from random_pairs import RandomPairs
from slow_reference import cut_out_slowly, moved_slowly
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from labkit import randomness
from labkit.data import augment
from labkit.data.images import ImageSet
from labkit.data.loading import Loader, loader
from labkit.errors import DataError, DeviceError

Make = Callable[..., ImageSet]
Batches = list[tuple[Tensor, Tensor]]

# Python 3.12 and 3.13 warn whenever a process with threads is forked, which torch's DataLoader does on Linux.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


class Numbers(Dataset):
    """Pairs (function of the index, index), to see what workers do and how wrong samples are answered."""

    def __init__(self, sample: Callable[[int], object], count: int = 6):
        self.sample, self.count = sample, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> object:
        return self.sample(index)


class Stream(IterableDataset):
    """A stream that tells its length, as some do, and yet has no order."""

    def __iter__(self):
        return iter([(torch.zeros(1), 0)] * 3)

    def __len__(self) -> int:
        return 3


def assert_equal(first: Batches, second: Batches) -> None:
    assert len(first) == len(second)
    for (inputs, targets), (other_inputs, other_targets) in zip(first, second, strict=True):
        assert torch.equal(inputs, other_inputs) and torch.equal(targets, other_targets)


@contextmanager
def raises(kind: type[Exception], match: str) -> Iterator[None]:
    """Expect an error, then let go of what its traceback holds: Python would collect the workers only later, slowly."""
    try:
        yield
    except kind as error:
        assert re.search(match, str(error))
        traceback.clear_frames(error.__traceback__)
    else:
        pytest.fail(f"no {kind.__name__} was raised")


def together(batches: Batches) -> Tensor:
    return torch.cat([inputs for inputs, _ in batches])


# --- what a batch is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 6, 5), (3, 4, 9)])
def test_a_batch_equals_its_pictures_prepared_one_by_one(shape: tuple, noise_set: Make, device: torch.device) -> None:
    data = noise_set(23, shape)
    batches = loader(data, 5, device=device, seed=2, shuffle=True, flip=True, shift=2, cutout=3)
    mean, deviation = (value.double()[:, None, None] for value in data.statistics())
    for epoch in (0, 1):
        order = randomness.permutation(23, 2, epoch)
        inputs, targets = (torch.cat(parts).cpu() for parts in zip(*batches, strict=True))
        assert targets.tolist() == data.labels[order].tolist()
        for index, found in zip(order.tolist(), inputs, strict=True):
            draws = randomness.uniform(2, "augment", epoch, torch.tensor([index]), augment.DRAWS)[0].tolist()
            image = moved_slowly(data.images[index], draws, flip=True, shift=2)
            expected = cut_out_slowly((image.double() / 255 - mean) / deviation, draws, 3)
            torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-6)
            assert torch.equal(found == 0, expected == 0)


def test_without_augmentation_the_pictures_are_only_normalised(noise_set: Make) -> None:
    data = noise_set(40)
    inputs, targets = next(iter(loader(data, 40)))
    assert inputs.dtype == torch.float32 and inputs.shape == (40, 3, 6, 5)
    assert targets.dtype == torch.int64 and torch.equal(targets, data.labels)
    torch.testing.assert_close(inputs.mean(dim=(0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(inputs.std(dim=(0, 2, 3), correction=0), torch.ones(3), rtol=0, atol=1e-5)


def test_statistics_of_another_part_are_used(noise_set: Make) -> None:
    data = noise_set(4)
    mean, deviation = torch.tensor([0.5, 0.25, 0.0]), torch.tensor([0.5, 1.0, 2.0])
    for given in ((mean, deviation), (mean.tolist(), deviation.tolist())):
        batches = loader(data, 4, statistics=given)
        inputs, _ = next(iter(batches))
        expected = (data.images.double() / 255 - mean[:, None, None]) / deviation[:, None, None]
        torch.testing.assert_close(inputs, expected.float())
        assert [value.tolist() for value in batches.statistics] == [mean.tolist(), deviation.tolist()]


def test_batches_arrive_on_the_device(noise_set: Make, device: torch.device) -> None:
    for data in (noise_set(8), Numbers(lambda index: (torch.ones(2), index), 8)):
        for num_workers in (0, 1):
            batches = list(loader(data, 3, device=device, num_workers=num_workers))
            assert {part.device.type for batch in batches for part in batch} == {device.type}


@pytest.mark.parametrize("kind", ["cpu", "cuda", "mps"])
def test_only_cuda_copies_without_waiting(kind: str) -> None:
    """Elsewhere a copy may read the source after it is gone, see labkit.devices.send."""
    asked = []

    class Sent:
        def to(self, device: torch.device, non_blocking: bool) -> None:
            asked.append((device.type, non_blocking))

    class Ready:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, request: tuple) -> tuple:
            return Sent(), Sent()

    list(Loader(Ready(), 1, torch.device(kind), seed=0, shuffle=False, num_workers=0, drop_last=False))
    assert asked == [(kind, kind == "cuda")] * 2


# --- order, epochs, position ------------------------------------------------------------------------------------------


def test_an_epoch_gives_every_sample_once_and_the_next_one_another_order(noise_set: Make) -> None:
    data = noise_set(23, class_count=23)  # the label is the index
    orders = []
    batches = loader(data, 5, shuffle=True)
    for _ in range(3):
        targets = [targets.tolist() for _, targets in batches]
        assert [len(part) for part in targets] == [5, 5, 5, 5, 3] and len(batches) == 5
        orders.append(tuple(sum(targets, [])))
    assert all(sorted(order) == list(range(23)) for order in orders)
    assert len({*orders, tuple(range(23))}) == 4
    again = loader(data, 4, shuffle=True)
    assert [sum((targets.tolist() for _, targets in again), []) for _ in range(3)] == [list(order) for order in orders]
    assert sum((targets.tolist() for _, targets in loader(data, 5, seed=1, shuffle=True)), []) != list(orders[0])


def test_unshuffled_the_order_is_that_of_the_data_in_every_epoch(noise_set: Make) -> None:
    batches = loader(noise_set(23, class_count=23), 5)
    for _ in range(2):
        assert sum((targets.tolist() for _, targets in batches), []) == list(range(23))


@pytest.mark.parametrize(("batch_size", "lengths"), [(5, [5] * 4), (23, [23]), (12, [12]), (1, [1] * 23)])
def test_drop_last_gives_full_batches_only(batch_size: int, lengths: list[int], noise_set: Make) -> None:
    batches = loader(noise_set(23), batch_size, shuffle=True, drop_last=True)
    assert [len(targets) for _, targets in batches] == lengths and len(batches) == len(lengths)


def test_a_batch_larger_than_the_data_is_one_short_batch_when_measuring(noise_set: Make) -> None:
    batches = loader(noise_set(5), 64)
    assert [len(targets) for _, targets in batches] == [5] and len(batches) == 1


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", ["pairs", "pictures"])
def test_at_gives_the_rest_of_any_epoch(kind: str, num_workers: int) -> None:
    whole = random_pairs.make(kind, num_workers=0)
    epochs = [list(whole) for _ in range(3)]
    batches = random_pairs.make(kind, num_workers)
    for epoch, batch in ((2, 3), (0, 1), (1, 0), (1, 4), (0, 9)):
        assert_equal(list(batches.at(epoch, batch)), epochs[epoch][batch:])


def test_at_reads_nothing_that_lies_before() -> None:
    read = []
    batches = loader(Numbers(lambda index: (torch.zeros(1), read.append(index) or index), 50), 10)
    next(batches.at(0, 3))
    assert read == list(range(30, 40))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_state_is_the_position_of_the_next_batch(num_workers: int) -> None:
    batches = random_pairs.make("pairs", num_workers)
    assert batches.state() == {"epoch": 0, "batch": 0}
    expected = list(batches) + list(batches)
    assert batches.state() == {"epoch": 2, "batch": 0}
    part = batches.at(0, 1)
    assert batches.state() == {"epoch": 2, "batch": 0}, "nothing is read yet"
    next(part)
    position = batches.state()
    assert position == {"epoch": 0, "batch": 2}
    other = random_pairs.make("pairs", 0)
    assert_equal(list(other.at(**position)), expected[2:4])
    assert_equal(list(other), expected[4:])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_who_iterates_anew_gets_every_sample(num_workers: int) -> None:
    """After a look at the first batch, an interrupt, or the last batch of `at`, no sample may be left out."""
    batches = random_pairs.make("pairs", num_workers)
    next(iter(batches))
    for _ in batches:
        break
    for _ in range(2):
        assert sorted(together(list(batches))[:, 0].tolist()) == list(range(13))
    list(batches.at(0, 2))
    assert sorted(together(list(batches))[:, 0].tolist()) == list(range(13))


def test_without_workers_iterations_do_not_disturb_each_other() -> None:
    batches = random_pairs.make("pairs", 0)
    epochs = [list(batches) for _ in range(2)]
    in_turn = list(zip(batches.at(0, 0), batches.at(1, 0), strict=True))
    assert_equal([first for first, _ in in_turn], epochs[0])
    assert_equal([second for _, second in in_turn], epochs[1])


def test_workers_that_are_asked_twice_at_a_time_say_so(noise_set: Make) -> None:
    batches = loader(noise_set(7), 2, num_workers=1)
    with raises(DataError, match=r"iterated anew inside an iteration.*Make a second loader"):
        for _ in batches:
            assert len(list(batches)) == 4
    assert len(list(batches)) == 4


# --- workers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pairs", "pictures"])
@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_number_of_workers_changes_no_bit(kind: str, num_workers: int) -> None:
    assert random_pairs.digest(random_pairs.make(kind, num_workers)) == random_pairs.digest(random_pairs.make(kind, 0))


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["spawn", "forkserver"] if hasattr(os, "fork") else ["spawn"])
def test_workers_that_are_not_forked_change_no_bit_either(start_method: str) -> None:
    program = Path(random_pairs.__file__)
    answer = subprocess.run(
        [sys.executable, program, start_method, "2"], capture_output=True, text=True, check=True, timeout=240
    )
    expected = [random_pairs.digest(random_pairs.make(kind, 0)) for kind in ("pairs", "pictures")]
    assert answer.stdout.split() == expected and answer.stderr == ""


def test_workers_live_for_more_than_one_epoch() -> None:
    """Starting them costs seconds where they are spawned."""
    batches = loader(Numbers(lambda index: (torch.zeros(1), os.getpid())), 2, num_workers=1)
    assert len({targets[0].item() for _ in range(3) for _, targets in batches}) == 1


def test_random_transforms_differ_between_samples_epochs_and_seeds() -> None:
    batches = loader(RandomPairs(), 4, seed=3)
    first, second = together(list(batches)), together(list(batches))
    other_seed = together(list(loader(RandomPairs(), 4, seed=4)))
    numbers = torch.cat([part[:, 1:] for part in (first, second, other_seed)])
    assert torch.equal(first[:, 0], second[:, 0])
    assert len(torch.unique(numbers)) == numbers.numel() == 3 * 13 * 3


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("kind", ["pairs", "pictures"])
def test_iterating_leaves_the_global_generators_alone(kind: str, num_workers: int) -> None:
    with randomness.frozen_randomness(1):
        before = repr(randomness.rng_state())
        state = torch.get_rng_state()
        for _ in random_pairs.make(kind, num_workers):
            assert torch.equal(torch.get_rng_state(), state)
        assert repr(randomness.rng_state()) == before


def test_an_error_in_a_sample_reaches_the_caller_in_its_own_words() -> None:
    def sample(index: int) -> tuple[Tensor, int]:
        if index == 3:
            raise LookupError("picture 3 is not there")
        return torch.zeros(1), index

    for num_workers in (0, 2):
        batches = loader(Numbers(sample), 2, num_workers=num_workers)
        with raises(LookupError, match="picture 3 is not there"):
            list(batches)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot send SIGINT to one process alone")
def test_workers_outlive_ctrl_c() -> None:
    batches = iter(loader(Numbers(lambda index: (torch.zeros(1), os.getpid()), 40), 2, num_workers=2))
    workers = {next(batches)[1][0].item() for _ in range(2)}
    assert len(workers) == 2 and os.getpid() not in workers
    for worker in workers:
        os.kill(worker, signal.SIGINT)
    rest = [targets[0].item() for _, targets in batches]
    assert len(rest) == 18 and set(rest) == workers


# --- the data stay as they are ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_pictures_are_held_once_and_never_changed(num_workers: int, noise_set: Make) -> None:
    data = noise_set()
    images, labels = data.images.clone(), data.labels.clone()
    batches = loader(data, 4, shuffle=True, flip=True, shift=1, cutout=2, num_workers=num_workers)
    assert batches.batches.images.data_ptr() == data.images.data_ptr()
    for inputs, targets in batches:
        inputs.zero_()
        targets.zero_()
    assert torch.equal(data.images, images) and torch.equal(data.labels, labels)


def test_a_loader_tells_what_a_model_needs_to_know(noise_set: Make) -> None:
    data = noise_set()
    mean, deviation = data.statistics()
    batches = loader(data, 4)
    assert batches.classes == data.classes and batches.fingerprint() == data.fingerprint()
    assert batches.description() == {
        "classes": list(data.classes),
        "image_shape": [3, 6, 5],
        "mean": mean.tolist(),
        "deviation": deviation.tolist(),
    }
    pairs = loader(RandomPairs(), 4)
    assert (pairs.classes, pairs.statistics, pairs.description()) == ((), None, {"classes": []})
    named = RandomPairs()
    named.classes = ["a", "b", "c"]
    assert loader(named, 4).description() == {"classes": ["a", "b", "c"]}


def test_the_fingerprint_of_other_data_sees_the_first_and_the_last_sample() -> None:
    def fingerprint(change_at: int | None = None, count: int = 6, dtype: torch.dtype = torch.float32) -> str:
        def sample(index: int) -> tuple[Tensor, int]:
            values = torch.zeros(3000, dtype=dtype)  # so long that torch prints its beginning and end only
            values[1500] = 1e-6 if index == change_at else 0
            return values, index

        return loader(Numbers(sample, count), 2).fingerprint()

    plain = fingerprint()
    assert plain == fingerprint() == fingerprint(change_at=2)
    assert len({plain, fingerprint(0), fingerprint(5), fingerprint(count=7), fingerprint(dtype=torch.float64)}) == 5
    assert loader(RandomPairs(), 2).fingerprint() == loader(RandomPairs(), 4).fingerprint()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_size": 0}, "batch_size=0: a batch needs at least 1 sample"),
        ({"batch_size": -3}, "batch_size=-3: a batch needs at least 1 sample"),
        ({"batch_size": 24, "shuffle": True}, "batch_size=24 is larger than the 23 samples.*Use at most 23"),
        ({"batch_size": 24, "drop_last": True}, "batch_size=24 is larger than the 23 samples.*Use at most 23"),
        ({"num_workers": -1}, r"num_workers=-1: use 0 \(no worker process\) or more"),
        ({"shift": 5}, "shift=5: pictures of 6×5 can be moved by 0 to 4"),
        ({"shift": -1}, "shift=-1: pictures of 6×5 can be moved by 0 to 4"),
        ({"cutout": 7}, r"cutout=7: choose 0 \(off\) to 6 for pictures of 6×5"),
        ({"cutout": -1}, r"cutout=-1: choose 0 \(off\) to 6"),
        ({"batch_size": 2.5}, "batch_size=2.5 must be a whole number"),
        ({"batch_size": "4"}, "batch_size='4' must be a whole number"),
        ({"batch_size": None}, "batch_size=None must be a whole number"),
        ({"batch_size": True}, "batch_size=True must be a whole number"),
        ({"shift": 1.5}, "shift=1.5 must be a whole number"),
        ({"cutout": None}, "cutout=None must be a whole number"),
        ({"num_workers": 1.5}, "num_workers=1.5 must be a whole number"),
        ({"statistics": (torch.zeros(3), torch.zeros(3))}, "the deviation above 0"),
        ({"statistics": (torch.full((3,), float("nan")), torch.ones(3))}, "the mean must be finite"),
        ({"statistics": (torch.zeros(1), torch.ones(1))}, "with one value for each of the 3 channels"),
        ({"statistics": 3}, r"give \(mean, deviation\), such as train_loader.statistics"),
        ({"statistics": ("a", "b")}, r"give \(mean, deviation\), such as train_loader.statistics"),
        ({"statistics": (torch.zeros(3),)}, r"give \(mean, deviation\) with one value for each of the 3 channels"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_with_a_sentence(options: dict, sentence: str, noise_set: Make) -> None:
    with pytest.raises(DataError, match=sentence):
        loader(noise_set(), **({"batch_size": 4} | options))


@pytest.mark.parametrize("collate", ["pad", 3])
def test_a_collate_that_is_no_function_is_refused(collate: object) -> None:
    with pytest.raises(DataError, match="collate must be a function that makes a batch"):
        loader(Numbers(lambda index: (index, index)), 2, collate=collate)


@pytest.mark.parametrize("position", [(-1, 0), (0, -1), (None, 0), (0, 2.5)])
def test_a_position_that_no_batch_has_is_refused(position: tuple, noise_set: Make) -> None:
    with pytest.raises(DataError, match="counted from 0"):
        next(loader(noise_set(), 4).at(*position))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_data_set_with_fewer_samples_than_it_says_is_told(num_workers: int) -> None:
    few = Numbers(lambda index: (torch.zeros(1), list(range(10))[index]), 13)
    with raises(DataError, match="Sample 10 of Numbers failed with IndexError.*says that it has 13 samples"):
        list(loader(few, 2, num_workers=num_workers))


def test_whole_numbers_of_numpy_are_whole_numbers(noise_set: Make) -> None:
    batches = loader(noise_set(), np.int64(4), shift=np.int32(1), num_workers=np.int64(0))
    assert [len(targets) for _, targets in batches] == [4] * 5 + [3]


def test_the_largest_settings_that_work_are_taken(noise_set: Make) -> None:
    inputs, _ = next(iter(loader(noise_set(), 23, shuffle=True, drop_last=True, shift=4, cutout=6)))
    assert inputs.shape == (23, 3, 6, 5) and inputs.isfinite().all()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ([], "The data set is empty"),
        (Numbers(lambda index: index, 0), "The data set is empty"),
        (Stream(), "Stream has no length or cannot be indexed"),
        ((pair for pair in [1, 2]), "generator has no length or cannot be indexed.*map-style data set"),
        (None, "NoneType has no length or cannot be indexed"),
        (Numbers(lambda index: index, -3), "Numbers cannot tell how many samples it has"),
        (Numbers(lambda index: index, 2.5), "Numbers cannot tell how many samples it has"),
        (Numbers, "type cannot tell how many samples it has"),
    ],
    ids=["list", "empty", "stream", "generator", "nothing", "below zero", "half a sample", "a class"],
)
def test_data_without_samples_or_order_are_refused(data: object, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        loader(data, 1)


@pytest.mark.parametrize("option", [{"flip": True}, {"shift": 1}, {"cutout": 1}, {"statistics": ((0.5,), (0.5,))}])
def test_augmentation_of_other_data_is_not_silently_left_out(option: dict) -> None:
    with pytest.raises(DataError, match="are for an ImageSet; RandomPairs prepares its own inputs"):
        loader(RandomPairs(), 4, **option)


def test_a_device_that_is_not_there_is_refused(noise_set: Make) -> None:
    with pytest.raises(DeviceError, match="Device 'gpu' is not known"):
        loader(noise_set(), 4, device="gpu")
    assert loader(noise_set(), 4, device="auto").device.type in ("cpu", "cuda", "mps")


@pytest.mark.parametrize(
    ("sample", "sentence"),
    [
        (lambda index: torch.zeros(2), r"must be a pair \(input, target\).*got Tensor"),
        (lambda index: (torch.zeros(2), index, index), r"pair \(input, target\).*got \(Tensor, int, int\)"),
        (lambda index: (torch.zeros(2), "cat"), r"pair \(input, target\).*got \(Tensor, str\)"),
        (lambda index: {"input": torch.zeros(2), "target": index}, r"pair \(input, target\).*got dict"),
        (lambda index: (torch.zeros(2 + index), index), "Numbers cannot be put into one batch: stack expects"),
        (lambda index: (object(), index), "Numbers cannot be put into one batch: default_collate"),
        (lambda index: None if index else (torch.zeros(2), 0), "Sample 1 of Numbers is None.*=labkit.data.skip_miss"),
    ],
    ids=["no target", "three parts", "text", "dict", "sizes differ", "no tensor", "missing"],
)
@pytest.mark.parametrize("num_workers", [0, 1])
def test_samples_that_make_no_batch_are_refused(sample: Callable, sentence: str, num_workers: int) -> None:
    with raises(DataError, match=sentence):
        next(iter(loader(Numbers(sample), 2, num_workers=num_workers)))


class Ends:
    """A data set at whose third sample the process is gone, as if the system had taken its memory back."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == 2:
            os._exit(1)
        return torch.zeros(2), index


@pytest.mark.skipif(os.name == "nt", reason="a worker that is started anew cannot find this class on Windows")
def test_a_worker_that_is_ended_from_outside_is_explained() -> None:
    with raises(DataError, match="was ended from outside.*num_workers=0"):
        list(loader(Ends(), 2, num_workers=1))


def test_a_list_of_pairs_is_a_data_set() -> None:
    batches = loader([(torch.full((2,), float(index)), index) for index in range(5)], 2)
    assert [targets.tolist() for _, targets in batches] == [[0, 1], [2, 3], [4]]
