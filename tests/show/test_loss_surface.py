"""The landscape is that of real data, and the path in it is what the optimizer really does."""

import math

import numpy
import pytest

from labkit import show
from labkit.errors import ConfigError
from labkit.show.loss_surface import START, flowers, path, valley


def by_hand(rate: float, momentum: float, updates: int, nesterov: bool = False) -> list[tuple[float, float]]:
    """Take the path with the formulas of gradient and momentum, without torch."""
    length, width = (part.numpy() for part in flowers())
    place, speed, passed = numpy.array(START), numpy.zeros(2), [START]
    for _ in range(updates):
        error = place[0] * length + place[1] - width
        gradient = numpy.array([2 * (error * length).mean(), 2 * error.mean()])
        speed = momentum * speed + gradient
        place = place - rate * (gradient + momentum * speed if nesterov else speed)
        passed.append(tuple(place))
    return passed


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize(("rate", "momentum"), [(0.01, 0.0), (0.05, 0.0), (0.03, 0.9)])
def test_the_path_is_that_of_the_formulas(rate: float, momentum: float, nesterov: bool) -> None:
    rows = path(rate, momentum, "nesterov" if nesterov else "sgd", 60)
    expected = by_hand(rate, momentum, 60, nesterov)
    assert numpy.allclose([(row["weight"], row["bias"]) for row in rows], expected, rtol=1e-9)


def test_the_first_step_of_adam_is_as_long_as_the_rate_in_every_direction() -> None:
    before, after = path(0.1, 0.0, "adam", 1)
    assert after["weight"] - before["weight"] == pytest.approx(0.1, rel=1e-6)
    assert after["bias"] - before["bias"] == pytest.approx(0.1, rel=1e-6)


def test_plain_sgd_diverges_just_above_the_largest_rate_and_not_below() -> None:
    largest = valley()["largest rate"]
    assert path(0.995 * largest, 0.0, "sgd", 300)[-1]["loss"] < 1
    assert path(1.005 * largest, 0.0, "sgd", 300)[-1]["loss"] > path(0.1, 0.0, "sgd", 1)[0]["loss"]
    assert valley()["steep to flat"] > 100


def test_a_path_that_explodes_ends_before_its_numbers_do() -> None:
    rows = path(1.0, 0.9, "sgd", 200)
    assert len(rows) < 50 and all(math.isfinite(row["loss"]) for row in rows)
    assert "it diverges" in show.loss_surface_picture(1.0, 0.9, "sgd", 200).summary


def test_the_picture_draws_the_path_and_says_what_came_of_it() -> None:
    picture = show.loss_surface_picture(0.01, 0.9, "sgd", 200)
    landscape, losses = picture.figure.axes
    assert list(landscape.get_lines()[0].get_xdata()) == [row["weight"] for row in picture.data]
    assert list(losses.get_lines()[0].get_ydata()) == [row["loss"] for row in picture.data]
    assert picture.summary.startswith("sgd, learning rate 0.01, momentum 0.9: loss 0.04")
    assert "within a tenth of it from update " in picture.summary
    assert "momentum" not in show.loss_surface_picture(0.1, 0.9, "adam").summary


def test_the_control_has_a_menu_of_optimizers_and_moves() -> None:
    control = show.loss_surface()
    assert control.picture.summary == show.loss_surface_picture(0.003, 0.0, "sgd", 50).summary
    control._sliders["optimizer"].value = "adam"  # what a browser does
    assert control.set(learning_rate=0.3, updates=100).summary == show.loss_surface_picture(0.3, 0, "adam", 100).summary


@pytest.mark.parametrize(
    "settings", [{"optimizer": "lion"}, {"momentum": 1.0}, {"learning_rate": 0}, {"updates": 0}, {"momentum": -0.1}]
)
def test_settings_that_mean_nothing_are_a_sentence(settings: dict) -> None:
    with pytest.raises(ConfigError, match="choose one of sgd, nesterov, adam"):
        show.loss_surface_picture(**settings)
