"""A program that streams a folder of pictures for one epoch and prints what it cost, as JSON.

`python many_pictures.py FOLDER WORKERS START_METHOD` prints the seconds until the data set is there, the memory of all
its processes (bytes) near the begin of the epoch and at most after that, and what was read. It is a file of its own
because memory is measured in a process that does nothing else.
"""

import json
import sys
import time

import psutil

from labkit.data.loading import loader
from labkit.data.streaming import stream

BATCH_SIZE = 250


def memory() -> int:
    """Return the bytes that this process and its workers take together.

    Of a worker only what it shares with nobody counts: the rest is here already.
    """
    here = psutil.Process()
    return here.memory_info().rss + sum(worker.memory_full_info().uss for worker in here.children(recursive=True))


def main(path: str, num_workers: int, start_method: str | None) -> dict:
    """Stream one epoch, in another order than that of the files, and measure."""
    started = time.perf_counter()
    data = stream(path, size=16)["all"]
    ready = time.perf_counter() - started
    batches = loader(data, BATCH_SIZE, shuffle=True, num_workers=num_workers, start_method=start_method)
    read, measured = 0, []
    for number, (_, targets) in enumerate(batches):
        read += len(targets)
        if number >= len(batches) // 20 and number % 40 == 0:
            measured.append(memory())
    return {
        "pictures": len(data),
        "read": read,
        "missing": len(batches.missing),
        "seconds_until_ready": ready,
        "seconds": time.perf_counter() - started,
        "first": measured[0],
        "largest": max(measured),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)))
