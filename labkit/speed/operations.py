"""Read `torch.profiler`: which operations ran, how often, how long, and which one called which."""

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from labkit import devices
from labkit.errors import ConfigError
from labkit.table import Table

CALL = "Python, between operations"  # the name of the span around one call: what is its own is no operation


@dataclass(frozen=True)
class Span:
    """One operation of the last call: from when to when, in milliseconds, and inside of how many others it ran."""

    name: str
    begin: float
    end: float
    depth: int


@dataclass(frozen=True, repr=False)
class Operations(Table):
    """A row for each kind of operation: calls and its own milliseconds in one call of the action, and its share.

    An operation's *own* time is without that of the operations it called. The last row sums up the others.
    spans: what ran in the last call, in order. counts: operation -> calls in one call. device: in words.
    """

    spans: tuple[Span, ...] = ()
    counts: dict[str, float] | None = None
    device: str = ""

    def calls(self, operation: str) -> float:
        """Return how often an operation runs in one call of the action; 0 for one that never does."""
        return (self.counts or {}).get(operation, 0)


def profile_operations(
    action: Callable[[], object], device: torch.device | str = "cpu", calls: int = 3, most: int = 8
) -> Operations:
    """Run an action under `torch.profiler` and return the operations with the most time of their own.

    The action runs once before, not counted. On a GPU the time is that of the GPU's kernels, else that of the CPU.
    Parts of a program get their names with `torch.profiler.record_function("forward")`. Watching makes small
    operations slower: shares are worth more than milliseconds here. Raises ConfigError for calls below 1.
    """
    device = devices.choose(str(device))
    if calls < 1 or most < 1:
        raise ConfigError(f"calls={calls} and most={most} must be at least 1.")
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it says on a computer without a GPU that there is none
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    action()
    devices.synchronize(device)
    with profile(activities=activities, acc_events=True) as profiler:
        for _ in range(calls):
            with torch.profiler.record_function(CALL):
                action()
                devices.synchronize(device)
    own, count = defaultdict(float), defaultdict(float)
    for event in profiler.key_averages():
        if event.device_type == DeviceType.CPU:  # a kernel of a GPU is counted with the operation that ordered it
            own[event.key] += (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / 1000 / calls
            count[event.key] += event.count / calls
    last = [event for event in profiler.events() if event.name == CALL][-1]
    milliseconds = (last.time_range.end - last.time_range.start) / 1000
    caption = f"One call on {devices.describe(device)}, {milliseconds:.3g} ms while watched"
    return Operations(_rows(own, count, most), caption, _spans(last), dict(count), devices.describe(device))


def _rows(own: dict[str, float], count: dict[str, float], most: int) -> list[dict]:
    """Return a row for each of the operations with the most time, and one for all others together."""
    total = sum(own.values()) or 1.0
    longest = sorted(own, key=own.get, reverse=True)
    rows = [
        {"operation": name, "calls": round(count[name], 1), "milliseconds": own[name], "share": own[name] / total}
        for name in longest[:most]
    ]
    if others := longest[most:]:
        time_left = sum(own[name] for name in others)
        calls = round(sum(count[name] for name in others), 1)
        name = f"{len(others)} others"
        rows.append({"operation": name, "calls": calls, "milliseconds": time_left, "share": time_left / total})
    return rows


def _spans(call) -> tuple[Span, ...]:
    """Return what ran on the CPU inside of one call, with its depth below it."""
    begin, spans = call.time_range.start, []

    def add(event, depth: int) -> None:
        for child in event.cpu_children:
            when = child.time_range
            spans.append(Span(child.name, (when.start - begin) / 1000, (when.end - begin) / 1000, depth))
            add(child, depth + 1)

    add(call, 0)
    return tuple(sorted(spans, key=lambda span: (span.begin, span.depth)))
