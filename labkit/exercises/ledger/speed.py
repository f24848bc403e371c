"""Measurements for the topic "Speed": where the time of a step goes, and how to find out."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode

from labkit.exercises.claims import claim
from labkit.exercises.ledger.data_processes import PATIENCE, START, Waiting
from labkit.exercises.ledger.measuring import seconds_of


@claim(
    "C289",
    true="Loading is a good first suspect. The comparison does not convict it: with samples that cost nothing, the "
    "loop without workers was the faster one, and loading was no brake at all. It showed what workers cost.",
    false="Suspecting the loading is right, it is the cause often enough: a loop over samples that wait was idle for "
    "most of its time, and nothing but the loading was in it.",
    depends="Right: a good suspect, a weak test. Run the loop without the model, or write down for each step how long "
    "it waited and how long it computed.",
)
def a_good_suspect_and_a_weak_test() -> dict[str, bool]:
    """Run a loop without a model over samples that wait; then compare workers for samples that cost nothing."""
    passed, worked = seconds_of(lambda: list(DataLoader(Waiting([0.05] * 4))))

    def seconds(workers: int) -> float:
        loader = DataLoader(range(8), num_workers=workers, multiprocessing_context=START if workers else None)
        return seconds_of(lambda: list(loader))[0]

    return {
        "slow loading makes a loop wait: without any model it is idle for most of the time": worked < passed / 2,
        "where loading costs nothing, the loop without workers is no faster": seconds(0) >= seconds(1),
    }


def timed(action: Callable[[], object]) -> tuple[float, object]:
    """Return the seconds until `action` returned, and what it returned: all that such a decorator can see."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


@claim(
    "C290",
    true="On the CPU it does. A GPU gets orders and works through them by itself: the call is back before the work is "
    "done, and the clock has timed the order. Synchronize first, or use events or the profiler.",
    false="For a program on the CPU it is all you need: when the call came back, the work was done.",
    depends="Right: it depends on whether a call waits for its work. On the CPU it does; on a GPU it does not, as "
    "below, where a second worker takes the orders as a GPU would.",
)
def a_clock_times_the_call() -> dict[str, bool]:
    """Time products on the CPU, and an order to somebody who works by himself and is held up until we have looked."""
    small, large = torch.ones(64, 64), torch.ones(512, 512)
    products = [min(timed(lambda m=matrix: m @ m)[0] for _ in range(5)) for matrix in (small, large)]
    looked = threading.Event()

    def work() -> bool:
        return looked.wait(PATIENCE)

    with ThreadPoolExecutor(1) as device:
        _, order = timed(lambda: device.submit(work))
        done_already = isinstance(order, Future) and order.done()
        looked.set()
        order.result()  # this is the synchronizing
        done_after_waiting = order.done()
    return {
        "on the CPU the clock sees the work: 512 times the work takes longer": products[1] > 5 * products[0],
        "where orders are carried out by somebody else, the work is done when the clock stops": done_already,
        "waiting for the result makes sure that it is": done_after_waiting,
    }


def work_of(batch: int, width: int) -> int:
    """Count the multiplications and additions of a forward and a backward pass, and keep the clock out of it."""
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    with FlopCounterMode(display=False) as counter:
        model(torch.ones(batch, width)).sum().backward()
    return counter.get_total_flops()


@claim(
    "C291",
    true="Yes. Twice the batch is twice the work, and twice the width four times. No trick makes a step faster than "
    "its arithmetic; so try a smaller batch and see what changes.",
    false="One looks for something broken. There need not be anything: the count of operations grew as batch and width "
    "did.",
    depends="On a large GPU a small model may leave most of the device idle, and twice the batch then costs hardly "
    "more. When the device is full, and on a CPU, the work decides.",
)
def the_work_grows() -> dict[str, bool]:
    """Count the operations of a step for two batches and two widths."""
    return {
        "twice the batch is twice the work": work_of(64, 32) == 2 * work_of(32, 32),
        "twice the width is four times the work": work_of(32, 64) == 4 * work_of(32, 32),
    }


@claim(
    "C292",
    true="Yes. A quarter of the batch and twice the width came to the same work as before: together they looked like "
    "no change at all. One by one each showed what it does. Repeat, and take the median.",
    false="Changing several things at once saves runs. But effects can cancel, as these two did, and you would have "
    "thrown both away as useless.",
    depends="If you only want the whole to be faster, change what you like. To *find* what is slow, one thing at a "
    "time; and the sentence speaks of the search.",
)
def two_changes_can_cancel() -> dict[str, bool]:
    """Count the operations of a step, with batch and width changed together and one by one."""
    before, batch, width, both = work_of(64, 32), work_of(16, 32), work_of(64, 64), work_of(16, 64)
    return {
        "changed together, the two seem to do nothing": both == before,
        "alone, the smaller batch is a quarter of the work": batch * 4 == before,
        "alone, the larger width is four times the work": width == 4 * before,
    }
