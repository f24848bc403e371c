"""Chapter 05, fourth part: the rate of every update as a pure function."""

import math
from collections.abc import Callable
from typing import Any

import torch

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise


def run_rates(answer: Any, total: int, warm_up: int, highest: float) -> Any:
    """Ask for the rate of every update, and then for each again from the last to the first: a pure function agrees."""
    families.need_function(answer)
    rates = [answer(update, total, warm_up, highest) for update in range(total)]
    if any(rate is ... for rate in rates):
        return ...
    again = [answer(update, total, warm_up, highest) for update in reversed(range(total))]
    try:
        rates = [float(rate) for rate in rates]
        return {"rates": rates, "another call gives the same": rates == [float(rate) for rate in reversed(again)]}
    except TypeError:
        return rates


def _after_rising(rate_of: Callable[[int, int, int], float]) -> Callable[[int, int, int, float], float]:
    """Return an answer that warms up rightly; then rate_of(update, total, warm_up) is the share of the highest rate."""

    def warm_up_cosine(update: int, total: int, warm_up: int, highest: float) -> float:
        if update < warm_up:
            return highest * (update + 1) / warm_up
        return highest * rate_of(update, total, warm_up)

    return warm_up_cosine


def _falls(share: float) -> float:
    return (1 + math.cos(math.pi * share)) / 2


def _share(update: int, total: int, warm_up: int) -> float:
    return (update - warm_up) / (total - warm_up)


def _first_rate_zero(update: int, total: int, warm_up: int, highest: float) -> float:
    return highest * (update / warm_up if update < warm_up else _falls(_share(update, total, warm_up)))


def _no_warm_up(update: int, total: int, warm_up: int, highest: float) -> float:
    return highest * _falls(update / total)


def _always_divided(update: int, total: int, warm_up: int, highest: float) -> float:
    rising = min(1.0, (update + 1) / warm_up)
    return highest * rising * _falls(max(0.0, _share(update, total, warm_up)))


def _case(generator: torch.Generator, total: int, warm_up: int) -> tuple[int, int, float]:
    return total, warm_up, round(0.01 + torch.rand((), generator=generator).item(), 3)


WARM_UP_COSINE = Exercise(
    name="warm_up_cosine",
    prompt="Return the learning rate of one `update` (from 0) out of `total`. In the first `warm_up` updates it rises "
    "in equal steps: the first has `highest / warm_up`, the last of them `highest`. In all that are left it falls from "
    "`highest` towards 0, along half a wave of the cosine that would reach 0 at update `total`. `warm_up` may be 0.",
    stub='''def warm_up_cosine(update, total, warm_up, highest):
    """Return the rate of an update: up in equal steps, then down along half a cosine."""
    return ...  # your turn''',
    solved='''def warm_up_cosine(update, total, warm_up, highest):
    """Return the rate of an update: up in equal steps, then down along half a cosine."""
    if update < warm_up:
        return highest * (update + 1) / warm_up
    share = (update - warm_up) / (total - warm_up)
    return float(highest * (1 + np.cos(np.pi * share)) / 2)''',
    hints=(
        "Two cases: still rising, or falling already. For the second, which share of the way down is behind you?",
        "The share runs from 0 at the end of the warm-up to 1 at `total`. `(1 + cos(π · share)) / 2` runs from 1 to 0; "
        "`np.cos` and `np.pi` are there.",
        "The way down is `total - warm_up` updates long, and starts at update `warm_up`.",
    ),
    cases=lambda generator: [_case(generator, 20, 5), _case(generator, 8, 1), _case(generator, 6, 0)],
    run=run_rates,
    praise="A rate that is a function of the update can be drawn before the training, and survives every resume.",
    misconceptions=(
        Misconception(
            "the first rate is 0",
            _first_rate_zero,
            "`update / warm_up` is 0 in the first update, which then moves nothing. Updates are counted from 0, so the "
            "first step of the way up is `(update + 1) / warm_up`.",
        ),
        Misconception(
            "the cosine does not wait for the warm-up",
            _after_rising(lambda update, total, warm_up: _falls(update / total)),
            "The cosine began at update 0, while the rate was still rising. So there is a jump down where the warm-up "
            "ends, and the highest rate holds for one update. The way down starts at `warm_up`.",
        ),
        Misconception(
            "the way down is taken to be as long as the whole",
            _after_rising(lambda update, total, warm_up: _falls((update - warm_up) / total)),
            "The wave starts rightly, but is stretched over `total` updates, and the training ends before it does: the "
            "last rates, the small ones that let a network settle, never come. It has `total - warm_up` updates.",
        ),
        Misconception(
            "a whole wave",
            _after_rising(lambda update, total, warm_up: _falls(2 * _share(update, total, warm_up))),
            "The cosine of 0 to 2π goes down *and up again*: the training would end at its highest rate. Half a wave "
            "ends at π.",
        ),
        Misconception(
            "a quarter of a wave",
            _after_rising(lambda update, total, warm_up: math.cos(math.pi / 2 * _share(update, total, warm_up))),
            "`cos` from 0 to π/2 also goes from 1 to 0, but arrives at full speed: it stays high for long and has few "
            "small rates. The usual schedule has level ends on both sides: `(1 + cos(π · share)) / 2`.",
        ),
        Misconception(
            "a straight line down",
            _after_rising(lambda update, total, warm_up: 1 - _share(update, total, warm_up)),
            "That is a linear schedule, a good one, too. Asked for is half a wave of the cosine.",
        ),
        Misconception(
            "no warm-up",
            _no_warm_up,
            "The first update already has the highest rate, with gradients of random weights. That is what a warm-up "
            "is there to prevent.",
        ),
        Misconception(
            "a warm-up is taken for granted",
            _always_divided,
            "With `warm_up=0` there is nothing to divide by. Ask first whether the update belongs to the warm-up.",
        ),
    ),
)
