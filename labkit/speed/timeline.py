"""When a loop waits and when it computes: the intervals, batch by batch."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from labkit import devices
from labkit.errors import DataError

WAITING, COMPUTING = "waiting", "computing"


@dataclass(frozen=True)
class Interval:
    """What a loop did from when to when, in milliseconds since its start: waiting for a batch, or computing."""

    kind: str
    begin: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """The intervals of a loop, in order, each batch with two: it was waited for, then computed with."""

    intervals: tuple[Interval, ...]

    @property
    def waiting_share(self) -> float:
        """The share of the whole time in which the loop waited."""
        waited = sum(one.end - one.begin for one in self.intervals if one.kind == WAITING)
        return waited / max(self.intervals[-1].end - self.intervals[0].begin, 1e-9)


def timeline(
    loader: Iterable,
    step: Callable[[Any, Any], object],
    device: torch.device | str = "cpu",
    batches: int = 8,
    skip: int = 0,
) -> Timeline:
    """Go through the batches of a loader with step(inputs, targets), and note when it waited and when it computed.

    skip: batches before the first that counts; with workers the first one waits until they have started. The loop ends
    after `batches`, or with the loader. Raises DataError if the loader has nothing beyond those skipped.
    """
    device = devices.choose(str(device))
    marks: list[tuple[float, float, float]] = []  # (begun to wait, batch there, step done)
    begun = time.perf_counter()
    iterator = iter(loader)
    for number, (inputs, targets) in enumerate(iterator):
        arrived = time.perf_counter()
        step(inputs, targets)
        devices.synchronize(device)
        done = time.perf_counter()
        if number >= skip:
            marks.append((begun, arrived, done))
        if len(marks) == batches:
            break
        begun = done
    if hasattr(iterator, "close"):
        iterator.close()
    if not marks:
        raise DataError(f"The loader gave no batch to look at, after the first {skip}.")
    start = marks[0][0]
    intervals = []
    for begun, arrived, done in marks:
        intervals.append(Interval(WAITING, 1000 * (begun - start), 1000 * (arrived - start)))
        intervals.append(Interval(COMPUTING, 1000 * (arrived - start), 1000 * (done - start)))
    return Timeline(tuple(intervals))
