"""Worker processes for the measurements of the topic "Data": how they start, and data sets that tell what they do.

The data sets are written here, at the top of a module, so that workers can import them also where they start anew.
"""

import multiprocessing
import os
import sys
import threading
import time

from torch.utils.data import DataLoader, Dataset

#: Forked workers are there at once. Windows has none, and on macOS a forked process may crash: there they start anew.
START = "fork" if sys.platform == "linux" else "spawn"

#: For how many seconds a process waits for another that will come. Nothing is measured by it: it ends what hangs.
PATIENCE = 60


class Meeting(Dataset):
    """As many samples as `together`; each is True if that many processes were waiting for their sample at once."""

    def __init__(self, together: int, patience: float = PATIENCE) -> None:
        self.barrier = multiprocessing.get_context(START).Barrier(together)
        self.together, self.patience = together, patience

    def __len__(self) -> int:
        return self.together

    def __getitem__(self, index: int) -> bool:
        try:
            self.barrier.wait(self.patience)
        except threading.BrokenBarrierError:
            return False
        return True


def wait_together(workers: int, init: object = None) -> bool:
    """Tell whether this many workers can all wait for a sample at the same time."""
    loader = DataLoader(
        Meeting(workers), batch_size=1, num_workers=workers, multiprocessing_context=START, worker_init_fn=init
    )
    return all(met.item() for met in loader)


class Processes(Dataset):
    """A sample is the number of the process that makes it."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return os.getpid()


def share_one_core(worker: int) -> None:
    """Confine a worker to one core, where the system lets it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Counting(Dataset):
    """Samples that are counted, in all processes together, as they are asked for."""

    def __init__(self, count: int) -> None:
        self.count, self.made = count, multiprocessing.get_context(START).Semaphore(0)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        self.made.release()
        return index

    def has_made(self, count: int) -> bool:
        """Wait until so many samples were asked for, and tell whether that happened."""
        return all(self.made.acquire(timeout=PATIENCE) for _ in range(count))


class Waiting(Dataset):
    """Samples that wait, as for a disk or a network, each for its number of seconds; then they give their index."""

    def __init__(self, seconds: list[float]) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.seconds)

    def __getitem__(self, index: int) -> int:
        time.sleep(self.seconds[index])
        return index


class Dying(Dataset):
    """One sample, which ends the process that makes it."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        os._exit(1)
