"""Chapter 08, first part: how long does it take?"""

import statistics
from collections.abc import Callable
from typing import Any

import torch

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise

_ORDER = 0.001  # seconds until an order is given; the work itself goes on without the program
_SLOW = 9.0  # seconds of each of the first three calls


class _Device:
    """A device that takes orders and works through them by itself, with the clock that the program reads."""

    def __init__(self, seconds: list[float]) -> None:
        self.now, self.free_at = 100.0, 0.0
        self.seconds = iter([_SLOW, _SLOW, _SLOW, *seconds, *seconds])

    def clock(self) -> float:
        return self.now

    def action(self) -> None:
        self.now += _ORDER
        self.free_at = max(self.free_at, self.now) + next(self.seconds, _SLOW)

    def synchronize(self) -> None:
        self.now = max(self.now, self.free_at)


def run_median(answer: Any, seconds: list[float]) -> Any:
    """Let the answer measure on a device whose calls take these seconds, after three slow ones."""
    families.need_function(answer)
    device = _Device(seconds)
    return answer(device.action, device.clock, device.synchronize, len(seconds))


def _median(
    warm_up: int = 3,
    before: bool = True,
    after: bool = True,
    of_all: Callable[[list[float]], float] = statistics.median,
) -> Callable:
    """Return an answer that warms up, waits and sums up in its own way."""

    def median_seconds(action: Callable, clock: Callable, synchronize: Callable, repeats: int) -> float:
        for _ in range(warm_up):
            action()
        taken = []
        for _ in range(repeats):
            if before:
                synchronize()
            begin = clock()
            action()
            if after:
                synchronize()
            taken.append(clock() - begin)
        return of_all(taken)

    return median_seconds


def _one_wait_for_all(action: Callable, clock: Callable, synchronize: Callable, repeats: int) -> float:
    for _ in range(3):
        action()
    synchronize()
    begin = clock()
    for _ in range(repeats):
        action()
    synchronize()
    return (clock() - begin) / repeats


def _rising(generator: torch.Generator) -> tuple:
    """Return five times, the shortest first: then it counts whether the first one is measured rightly."""
    return ((0.1 + torch.rand(5, generator=generator).cumsum(0) ** 2).tolist(),)


MEDIAN_SECONDS = Exercise(
    name="median_seconds",
    prompt="Measure how long `action()` takes on a device that works by itself. `clock()` tells the time in seconds, "
    "`synchronize()` waits until the device has done all that it was told. Call the action three times to warm up, "
    "then `repeats` times with a clock, and return the median.",
    stub='''def median_seconds(action, clock, synchronize, repeats):
    """Return the median of the seconds that action() takes, after three calls to warm up."""
    return ...  # your turn''',
    solved='''def median_seconds(action, clock, synchronize, repeats):
    """Return the median of the seconds that action() takes, after three calls to warm up."""
    for _ in range(3):
        action()
    taken = []
    for _ in range(repeats):
        synchronize()
        begin = clock()
        action()
        synchronize()
        taken.append(clock() - begin)
    return sorted(taken)[repeats // 2]''',
    hints=(
        "The device may still be busy when you read the clock: with what you ordered before, or with what you want to "
        "measure.",
        "So wait twice: before the first look at the clock, and before the second.",
        "The median of an odd number of values is the middle one of the sorted list.",
    ),
    cases=lambda generator: [_rising(generator), _rising(generator)],
    run=run_median,
    praise="`labkit.speed.compare` measures like this.",
    misconceptions=(
        Misconception(
            "the order is timed, not the work",
            _median(after=False),
            "`action()` has given an order and is back at once. What you measured is how long it takes to give an "
            "order: a millisecond, whatever the work. Wait before you read the clock the second time.",
        ),
        Misconception(
            "the device was still busy",
            _median(before=False),
            "When your clock started, the device still worked on the calls before. That time is in your first "
            "measurement. Wait before you read the clock the first time, too.",
        ),
        Misconception(
            "the first calls count",
            _median(warm_up=0),
            "Nothing was warmed up. In the first calls memory is fetched, kernels are loaded, code is compiled: they "
            "say nothing about the thousand calls that follow.",
        ),
        Misconception(
            "the mean",
            _median(of_all=statistics.fmean),
            "One measurement in which another program got in the way moves the mean, and not the median.",
        ),
        Misconception(
            "the shortest",
            _median(of_all=min),
            "The shortest time is what the machine can do at its best. Asked for was the median: what is usual.",
        ),
        Misconception(
            "the sum",
            _median(of_all=sum),
            "That is the time of all calls together.",
        ),
        Misconception(
            "one wait for all calls",
            _one_wait_for_all,
            "Orders are given while the device works, and you divide at the end: that is a mean, and it hides how far "
            "single calls are apart. It is a fair measure of throughput; asked for was the median of single calls.",
        ),
    ),
)
