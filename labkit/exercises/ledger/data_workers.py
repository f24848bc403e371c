"""Measurements for the topic "Data": what worker processes do, and what they do not."""

import os
import time

from torch.utils.data import DataLoader

from labkit.exercises.claims import claim
from labkit.exercises.ledger.data_processes import (
    START,
    Counting,
    Meeting,
    Processes,
    Waiting,
    share_one_core,
    wait_together,
)
from labkit.exercises.ledger.measuring import seconds_of


@claim(
    "C155",
    true="Half of it. For light work none is needed, as you say. But samples that wait for a disk or a network cost no "
    "processor time while they wait: four workers waited for four of them at once, on one core.",
    false="Each worker is a process, with its own memory and its own start, and for light samples that is wasted. Only "
    "the limit of two is wrong: for samples that wait, more workers wait for more of them at once.",
    depends="Right: it depends on what a sample costs. Trivial: 0. Waiting: many. Computing: up to the free cores. "
    "Try 0, 2 and 4 with your own data.",
)
def workers_are_processes() -> dict[str, bool]:
    """Ask two workers for their process, compare none with two for light work, and let four of them wait on a core."""

    def made_by(workers: int) -> set[int]:
        loader = DataLoader(Processes(6), num_workers=workers, multiprocessing_context=START if workers else None)
        return {int(process) for process in loader}

    return {
        "`num_workers=2` loads in two processes, and neither is this one": len(made_by(2) - {os.getpid()}) == 2,
        "light work can do without: with 0 this process loads": made_by(0) == {os.getpid()},
        "with four workers on one core, samples that wait still have to wait one after the other": not wait_together(
            4, share_one_core
        ),
    }


@claim(
    "C162",
    true="The first half is right: the workers were several batches ahead. But what they hand over is ordinary memory "
    "of the CPU; the way to the GPU was still to come.",
    false="They do prefetch: while the first batch was still in use, the next ones were made. The transfer is what "
    "they have nothing to do with.",
    depends="Right: two different waits. Workers hide the loading; `pin_memory=True` and `non_blocking=True` hide the "
    "transfer. Find out first which one you are waiting for.",
)
def workers_load_ahead_and_do_not_transfer() -> dict[str, bool]:
    """Hold the first batch until a worker has made two more, and look where it lies."""
    data = Counting(6)
    batches = iter(DataLoader(data, batch_size=1, num_workers=1, multiprocessing_context=START))
    first = next(batches)
    ahead = data.has_made(3)
    rest = list(batches)
    return {
        "workers make the next batches while the first is in use": ahead and len(rest) == 5,
        "the batch that they hand over is already on a GPU": first.device.type != "cpu",
        "it lies in pinned memory, ready for the transfer": first.is_pinned(),
    }


@claim(
    "C164",
    true="Yes. CPU and GPU both idle means that something is waited for. Alone, a process waits for one sample after "
    "the other; workers wait for several at once, and that costs one argument to try.",
    false="Perhaps you would first look at the model. It cannot be the brake when the GPU has nothing to do and no "
    "core is busy: below, the loop waited for data, and workers waited side by side.",
    depends="If the cores were busy, workers would have to share them. The sentence says that they are idle, and then "
    "the samples wait, and waiting can be done side by side.",
)
def waiting_can_be_done_side_by_side() -> dict[str, bool]:
    """Read samples that wait; then see whether one process and two workers can wait for two samples at once."""
    passed, worked = seconds_of(lambda: list(DataLoader(Waiting([0.05] * 4))))
    alone = DataLoader(Meeting(2, patience=0.05), batch_size=1)
    return {
        "a loop whose samples wait leaves the CPU idle for most of the time": worked < passed / 2,
        "without workers it waits for one sample after the other": not any(met.item() for met in alone),
        "two workers wait for two samples at the same time": wait_together(2),
    }


@claim(
    "C178",
    true="Yes. Loading ran beside computing, and still the whole took as long as the loading. The faster half waits "
    "for the slower one; make the slower one faster.",
    false="You may hope that a fast device makes up for it. It cannot compute what is not there yet: it waited, and "
    "the slower half set the pace.",
    depends="It would depend if loading and computing took turns: then their times add up, and it is worse still. "
    "Where they overlap, as below, the slower one alone decides.",
)
def the_slower_half_sets_the_pace() -> dict[str, bool]:
    """Compute for a fifth of the time that a worker needs for a picture, and watch the clock."""
    loading, computing, count = 0.05, 0.01, 8
    loader = DataLoader(Waiting([loading] * count), batch_size=1, num_workers=1, multiprocessing_context=START)
    start = time.perf_counter()
    waited, before = 0.0, start
    for _ in loader:
        waited += time.perf_counter() - before
        time.sleep(computing)
        before = time.perf_counter()
    passed = time.perf_counter() - start
    return {
        "though they overlap, it takes at least five times as long as computing": passed >= 5 * count * computing,
        "the device that computes waits for most of the time": waited > passed / 2,
    }
