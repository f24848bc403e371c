"""Chapter 07, tenth part: what does an update wait for?"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise


def run_waiting(answer: Any, batches: list[tuple[float, float]]) -> Any:
    """Give the answer a loader, a step and a clock that agree: each batch takes so long to come, and to be computed."""
    families.need_function(answer)
    now = [100.0]

    def load() -> Iterator[float]:
        for waiting, computing in batches:
            now[0] += waiting
            yield computing

    def step(computing: float) -> None:
        now[0] += computing

    result = answer(load(), step, lambda: now[0])
    return [float(one) for one in result] if isinstance(result, tuple | list) else result


def _timed(result: Callable[[list[float], list[float]], Any], starts_anew: bool = True) -> Callable:
    """Return an answer that notes both times of each batch, and makes its result of them."""

    def waiting_and_computing(loader: Iterable, step: Callable, clock: Callable[[], float]) -> Any:
        waiting, computing = [], []
        begun = clock()
        for batch in loader:
            arrived = clock()
            step(batch)
            done = clock()
            waiting.append(arrived - begun)
            computing.append(done - arrived)
            if starts_anew:
                begun = done
        return result(waiting, computing)

    return waiting_and_computing


def _cases(generator: torch.Generator) -> list[tuple]:
    times = [torch.rand(count, 2, generator=generator) for count in (4, 7)]
    times[0][0, 0] = 5  # workers that have to start
    return [([tuple(row) for row in one.tolist()],) for one in times]


WAITING_AND_COMPUTING = Exercise(
    name="waiting_and_computing",
    prompt="Go through `loader` once, calling `step(batch)` for each batch as soon as it is there. Return two numbers: "
    "the seconds in which the loop waited for batches, the first included, and the seconds that the steps took, each "
    "summed over all batches. `clock()` tells the time in seconds.",
    stub='''def waiting_and_computing(loader, step, clock):
    """Return the seconds spent waiting for batches, and those spent computing."""
    return ...  # your turn''',
    solved='''def waiting_and_computing(loader, step, clock):
    """Return the seconds spent waiting for batches, and those spent computing."""
    waiting = computing = 0.0
    begun = clock()
    for batch in loader:
        arrived = clock()
        step(batch)
        done = clock()
        waiting, computing = waiting + arrived - begun, computing + done - arrived
        begun = done
    return waiting, computing''',
    hints=(
        "Three moments a batch: when the loop began to wait, when the batch was there, when the step was done.",
        "The wait for the next batch begins when a step is done.",
        "Read the clock before the loop, as its first line, and after `step(batch)`; at the end of the body, what was "
        "*done* becomes what has *begun*.",
    ),
    cases=_cases,
    run=run_waiting,
    praise="Whichever is larger is what to work on. On a GPU, wait for the device before each look at the clock.",
    misconceptions=(
        Misconception(
            "one start for all",
            _timed(lambda waiting, computing: (sum(waiting), sum(computing)), starts_anew=False),
            "The moment at which the waiting begins was read once. From the second batch on, what you call waiting "
            "contains all that came before.",
        ),
        Misconception(
            "the first batch is not counted",
            _timed(lambda waiting, computing: (sum(waiting[1:]), sum(computing))),
            "The wait for the first batch is missing: read the clock before the loop, too. With workers it is the "
            "longest, since they have to start.",
        ),
        Misconception(
            "the other way round",
            _timed(lambda waiting, computing: (sum(computing), sum(waiting))),
            "First waiting, then computing.",
        ),
        Misconception(
            "a mean instead of a sum",
            _timed(lambda waiting, computing: (sum(waiting) / len(waiting), sum(computing) / len(computing))),
            "These are the times of one batch on average. Asked for was the sum over all.",
        ),
        Misconception(
            "the last batch alone",
            _timed(lambda waiting, computing: (waiting[-1], computing[-1])),
            "Each batch overwrites what the one before it took. Add.",
        ),
        Misconception(
            "the whole time",
            _timed(lambda waiting, computing: (sum(waiting), sum(waiting) + sum(computing))),
            "The second number is the time of the whole loop. Without the waiting it is what the steps took.",
        ),
    ),
)
