"""The loader doctor: it measures what really passes, advises by the numbers, and leaves everything as it was."""

import time

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from labkit import randomness
from labkit.data import profiling
from labkit.data.loading import loader
from labkit.data.profiling import Profile, advise, profile
from labkit.errors import DataError

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]


class Slow(Dataset):
    """Takes 10 ms to read a sample, and no processor: waiting for a disk is like that."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.01)
        return torch.zeros(2), index


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(2), 0)] * 6)


def step(inputs: torch.Tensor, targets: torch.Tensor) -> None:
    time.sleep(0.03)


def row(workers: int, waiting: float, computing: float, start: float = 0.0) -> dict:
    return {
        "workers": workers,
        "waiting": waiting,
        "computing": computing,
        "step": waiting + computing,
        "waiting share": waiting / (waiting + computing),
        "samples a second": 1.0,
        "seconds to start": start,
    }


def test_waiting_and_computing_are_told_apart_and_workers_hide_the_waiting() -> None:
    source = loader(Slow(), 4, shuffle=True)
    result = profile(source, step, workers=[2], seconds=0.5)
    assert [line["workers"] for line in result.rows] == [0, 2], "what is in use is always measured"
    alone, helped = result.rows
    assert alone["waiting"] >= 40 and alone["computing"] >= 30 and helped["computing"] >= 30
    assert helped["waiting"] < alone["waiting"] / 2
    for line in result.rows:
        assert line["step"] == pytest.approx(line["waiting"] + line["computing"])
        assert line["waiting share"] == pytest.approx(line["waiting"] / line["step"])
        assert line["samples a second"] == pytest.approx(4000 / line["step"])
    assert result.advice[1].startswith("num_workers=2 is ")
    assert result.advice[1] in str(result) and "<p>num_workers=2 is" in result._repr_html_()


def test_without_a_step_it_says_so_and_tries_what_the_cores_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "cores", lambda: 3)
    result = profile(loader(Slow(), 6), seconds=0.1)
    assert isinstance(result, Profile) and [line["workers"] for line in result.rows] == [0, 1, 2]
    assert "no step given" in result.caption and any("profile(loader, step)" in sentence for sentence in result.advice)


def test_the_loader_and_the_random_numbers_stay_as_they_are() -> None:
    source = loader(Slow(), 4)
    next(iter(source))
    before, state = source.state(), repr(randomness.rng_state())
    profile(source, lambda inputs, targets: torch.rand(1), workers=[1], seconds=0.05)
    assert source.state() == before and repr(randomness.rng_state()) == state


@pytest.mark.parametrize(
    "source",
    [
        DataLoader(TensorDataset(torch.zeros(12, 2), torch.arange(12)), batch_size=4, shuffle=True, drop_last=True),
        DataLoader(Stream(), batch_size=2),
        DataLoader([(torch.zeros(3, 2), torch.zeros(3))] * 6, batch_size=None),
        DataLoader(Slow(), batch_size=6, num_workers=1, persistent_workers=True, prefetch_factor=3),
    ],
    ids=["shuffled", "stream", "whole batches", "workers"],
)
def test_torchs_own_loaders_are_measured_too(source: DataLoader) -> None:
    result = profile(source, step, workers=[0, 1], seconds=0.05)
    assert [line["workers"] for line in result.rows] == [0, 1]
    kept = any("persistent_workers=True" in sentence for sentence in result.advice)
    assert kept is not source.persistent_workers


def test_pictures_in_memory_need_no_workers(noise_set, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "_measure", lambda source, step, workers, seconds: row(workers, 1 + workers, 1))
    told = [profile(source, step, workers=[1]).advice for source in (loader(noise_set(), 4), loader(Slow(), 4))]
    assert [any("These pictures lie in memory" in sentence for sentence in advice) for advice in told] == [True, False]


def test_workers_that_cannot_start_are_said_to_be_so() -> None:
    data = Slow()
    data.helper = lambda: None
    result = profile(loader(data, 6, start_method="spawn"), workers=[1], seconds=0.05)
    assert [line["workers"] for line in result.rows] == [0]
    assert result.advice[-1].startswith("num_workers=1 cannot be tried: Slow cannot be sent to worker processes")


ADVICE = [
    ([row(0, 5, 95), row(2, 3, 96)], 0, ["(5%) are waiting", "stay with num_workers=0", "computing sets the pace"]),
    (
        [row(0, 60, 40), row(1, 20, 40, 3.0), row(2, 1, 41, 3.0)],
        0,
        ["(60%) are", "2.4 times", "about 52 steps", "pace"],
    ),
    ([row(0, 60, 40), row(2, 40, 40)], 0, ["(60%) are waiting", "1.2 times as fast", "Even then 50% of the time"]),
    ([row(0, 2, 40), row(8, 1, 40)], 8, ["num_workers=0 is about as fast and needs fewer", "pace"]),
    ([row(0, 60, 40), row(2, 1, 40)], 2, ["stay with num_workers=2", "pace"]),
    ([row(0, 10, 40), row(2, 60, 40)], 2, ["num_workers=0 is 2.0 times as fast", "Even then 20%"]),
]


@pytest.mark.parametrize(("rows", "in_use", "parts"), ADVICE)
def test_advice_follows_from_the_numbers(rows: list[dict], in_use: int, parts: list[str]) -> None:
    text = " ".join(advise(rows, in_use, with_step=True))
    assert all(part in text for part in parts), text
    assert ("Starting takes" in text) == any("52 steps" in part for part in parts)


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        ([1, 2], {}, "a labkit loader or a torch DataLoader, got list"),
        (loader(Slow(), 4), {"workers": [-1]}, "whole numbers of 0 or more"),
        (loader(Slow(), 4), {"workers": [1.5]}, "whole numbers of 0 or more"),
        (loader(Slow(), 4), {"workers": 2}, r"workers=2: give the numbers to try"),
        (loader(Slow(), 4), {"workers": ["a"]}, "whole numbers of 0 or more"),
        (loader(Slow(), 4), {"seconds": float("nan")}, "seconds=nan: say how long"),
        (loader(Slow(), 4), {"seconds": None}, "seconds=None: say how long"),
        (loader(Slow(), 4), {"step": 3}, "step must be a function"),
        (DataLoader(torch.zeros(8)), {"workers": [0]}, r"batches \(inputs, targets\), and this loader gives Tensor"),
        (DataLoader(Slow(), batch_size=99, drop_last=True), {"workers": [0]}, "The loader has no batch"),
    ],
)
def test_what_cannot_be_measured_is_refused(source: object, options: dict, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        profile(source, **options)
