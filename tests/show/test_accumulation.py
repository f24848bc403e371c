"""The differences are those of real gradients: one way is exact, the other is not where batches are uneven."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from labkit import models, show
from labkit.errors import ConfigError
from labkit.show.accumulation import PICTURES, ROUNDING, _large_batch, gradient_differences, micro_batch_sizes


@given(st.integers(1, PICTURES), st.floats(0, 0.99))
def test_every_picture_is_in_one_micro_batch_and_none_is_empty(batches: int, unevenness: float) -> None:
    sizes = micro_batch_sizes(batches, unevenness)
    assert sum(sizes) == PICTURES and len(sizes) == batches
    assert min(sizes) >= 1 and sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("sizes", [(16, 16, 16, 16), (60, 4), (40, 20, 4)])
def test_the_differences_are_those_of_gradients_computed_at_once(sizes: tuple[int, ...]) -> None:
    """A weight for each picture, in one backward pass: another way to the same two gradients."""
    inputs, targets = _large_batch()

    def gradient(weights: torch.Tensor) -> torch.Tensor:
        model = models.build("mlp", (1, 8, 8), 10)
        (F.cross_entropy(model(inputs), targets, reduction="none") * weights).sum().backward()
        return nn.utils.parameters_to_vector([parameter.grad for parameter in model.parameters()])

    whole = gradient(torch.full((PICTURES,), 1 / PICTURES))
    usual = gradient(torch.cat([torch.full((size,), 1 / len(sizes) / size) for size in sizes]))
    found = gradient_differences(sizes)
    assert found["loss / k"] == pytest.approx(((usual - whole).norm() / whole.norm()).item(), rel=1e-3, abs=ROUNDING)
    assert found["share"] < ROUNDING


def test_equal_pieces_are_right_in_both_ways_and_uneven_ones_in_one() -> None:
    assert show.accumulation_picture(4, 0.0).summary.count("only rounding") == 2
    assert show.accumulation_picture(4, 0.75).summary.count("only rounding") == 1


def test_the_bars_have_the_area_of_the_whole() -> None:
    picture = show.accumulation_picture(8, 0.75)
    bars = picture.figure.axes[0].patches
    assert [bar.get_height() for bar in bars] == [row["counts with loss / k"] for row in picture.data]
    assert sum(bar.get_width() * bar.get_height() for bar in bars) == pytest.approx(PICTURES)


def test_the_control_moves_and_trains_nothing() -> None:
    state = torch.get_rng_state()
    control = show.accumulation()
    assert control.set(batches=16, unevenness=0.9).summary == show.accumulation_picture(16, 0.9).summary
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("batches", "unevenness"), [(0, 0.5), (65, 0.5), (4, 1.0), (4, -0.1)])
def test_settings_that_mean_nothing_are_a_sentence(batches: int, unevenness: float) -> None:
    with pytest.raises(ConfigError, match="must be from 1 to 64"):
        show.accumulation_picture(batches, unevenness)
