"""Chapter 08, first part: which way is faster, on a machine that is not ours alone?"""

import statistics
from collections.abc import Callable
from typing import Any

import torch

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise

_BUSY = (1.0, 2.0, 4.0, 8.0, 16.0)  # how much slower the machine is, from round to round
_SPREAD = (1.0, 1.1, 1.3, 0.9, 0.8)  # and how one way differs from round to round by itself


def run_times_as_fast(answer: Any, base: dict[str, float], rounds: int) -> Any:
    """Let the answer measure on a machine that gets slower from round to round: with each call of every way."""
    families.need_function(answer)
    calls = []

    def seconds_of(way: str) -> float:
        number = len(calls) // len(base)
        calls.append(way)
        spread = 1.0 if way == next(iter(base)) else _SPREAD[number % 5]
        return base[way] * _BUSY[number % 5] * spread

    result = answer(seconds_of, list(base), rounds)
    return {name: float(one) for name, one in result.items()} if isinstance(result, dict) else result


def _ratios(taken: dict[str, list[float]]) -> dict[str, list[float]]:
    first = next(iter(taken.values()))
    return {way: [one / other for one, other in zip(first, own, strict=True)] for way, own in taken.items()}


def _in_turn(result: Callable[[dict], Any]) -> Callable:
    def times_as_fast(seconds_of: Callable, ways: list[str], rounds: int) -> Any:
        taken = {way: [] for way in ways}
        for _ in range(rounds):
            for way in ways:
                taken[way].append(seconds_of(way))
        return result(taken)

    return times_as_fast


def _of_ratios(summary: Callable[[list[float]], float]) -> Callable:
    return _in_turn(lambda taken: {way: summary(own) for way, own in _ratios(taken).items()})


def _one_after_the_other(seconds_of: Callable, ways: list[str], rounds: int) -> dict:
    taken = {way: [seconds_of(way) for _ in range(rounds)] for way in ways}
    return {way: statistics.median(own) for way, own in _ratios(taken).items()}


def _of_medians(taken: dict[str, list[float]]) -> dict[str, float]:
    middle = {way: statistics.median(own) for way, own in taken.items()}
    return {way: next(iter(middle.values())) / own for way, own in middle.items()}


def _bases(generator: torch.Generator, *ways: str) -> tuple:
    return dict(zip(ways, (1 + torch.rand(len(ways), generator=generator)).tolist(), strict=True)), 5


TIMES_AS_FAST = Exercise(
    name="times_as_fast",
    prompt='`seconds_of(way)` measures one call of a way, such as `"fused"`. Measure all `ways` in `rounds` rounds, in '
    "each round every way once, in their order. Return a dict: for each way how many times as fast as the *first* way "
    "it is, the median over the rounds of that ratio *within* a round. The machine gets slower meanwhile.",
    stub='''def times_as_fast(seconds_of, ways, rounds):
    """Return, for each way, the median of how many times as fast as the first way it is in a round."""
    return ...  # your turn''',
    solved='''def times_as_fast(seconds_of, ways, rounds):
    """Return, for each way, the median of how many times as fast as the first way it is in a round."""
    ratios = {way: [] for way in ways}
    for _ in range(rounds):
        taken = {way: seconds_of(way) for way in ways}
        for way in ways:
            ratios[way].append(taken[ways[0]] / taken[way])
    return {way: sorted(values)[rounds // 2] for way, values in ratios.items()}''',
    hints=(
        "A round is a loop over all ways. Within it, divide.",
        "Twice as fast is half the seconds: the seconds of the first way stand above the line.",
        "Keep a list of ratios for each way; the median of each list is the answer.",
    ),
    cases=lambda generator: [_bases(generator, "as it was", "fused"), _bases(generator, "a", "b", "c")],
    run=run_times_as_fast,
    praise="What slows the machine slows both sides of a ratio.",
    misconceptions=(
        Misconception(
            "one way after the other",
            _one_after_the_other,
            "All rounds of one way came first, then all of the next. Meanwhile the machine got slower, and the ways "
            "that came late pay for it. Take turns.",
        ),
        Misconception(
            "a ratio of two medians",
            _in_turn(_of_medians),
            "You took the medians first and divided then: two different moments of the machine may meet in such a "
            "ratio. Divide within each round.",
        ),
        Misconception(
            "upside down",
            _in_turn(lambda taken: {way: 1 / statistics.median(own) for way, own in _ratios(taken).items()}),
            "You divided the seconds of a way by those of the first: that is how much *longer* it takes.",
        ),
        Misconception(
            "the mean of the ratios",
            _of_ratios(statistics.fmean),
            "Asked for was the median: it does not care about the one round in which something got in the way.",
        ),
        Misconception(
            "the best round",
            _of_ratios(max),
            "The round in which a way did best tells what you hoped for, not what you will get.",
        ),
        Misconception(
            "the first round alone",
            _of_ratios(lambda ratios: ratios[1]),
            "A single round is chance: measure all rounds, and take the median.",
        ),
        Misconception(
            "seconds instead of ratios",
            _in_turn(lambda taken: {way: statistics.median(own) for way, own in taken.items()}),
            "These are seconds. Asked for was how many times as fast as the first way.",
        ),
    ),
)
