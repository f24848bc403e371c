"""Measurements for the topic "Data": many workers, the start of workers, and what else a pipeline waits for."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from labkit.data.profiling import cores
from labkit.exercises.claims import claim
from labkit.exercises.ledger.data_processes import START, Counting, Dying, Waiting, share_one_core, wait_together
from labkit.exercises.ledger.measuring import Observer, error_of, warnings_of

#: A program that starts a worker as Windows and macOS do. Without torch it starts at once.
PROGRAM = """
import multiprocessing

def main():
    worker = multiprocessing.get_context("spawn").Process(target=print, args=("the worker ran",))
    worker.start()
    worker.join()
"""


def output_of(program: str) -> str:
    """Run a program from a file in a Python of its own; return what it and its workers wrote."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(program, encoding="utf-8")
        ended = subprocess.run([sys.executable, "-I", path], capture_output=True, encoding="utf-8", timeout=120)
    return ended.stdout + ended.stderr


@claim(
    "C165",
    true="Yes. A worker that starts anew reads your file from the top. Without the guard it meets the training, wants "
    "to start workers itself, and ends; all that the main program sees is that a worker is gone.",
    false="On Linux with an older Python you never meet it, as workers are forked there. On Windows, on macOS, and on "
    "Linux from Python 3.14 they start anew, and the program below failed without the guard.",
    depends="On how workers start, yes; and the sentence says *may*. As you rarely know where your program will run, "
    "write the guard always.",
)
def workers_that_start_anew_need_the_guard() -> dict[str, bool]:
    """Start a worker anew with and without the guard, and see how a loader reports a worker that ended."""
    unguarded = output_of(PROGRAM + "main()\n")
    guarded = output_of(PROGRAM + 'if __name__ == "__main__":\n    main()\n')
    loader = DataLoader(Dying(), num_workers=1, multiprocessing_context=START)
    return {
        "without the guard the worker ends, and its error names the guard": "the worker ran" not in unguarded
        and "if __name__ == '__main__':" in unguarded,
        "of a worker that ended, a loader says that it exited unexpectedly": "exited unexpectedly"
        in error_of(lambda: list(loader)),
        "with the guard and `main()` the worker runs": "the worker ran" in guarded,
    }


def work() -> int:
    """Compute something that takes about a hundredth of a second."""
    return sum(range(500_000))


class Computing(Dataset):
    """Samples that compute: each is the number of seconds in which a core worked for it."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start


def core_seconds(workers: int) -> float:
    """Return the core's time for a sample, the mean of eight, when this many workers share one core."""
    loader = DataLoader(Computing(8), num_workers=workers, multiprocessing_context=START, worker_init_fn=share_one_core)
    return float(torch.cat(list(loader)).mean())


@claim(
    "C180",
    true="It sounds plausible, and a warning for too many workers does exist. But four of them on one core needed "
    "hardly more of its time for a sample than one alone, and where samples wait nothing suffered at all.",
    false="Nearly: nothing explodes. But a crowd is not free either: each worker is a process with memory of its own, "
    "and for more workers than cores PyTorch warned. Samples that compute get no faster by it.",
    depends="Right. Samples that compute share the cores, so more workers only take turns. Samples that wait need no "
    "core while they wait; there more workers than cores can help.",
)
def a_crowd_takes_turns() -> dict[str, bool]:
    """Let one worker and four of them share a core, with samples that compute and samples that wait."""
    warned = warnings_of(lambda: DataLoader(range(4), num_workers=cores() + 1))
    return {
        "PyTorch warns of more workers than cores": any("max number of worker" in text for text in warned),
        "four workers on one core need many times its time for a sample that computes": core_seconds(4)
        > 5 * core_seconds(1),
        "on one core, four samples that wait can no longer wait at once": not wait_together(4, share_one_core),
    }


@claim(
    "C183",
    true="A queue that drops what comes too late exists, in video for instance. A loader is not made like that: it "
    "waited for its slowest worker, and every sample came.",
    false="Right. Too many workers cost time and memory, never samples. If samples are missing, look at `drop_last`, "
    "at the sampler, or at a `collate_fn` that leaves some out.",
    depends="It depends on nothing: crowded on one core or kept waiting, the loader delivered all, in order.",
)
def a_loader_waits_and_leaves_nothing_out() -> dict[str, bool]:
    """Read 24 samples with five workers on one core, then a data set whose first sample is late."""
    crowded = DataLoader(range(24), num_workers=5, multiprocessing_context=START, worker_init_fn=share_one_core)
    late = DataLoader(Waiting([0.2, 0, 0, 0, 0, 0]), num_workers=2, multiprocessing_context=START)
    return {
        "five workers on one core leave samples out": [int(sample) for sample in crowded] != list(range(24)),
        "a batch that is late is passed over": [int(sample) for sample in late] != list(range(6)),
    }


@claim(
    "C190",
    true="It is one advantage of several. While the program stood still, as it does during a copy that it waits for, "
    "the worker went on and made the next batches.",
    false="Something is lost: `.to()` without it orders a copy that the program waits for, so copying and computing "
    "take turns. Loading, though, goes on beside both.",
    depends="Right. Without it the copy does not run beside the computing, with it (and pinned memory) it can. The "
    "loading ahead is the workers' doing and stays.",
)
def the_workers_go_on_during_a_copy() -> dict[str, bool]:
    """Stand still with the first batch as during a copy, and read the order that `.to()` gives."""
    data = Counting(6)
    batches = iter(DataLoader(data, batch_size=1, num_workers=1, multiprocessing_context=START))
    first = next(batches)
    ahead = data.has_made(3)
    for _ in batches:  # to the end, so that the worker goes home
        pass
    with Observer() as observer:
        first.to("meta")
    waits = not observer.operations[0][1].get("non_blocking", False)
    return {
        "without it the program waits for the copy": waits,
        "while it waits, the workers stop loading ahead": not ahead,
    }


@claim(
    "C196",
    true="For light samples two may do, and for very light ones none. A law it is not: where samples wait, a third "
    "worker waited along with the two, and so a third sample was under way.",
    false="It is no bad first guess: two workers do load two samples at the same time. It is only not the answer for "
    "every laptop and every data set.",
    depends="Right: on its cores, on what else runs, on what a sample costs. Begin with the smaller of 4 and the "
    "number of cores, and measure.",
)
def a_third_worker_may_bring_more() -> dict[str, bool]:
    """See how many samples that wait are under way at once, with two workers and with three."""
    return {
        "two workers have two samples under way at once": wait_together(2),
        "a third one has nothing to add": not wait_together(3),
    }
