"""The pictures of short trials show their numbers, and can be read in grey."""

import math

import pytest

from labkit import show
from labkit.show.style import luminance
from labkit.show.trials import LOOKS, SPARE_LOOK
from labkit.trials.learning_rate import LearningRateTrial
from labkit.trials.memory import MemoryEstimate
from labkit.trials.overfit import Overfit
from labkit.trials.step_profile import PARTS, StepProfile

RATES = [1e-3, 1e-2, 1e-1, 1.0]


def test_the_lowest_point_and_the_suggestion_are_marked() -> None:
    trial = LearningRateTrial(RATES, [2.0, 1.5, 1.0, 90.0], [2.0, 1.7, 1.4, 30.0], 1e-2, "Begin with 0.01.")
    picture = show.learning_rate_trial(trial)
    [panel] = picture.figure.axes
    single, smoothed, star, suggestion = panel.lines
    assert list(single.get_ydata()) == trial.losses and list(smoothed.get_ydata()) == trial.smoothed
    assert list(star.get_xdata()) == [0.1] and list(star.get_ydata()) == [1.4]
    assert set(suggestion.get_xdata()) == {1e-2}
    assert panel.get_xscale() == "log" and panel.get_ylim()[1] < 30
    assert picture.data[2] == {"rate": 0.1, "loss": 1.0, "smoothed": 1.4} and len(picture.data) == 4
    assert picture.summary == "4 updates, rate 0.001 → 1. Begin with 0.01."
    assert picture.png() == show.learning_rate_trial(trial).png()


@pytest.mark.parametrize("losses", [[2.0, 2.0, 2.0, 2.0], [2.0, 3.0, math.nan], [math.nan]])
def test_without_a_suggestion_nothing_is_marked(losses: list[float]) -> None:
    trial = LearningRateTrial(RATES[: len(losses)], losses, losses, None, "The loss never fell.")
    picture = show.learning_rate_trial(trial)
    assert len(picture.figure.axes[0].lines) == 2 and picture.png() and picture.summary.endswith("never fell.")


def test_the_parts_of_an_update_make_up_its_bar() -> None:
    times = dict(zip(PARTS, (1.0, 2.0, 4.0, 3.0), strict=True))
    rows = [{"part": part, "milliseconds": time, "share": time / 10} for part, time in times.items()]
    picture = show.step_profile(StepProfile(rows, "An update", "a computer", 64, "So it is."))
    [panel] = picture.figure.axes
    assert [bar.get_width() for bars in panel.containers for bar in bars] == [1.0, 2.0, 4.0, 3.0]
    assert [bar.get_x() for bars in panel.containers for bar in bars] == [0.0, 1.0, 3.0, 7.0]
    expected = "An update of 64 samples takes 10 ms: data 10%, forward 20%, backward 40%, step 30%. So it is."
    assert picture.summary == expected and picture.data == rows


def test_the_kinds_of_memory_make_up_its_bar() -> None:
    kinds = ("weights", "buffers", "gradients", "optimizer state", "kept for backward")
    rows = [{"kind": kind, "bytes": (place + 1) * 2**20, "share": (place + 1) / 15} for place, kind in enumerate(kinds)]
    picture = show.memory_estimate(MemoryEstimate(rows, "An update", 64))
    [panel] = picture.figure.axes
    assert [bar.get_width() for bars in panel.containers for bar in bars] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert picture.summary.startswith("An update of 64 samples needs 15 MiB: weights 7%, buffers 13%, ")
    assert picture.data == rows


@pytest.mark.parametrize("losses", [[2.0, 1.0, 0.05], [2.0, math.nan], [0.0]])
def test_the_losses_of_learning_by_heart(losses: list[float]) -> None:
    picture = show.overfit_trial(Overfit(losses, 1.0, 32, losses[-1] < 0.1, "So it is."))
    [panel] = picture.figure.axes
    assert len(picture.data) == len(losses) and picture.data[0] == {"update": 1, "loss": losses[0]} and picture.png()
    assert picture.summary.endswith("So it is.") and len(panel.lines) == (2 if losses[0] else 1)
    if losses[0]:
        assert set(panel.lines[1].get_ydata()) == {0.1} and panel.get_yscale() == "log"


def test_every_part_is_known_without_colour() -> None:
    looks = [*LOOKS.values(), SPARE_LOOK]
    assert len({hatch for _, hatch in looks}) == len(looks) and list(LOOKS) == list(PARTS)
    assert all(luminance(fill) > 0.4 for fill, hatch in looks if hatch)  # hatching is seen on light ground
