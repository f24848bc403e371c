"""Samplers: orders that depend on (seed, epoch) alone, the shares they give, and what the loader makes of them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labkit.data.loading import loader
from labkit.data.samplers import Sampler, balanced, checked, in_order, sampled_shares, shuffled, subset, weighted
from labkit.errors import DataError

LABELS = torch.tensor([0] * 70 + [1] * 25 + [2] * 5)
PAIRS = [(torch.zeros(1), index) for index in range(100)]
SAMPLERS = {
    "shuffled": shuffled(100),
    "subset": subset(range(0, 100, 3)),
    "weighted": weighted(torch.linspace(0, 1, 100)),
    "weighted once": weighted(torch.linspace(0, 1, 100), 40, replacement=False),
    "balanced": balanced(LABELS),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_an_order_depends_on_seed_and_epoch_alone(name: str) -> None:
    sampler = SAMPLERS[name]
    first = sampler(3, 5)
    torch.rand(7)
    assert torch.equal(sampler(3, 5), first) and first.dtype == torch.int64
    assert not torch.equal(sampler(3, 6), first) and not torch.equal(sampler(4, 5), first)
    assert len(sampler(3, 6)) == len(first) and first.min() >= 0 and first.max() < 100


def test_in_order_and_subset_take_what_they_are_told() -> None:
    assert in_order(4)(1, 2).tolist() == [0, 1, 2, 3]
    assert subset([5, 2, 9], shuffle=False)(1, 2).tolist() == [5, 2, 9]
    assert sorted(subset(torch.tensor([5, 2, 9]))(1, 2).tolist()) == [2, 5, 9]


def test_weights_are_the_probabilities() -> None:
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0, 6.0, 0.0])
    drawn = torch.bincount(weighted(weights, 100_000)(0, 0), minlength=6)
    # Five deviations of a binomial count: sqrt(n p (1 - p)) is at most 158.
    assert (drawn - weights * 10_000).abs().max() < 5 * 158
    assert drawn[weights == 0].sum() == 0


def test_without_replacement_nobody_comes_twice_and_weights_say_who_comes_early() -> None:
    weights = torch.tensor([1.0] * 50 + [100.0] * 50)
    order = weighted(weights, 100, replacement=False)(0, 0)
    assert sorted(order.tolist()) == list(range(100))
    assert (order[:25] >= 50).float().mean() > 0.9
    assert weighted([0, 1, 1], 2, replacement=False)(0, 0).sort().values.tolist() == [1, 2]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(labels=st.lists(st.integers(-2, 4), min_size=1, max_size=30), count=st.integers(1, 60))
def test_balanced_means_equal_up_to_one_and_nobody_is_favoured(labels: list[int], count: int) -> None:
    taken = balanced(labels, count)(1, 2)
    assert len(taken) == count
    labels = torch.tensor(labels)
    of_class = [int((labels[taken] == label).sum()) for label in labels.unique()]
    assert max(of_class) - min(of_class) <= 1
    times = torch.bincount(taken, minlength=len(labels))
    for label in labels.unique():
        own = times[labels == label]
        assert own.max() - own.min() <= 1


def test_shares_say_what_a_sampler_gives() -> None:
    table = sampled_shares(balanced(LABELS, 300), LABELS, ("cat", "dog", "emu"))
    assert [row["class"] for row in table.rows] == ["cat", "dog", "emu"]
    assert [row["share of the data"] for row in table.rows] == [0.7, 0.25, 0.05]
    assert [row["share of the draws"] for row in table.rows] == [1 / 3] * 3
    assert [row["came at all"] for row in table.rows] == [70, 25, 5]
    assert [row["most often"] for row in table.rows] == [2, 4, 20]
    assert table.caption == "300 draws in 1 epoch; 0 of 100 samples never came."
    one_class = sampled_shares(subset(range(70)), LABELS, epochs=2)
    assert one_class.caption == "140 draws in 2 epochs; 30 of 100 samples never came."
    assert [row["came at all"] for row in one_class.rows] == [70, 0, 0]


# --- with the loader --------------------------------------------------------------------------------------------------


def indices(batches) -> list[int]:
    return sum((targets.tolist() for _, targets in batches), [])


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_loader_takes_that_order(name: str) -> None:
    sampler = SAMPLERS[name]
    batches = loader(PAIRS, 8, seed=3, sampler=sampler)
    for epoch in range(2):
        assert indices(batches) == sampler(3, epoch).tolist()
    assert len(batches) == -(-len(sampler(3, 0)) // 8)
    assert indices(batches.at(1, 2)) == sampler(3, 1).tolist()[16:]


def test_pictures_are_sampled_too(noise_set) -> None:
    data = noise_set(12, class_count=12)
    assert indices(loader(data, 5, sampler=subset([7, 1], shuffle=False))) == [7, 1]


def test_a_function_of_ones_own_is_a_sampler() -> None:
    assert indices(loader(PAIRS, 2, sampler=lambda seed, epoch: [epoch, 1, 2])) == [0, 1, 2]


@pytest.mark.parametrize(
    ("sampler", "sentence"),
    [
        ([1, 2, 3], r"sampler must be a function \(seed, epoch\).*got list"),
        (lambda seed, epoch: [1, 100], "asks for samples 1 to 100, but the data set has 100: indices run from 0 to 99"),
        (lambda seed, epoch: [-1, 2], "asks for samples -1 to 2"),
        (lambda seed, epoch: torch.rand(3), "What the sampler returns must be whole numbers.*float32"),
        (lambda seed, epoch: torch.ones(3, dtype=torch.bool), "must be whole numbers.*bool"),
        (lambda seed, epoch: [], "must be whole numbers in one row, at least one"),
        (lambda seed, epoch: None, "must be whole numbers"),
        (lambda seed: [0], r"is called as sampler\(seed, epoch\), and this one failed"),
        (subset([1, 2, 3]), "batch_size=4 is larger than the 3 samples"),
    ],
)
def test_a_sampler_that_cannot_serve_is_refused(sampler: object, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        loader(PAIRS, 4, sampler=sampler, drop_last=True)


def test_every_epoch_must_be_as_long() -> None:
    batches = loader(PAIRS, 2, sampler=lambda seed, epoch: range(4 + epoch))
    assert len(list(batches)) == 2
    with pytest.raises(DataError, match="4 indices for epoch 0 and 5 for epoch 1"):
        list(batches)


def test_a_sampler_and_shuffle_contradict_each_other() -> None:
    with pytest.raises(DataError, match="Give a sampler or shuffle=True, not both"):
        loader(PAIRS, 2, sampler=SAMPLERS["shuffled"], shuffle=True)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: weighted([]), "weights must be finite"),
        (lambda: weighted([0.0, 0.0]), "not all 0"),
        (lambda: weighted([1.0, -1.0]), "0 or more"),
        (lambda: weighted([1.0, float("nan")]), "finite"),
        (lambda: weighted([1.0], 0), "count=0: draw at least 1 sample\\."),
        (
            lambda: weighted([1.0, 0.0], 2, replacement=False),
            "at most 1, since replacement=False takes no sample twice",
        ),
        (lambda: balanced([0, 1], -1), "count=-1: take at least 1"),
        (lambda: balanced([0.5, 1.5]), "labels must be whole numbers"),
        (lambda: weighted(None), "weights must be numbers, one for each sample, got NoneType"),
        (lambda: weighted(["a"]), "weights must be numbers"),
        (lambda: sampled_shares(balanced([0, 1]), [0, 1], epochs=0), "epochs=0: count over at least 1"),
        (lambda: sampled_shares(balanced([0, 1]), [0, 1], ("a",)), "1 names, and labels run from 0 to 1"),
        (lambda: sampled_shares(balanced([0, 1]), [-1, 1], ("a", "b")), "labels run from -1 to 1"),
        (lambda: subset("abc"), "indices must be whole numbers in one row, got str"),
    ],
)
def test_what_makes_no_sampler_is_refused(make, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        make()


def test_checked_passes_a_right_order_on() -> None:
    sampler: Sampler = lambda seed, epoch: (epoch, 1)  # noqa: E731
    order: Tensor = checked(sampler, 0, 2, 3)
    assert order.tolist() == [2, 1] and order.dtype == torch.int64
