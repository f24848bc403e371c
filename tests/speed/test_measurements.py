"""Every measurement compares ways that do the same, runs on this CPU, and leaves nothing changed."""

import copy

import pytest
import torch

from labkit.errors import ConfigError
from labkit.speed import MEASUREMENTS, Bench, measure, updates
from labkit.speed.ways_around import Decoded, Deep, augmentation, noise
from labkit.speed.ways_of_computing import chain, channels_last

CPU = Bench(torch.device("cpu"))
LONG = {"workers", "compile"}  # processes that start, a compiler


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in MEASUREMENTS]
)
def test_all_ways_of_a_measurement_run_and_leave_the_threads_as_they_were(name):
    threads = torch.get_num_threads()
    ways = MEASUREMENTS[name].ways(CPU)
    assert len(ways) >= 2
    for way in ways.values():
        way()
    assert torch.get_num_threads() == threads


def test_a_measurement_gives_figures_and_leaves_random_numbers_as_they_were():
    before = torch.get_rng_state()
    found = measure("optimizer")
    assert torch.equal(torch.get_rng_state(), before) and list(found.seconds) == ["one by one", "foreach", "fused"]
    assert found.rows[0]["times as fast"] == 1 and all(row["milliseconds"] > 0 for row in found.rows)


def test_an_unknown_name_is_answered_with_all_of_them():
    with pytest.raises(ConfigError, match=r"no measurement 'amp'.*precision"):
        measure("amp")


def test_all_ways_of_augmenting_give_the_same_pictures():
    pictures = [way() for way in augmentation(CPU).values()]
    assert pictures[0].shape == (256, 3, 32, 32) and pictures[0].dtype == torch.uint8
    assert all(torch.equal(pictures[0], other) for other in pictures[1:])
    assert not torch.equal(pictures[0], noise(256))


def test_values_computed_again_give_the_same_gradients():
    kept = Deep(again=False)
    again = copy.deepcopy(kept)
    again.again = True
    for model in (kept, again):
        model(torch.ones(2, 256)).sum().backward()
    pairs = zip(kept.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(one.grad, other.grad) for one, other in pairs)


def test_layout_and_precision_change_the_first_loss_hardly():
    first, last = (way().item() for way in channels_last(CPU).values())
    assert first == pytest.approx(last, abs=1e-4)
    half = updates(CPU.network(), CPU.batch(4), torch.bfloat16)().item()
    assert half == pytest.approx(updates(CPU.network(), CPU.batch(4))().item(), abs=0.05)


def test_a_decoded_picture_is_one():
    picture, label = Decoded(3, 16)[2]
    assert picture.shape == (3, 16, 16) and 0 <= picture.min() < picture.max() <= 1 and label == 2


def test_the_chain_is_what_its_formula_says():
    x = torch.linspace(-3, 3, 7)
    y = (x * 0.5 + 1) ** 2 - x
    torch.testing.assert_close(chain(x), (y.sigmoid() * x + y.tanh() + 2).relu() * 0.1)
