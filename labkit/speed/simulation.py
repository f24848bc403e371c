"""A loop with workers, as a computation and not as a measurement: who waits for whom?"""

from labkit.errors import ConfigError
from labkit.speed.timeline import COMPUTING, WAITING, Interval, Timeline

AHEAD = 2  # batches that each worker may make ahead, as in torch's DataLoader


def simulated(load: float, compute: float, workers: int, batches: int = 12) -> Timeline:
    """Return when a loop waits and computes, if each batch takes `load` to make and `compute` to train on.

    load, compute: milliseconds. workers: processes with a core each; 0 if the loop makes its batches itself. A worker
    begins its next batch as soon as fewer than two of its own are waiting to be used. Raises ConfigError for sizes that
    mean nothing.
    """
    if min(load, compute) <= 0 or workers < 0 or batches < 1:
        raise ConfigError("load and compute are above 0, workers at least 0, and there is at least one batch.")
    intervals, now, taken, ready_at = [], 0.0, [], []
    for number in range(batches):
        if workers == 0:
            ready = now + load
        else:
            before = ready_at[number - workers] if number >= workers else 0.0  # this worker's batch before
            room = taken[number - AHEAD * workers] if number >= AHEAD * workers else 0.0  # one of its own was used
            ready = max(before, room) + load
        ready_at.append(ready)
        begin = max(now, ready)
        taken.append(begin)
        intervals.append(Interval(WAITING, now, begin))
        intervals.append(Interval(COMPUTING, begin, begin + compute))
        now = begin + compute
    return Timeline(tuple(intervals))
