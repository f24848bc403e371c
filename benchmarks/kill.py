"""A run that is killed again and again must end as the uncut one, bit for bit.

    python -m benchmarks.kill [--times N] [--json]

A child process trains with dropout, batch normalisation, augmentation, accumulation, an average of the weights and two
workers, and writes a checkpoint after every update. It is killed, workers and all, in a way that no program can catch:
two times in three about when it writes, else at any moment. Another child goes on, until one finishes. Then the
next run begins, until there were enough kills. A run may be killed as soon as it has its first checkpoint.
"""

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.measuring import report
from labkit import data
from labkit.errors import CheckpointError
from labkit.runs import checkpoint
from labkit.table import Table
from labkit.training import Config, fit, resume

CONFIG = Config(
    epochs=12,
    batch_size=16,
    accumulate=3,
    average=0.9,
    clip_norm=1.0,
    learning_rate=0.01,
    save_every=1,
    log_every=5,
    keep_best=2,
    device="cpu",
)
TRAINED, TESTED = 160, 80  # pictures; 10 batches an epoch make 4 updates, the last of them from a single batch
ANYWHERE, WRITING = 0.3, 0.01  # the longest waits for a kill, in seconds
MOST_CHECKPOINTS = 8  # from one kill to the next
NOT_COMPARED = {"seconds", "run_dir", "name"}  # what a clock says, and where the run lies
# On Linux a server that has loaded torch already makes the children; elsewhere each of them starts anew.
CHILDREN, WORKERS = ("forkserver", "fork") if sys.platform == "linux" else ("spawn", "spawn")
LOADED = ["labkit.data", "labkit.training", "tensorboard.summary.writer.record_writer"]  # by that server

Place = tuple[str | int, ...]


def network() -> nn.Module:
    """Return a small network; its wide layer makes the writing of a checkpoint take its time."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(512, 256),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(256, 10),
    )


def train(folder: Path) -> None:
    """Begin the run in `folder`, or go on with it: all that a child does."""
    if os.name == "posix":
        os.setsid()  # a group of processes of its own, which can be killed as one
    torch.set_num_threads(1)
    pictures = data.shapes(TRAINED + TESTED)
    training, testing = pictures.select(torch.arange(TRAINED)), pictures.select(torch.arange(TRAINED, len(pictures)))
    batches = data.loader(
        training,
        CONFIG.batch_size,
        shuffle=True,
        flip=True,
        shift=2,
        cutout=4,
        num_workers=2,
        start_method=WORKERS,
    )
    loaders = batches, data.loader(testing, TESTED, statistics=batches.statistics)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        if saved_updates(folder) is None:
            torch.manual_seed(0)
            fit(network(), *loaders, CONFIG.replace(run_dir=str(folder.parent), name=folder.name))
        else:
            torch.manual_seed(time.time_ns())  # whatever a program did before: the checkpoint brings its own numbers
            resume(network(), *loaders, folder)


def saved_updates(folder: Path) -> int | None:
    """Return how many updates are in the newest checkpoint that is whole; None when there is none."""
    last = folder / "last.pt"
    for file in (last, checkpoint.previous(last)):
        with contextlib.suppress(CheckpointError):
            return checkpoint.read(file)["position"]["updates"]
    return None


@contextlib.contextmanager
def child(folder: Path) -> Iterator[BaseProcess]:
    """Start a child that trains, and leave none behind, whatever happens: not even for Ctrl-C."""
    process = multiprocessing.get_context(CHILDREN).Process(target=train, args=(folder,))
    try:
        process.start()
        yield process
    finally:
        if process.pid is not None:
            kill(process)


def kill(process: BaseProcess) -> None:
    """Kill a child with its workers, and wait for its end. Does nothing to one that has ended."""
    if os.name == "posix" and process.is_alive():
        with contextlib.suppress(ProcessLookupError):  # it has no group yet, and no workers
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def await_new(process: BaseProcess, file: Path) -> None:
    """Wait until a child has written to a file, or has ended."""
    before = written(file)  # perhaps by a child that was killed
    while process.is_alive() and written(file) in (0, before):
        time.sleep(0.0005)


def written(file: Path) -> int:
    """Return when a file was last written to, in nanoseconds; 0 when it is not there."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def await_moment(process: BaseProcess, folder: Path, checkpoints: int) -> None:
    """Wait for some checkpoints, then for any moment after them, or for one at which the next is written."""
    for _ in range(checkpoints):
        await_new(process, folder / "last.pt")
    if random.random() < 2 / 3:
        await_new(process, folder / "last.pt.tmp")
        process.join(random.uniform(0, WRITING))
    else:
        process.join(random.uniform(0, ANYWHERE))


def run_with_kills(folder: Path, most: int) -> Iterator[str]:
    """Train a run to its end with at most so many kills; yield what each of them left in the folder.

    Raises CheckpointError when a kill has cost a checkpoint that was there before.
    """
    kills, updates = 0, 0
    while True:
        with child(folder) as process:
            if kills < most:
                await_moment(process, folder, random.randint(0 if kills else 1, MOST_CHECKPOINTS))
            else:
                process.join()
            kill(process)
        if process.exitcode == 0:
            return
        if process.exitcode > 0:
            raise SystemExit("A child ended with the error above, and not by a kill.")
        kills += 1
        yield remains(folder)
        before, updates = updates, saved_updates(folder)
        if updates is None or updates < before:
            raise CheckpointError(f"after kill {kills} the newest checkpoint holds {updates} updates, not {before}")


def remains(folder: Path) -> str:
    """Tell from the files that a kill left what the child was doing."""
    if not (folder / "last.pt").exists():
        return "between the two renames"
    return "while a file was written" if list(folder.glob("*.tmp")) else "at another moment"


def contents(value: object, place: Place = ()) -> dict[Place, object]:
    """Return nested plain data flat, the place of each value with the value; of a tensor dtype, shape and bytes."""
    if isinstance(value, dict | list | tuple):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        inside = [contents(entry, (*place, key)) for key, entry in pairs if key not in NOT_COMPARED]
        return {where: leaf for part in inside for where, leaf in part.items()}
    if isinstance(value, Tensor):
        value = (value.dtype, tuple(value.shape), value.numpy().tobytes())
    return {place: value}


def outcome(folder: Path) -> dict[Place, object]:
    """Return all that must be equal in the end, flat: checkpoints, history, result, and files that are left behind."""
    kept = [file for file in folder.glob("*.pt") if not file.stem.endswith(".previous")]
    parts = {file.name: checkpoint.read(file) for file in sorted(kept)}
    lines = (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    parts["history.jsonl"] = [json.loads(line) for line in lines]
    parts["result.json"] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    parts["left behind"] = sorted(file.name for file in folder.glob("*.tmp"))
    return contents(parts)


def first_difference(ours: dict[Place, object], expected: dict[Place, object]) -> str:
    """Return the first place at which two outcomes differ; "" when there is none."""
    for place in {**expected, **ours}:
        if place not in ours or place not in expected or ours[place] != expected[place]:
            return " / ".join(map(str, place))
    return ""


def measure(times: int, base: Path) -> tuple[Counter, int, list[str]]:
    """Kill so many times. Return the kills by moment, those in runs that ended as the uncut one, and what was wrong."""
    moments, identical, wrong = Counter(), 0, []
    list(run_with_kills(base / "uncut", most=0))
    expected = outcome(base / "uncut")
    for run in itertools.count(1):
        before, folder = moments.total(), base / f"run-{run}"
        try:
            for moment in run_with_kills(folder, most=times - before):
                moments[moment] += 1
                print(f"\r{moments.total()} of {times} kills, run {run} ", end="", file=sys.stderr, flush=True)
            problem = first_difference(outcome(folder), expected)
        except CheckpointError as error:
            problem = str(error)
        if problem:
            wrong.append(f"Run {run}: {problem}.")
        else:
            identical += moments.total() - before
        shutil.rmtree(folder)
        if moments.total() == times:
            print(file=sys.stderr)
            return moments, identical, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=200, metavar="N", help="how many kills (default: 200)")
    parser.add_argument("--json", action="store_true", help="print one JSON line last")
    arguments = parser.parse_args()
    if arguments.times < 1:
        parser.error("--times must be at least 1.")
    if CHILDREN == "forkserver":
        multiprocessing.set_forkserver_preload(LOADED)
    with tempfile.TemporaryDirectory(prefix="labkit-kill-", ignore_cleanup_errors=True) as base:
        try:
            moments, identical, wrong = measure(arguments.times, Path(base))
        except KeyboardInterrupt:
            raise SystemExit("\nStopped, as asked. The child was killed, and its runs are removed.") from None
    rows = [{"killed": moment, "kills": count} for moment, count in moments.most_common()]
    figures = {"kills": moments.total(), "identical": identical}
    caption = "Killed and resumed: {identical} of {kills} kills in runs that ended bit for bit as the uncut one."
    report(Table(rows, " ".join([caption.format(**figures), *wrong])), figures, arguments.json)


if __name__ == "__main__":
    main()
