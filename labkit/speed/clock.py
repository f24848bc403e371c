"""Compare ways to do the same: warm up, wait for the device, take turns, take medians."""

import html
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch

from labkit import devices
from labkit.errors import ConfigError
from labkit.table import Table

FEWEST_ROUNDS = 3  # a median of fewer is none

Ways = Mapping[str, Callable[[], object]]  # a name -> what does the same work in this way


@dataclass(frozen=True, repr=False)
class Comparison(Table):
    """A row for each way: its median, how many times as fast as the first way it is, in how many rounds it was faster.

    seconds: way -> the seconds of one call in every round. first_calls: way -> the seconds of its very first call, in
    which memory is fetched and code is compiled. device: in words. notes: sentences that belong to it.
    """

    seconds: dict[str, tuple[float, ...]] = field(default_factory=dict)
    first_calls: dict[str, float] = field(default_factory=dict)
    device: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return super()._repr_html_() + "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)

    def with_notes(self, notes: tuple[str, ...]) -> "Comparison":
        """Return the same comparison with sentences under it, such as what could not be measured."""
        return replace(self, notes=notes)

    def times_as_fast(self, way: str) -> float:
        """Return how many times as fast as the first way another one is: the median over the rounds."""
        return next(row["times as fast"] for row in self.rows if row["way"] == way)


def compare(
    ways: Ways,
    device: torch.device | str = "cpu",
    rounds: int = 7,
    warm_up: int = 2,
    calls: int = 1,
    most_seconds: float = math.inf,
) -> Comparison:
    """Run every way once in each round, in turn, and return how long they took.

    warm_up: calls that do not count, after the first. calls: how often a way runs between two looks at the clock; more
    than 1 for what is over in microseconds. most_seconds: after so long no further round begins, once there are three.
    Before each look the device is waited for. Each way is compared with the first one *of the same round*: a machine
    that is busy for a while slows both. Raises ConfigError for settings that cannot be.
    """
    device = devices.choose(str(device))
    if not ways or not all(callable(way) for way in ways.values()):
        raise ConfigError("compare needs at least one way: a dict of names and functions without arguments.")
    for name, value, least in (("rounds", rounds, 1), ("warm_up", warm_up, 0), ("calls", calls, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ConfigError(f"{name}={value!r} must be a whole number of at least {least}.")
    first_calls = {name: seconds_of(way, device) for name, way in ways.items()}
    for way in ways.values():
        for _ in range(warm_up):
            way()
    measured: dict[str, list[float]] = {name: [] for name in ways}
    begin = time.perf_counter()
    for number in range(rounds):
        if number >= FEWEST_ROUNDS and time.perf_counter() - begin > most_seconds:
            break
        for name, way in ways.items():
            measured[name].append(seconds_of(way, device, calls))
    return compared({name: tuple(seconds) for name, seconds in measured.items()}, first_calls, devices.describe(device))


def seconds_of(way: Callable[[], object], device: torch.device, calls: int = 1) -> float:
    """Return the seconds of one call, with the device waited for before the clock is read."""
    devices.synchronize(device)  # what was ordered before does not count
    begin = time.perf_counter()
    for _ in range(calls):
        way()
    devices.synchronize(device)  # a GPU has taken the orders and may not have begun
    return (time.perf_counter() - begin) / calls


def compared(seconds: dict[str, tuple[float, ...]], first_calls: dict[str, float], device: str) -> Comparison:
    """Return the comparison of measured seconds, way by way, with the first of them."""
    first, *_ = seconds.values()
    rows = []
    for name, own in seconds.items():
        ratios = [one / other for one, other in zip(first, own, strict=True)]
        faster = "" if own is first else f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)}"
        rows.append(
            {
                "way": name,
                "milliseconds": 1000 * statistics.median(own),
                "times as fast": statistics.median(ratios),
                "faster in": faster,
            }
        )
    return Comparison(rows, f"Median of {len(first)} rounds on {device}", seconds, first_calls, device)
