"""The loader doctor: how much of a training step is waiting for data, with how many workers, and what to change."""

import html
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from labkit import devices, randomness
from labkit.data.batches import ImageBatches, types_of
from labkit.data.loading import Loader
from labkit.errors import DataError
from labkit.table import Table

ENOUGH = 0.1  # a step that waits for less than this share is fed well; a gain of less than this share is none
FEWEST_STEPS = 3  # measured for each number of workers, however long they take


@dataclass(frozen=True)
class Profile(Table):
    """A row for each number of workers, times in milliseconds a step; `advice` says in sentences what follows."""

    advice: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *self.advice])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return super()._repr_html_() + "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.advice)


def profile(
    source: Loader | DataLoader,
    step: Callable[[Any, Any], Any] | None = None,
    workers: Sequence[int] | None = None,
    seconds: float = 2.0,
) -> Profile:
    """Measure where the time of a step goes, for several numbers of workers, and say what to change.

    source: a labkit Loader or a torch DataLoader. It is not moved: copies of it are measured.
    step: called as step(inputs, targets) for each batch, the computing that a training does; it changes what it trains.
    workers: the numbers to try; else 0, 1, 2, 4, … up to the number of cores, and the one in use.
    seconds: how long to measure each number, after its workers have started.
    Raises DataError for a source of another kind and for settings that cannot be.
    """
    if not isinstance(source, Loader | DataLoader):
        raise DataError(f"profile measures a labkit loader or a torch DataLoader, got {type(source).__name__}.")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
        raise DataError(f"seconds={seconds!r}: say how long to measure each number of workers.")
    if workers is not None and not isinstance(workers, Iterable):
        raise DataError(f"workers={workers!r}: give the numbers to try, such as [0, 2, 4].")
    numbers = _numbers(source.num_workers) if workers is None else [*workers, source.num_workers]
    if step is not None and not callable(step):
        raise DataError(f"step must be a function step(inputs, targets), got {type(step).__name__}.")
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise DataError(f"workers={workers!r}: give whole numbers of 0 or more.")
    rows, impossible = [], []
    for number in sorted(set(numbers)):
        with randomness.frozen_randomness():  # a DataLoader draws a seed for its workers
            try:
                rows.append({"workers": number, **_measure(_with_workers(source, number), step, number, seconds)})
            except DataError as error:
                if number == source.num_workers:
                    raise
                impossible.append(f"num_workers={number} cannot be tried: {error}")
    in_memory = isinstance(source, Loader) and isinstance(source.batches, ImageBatches)
    advice = [*advise(rows, source.num_workers, step is not None, in_memory), *impossible]
    if isinstance(source, DataLoader) and not source.persistent_workers and len(rows) > 1:
        advice.append("This DataLoader starts its workers anew in every epoch; persistent_workers=True keeps them.")
    caption = "Milliseconds a step, by number of worker processes" + ("" if step else " (loading alone, no step given)")
    return Profile(rows, caption, tuple(advice))


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _numbers(in_use: int) -> list[int]:
    powers = {2**power for power in range(9) if 2**power <= cores()}
    return sorted({0, in_use} | powers)


def _with_workers(source: Loader | DataLoader, number: int) -> Loader | DataLoader:
    """Return a copy of a loader that uses another number of workers."""
    if isinstance(source, Loader):
        return source.with_workers(number)
    if isinstance(source.dataset, IterableDataset):
        batching = {"batch_size": source.batch_size, "drop_last": source.drop_last}
    elif source.batch_sampler is None:
        batching = {"batch_size": None, "sampler": source.sampler}
    else:
        batching = {"batch_sampler": source.batch_sampler}
    for_workers = {}
    if number > 0:
        for_workers = {
            "persistent_workers": source.persistent_workers,
            "prefetch_factor": source.prefetch_factor,
            "multiprocessing_context": source.multiprocessing_context,
            "worker_init_fn": source.worker_init_fn,
        }
    settings = {"collate_fn": source.collate_fn, "pin_memory": source.pin_memory, "num_workers": number}
    return DataLoader(source.dataset, **batching, **settings, **for_workers)


def _measure(source: Loader | DataLoader, step: Callable | None, workers: int, seconds: float) -> dict[str, float]:
    """Return the means over as many steps as `seconds` have room for, and what it took to get the first batch."""
    waiting = computing = samples = 0.0
    steps, begun = 0, time.perf_counter()
    ready, unfair = begun, 2 * workers  # batches that workers had made before the first step began
    batches = _endless(source)
    try:
        for number, batch in enumerate(batches):
            arrived = time.perf_counter()
            if number == 0:
                start = arrived - begun
            if not isinstance(batch, tuple | list) or len(batch) != 2 or not hasattr(batch[1], "device"):
                raise DataError(f"profile measures batches (inputs, targets), and this loader gives {types_of(batch)}.")
            inputs, targets = batch
            if step is not None:
                step(inputs, targets)
                devices.synchronize(targets.device)
            done = time.perf_counter()
            if number > unfair:
                waiting, computing = waiting + arrived - ready, computing + done - arrived
                samples, steps = samples + len(targets), steps + 1
                if waiting + computing >= seconds and steps >= FEWEST_STEPS:
                    break
            ready = done
    finally:
        batches.close()
    return {
        "waiting": 1000 * waiting / steps,
        "computing": 1000 * computing / steps,
        "step": 1000 * (waiting + computing) / steps,
        "waiting share": waiting / (waiting + computing),
        "samples a second": samples / (waiting + computing),
        "seconds to start": start,
    }


def _endless(source: Loader | DataLoader) -> Iterator:
    """Give the batches of one epoch after the other."""
    while True:
        empty = True
        for batch in source:
            empty = False
            yield batch
        if empty:
            raise DataError("The loader has no batch: the data set is empty, or smaller than one batch with drop_last.")


def advise(rows: list[dict], in_use: int, with_step: bool, in_memory: bool = False) -> list[str]:
    """Say in sentences what the rows of a profile mean for a loader that has `in_use` workers now."""
    now = next(row for row in rows if row["workers"] == in_use)
    fastest = min(row["step"] for row in rows)
    # Workers cost memory and time to start: of those about as fast the fewest, or the one in use.
    good = [row for row in rows if row["step"] <= fastest * (1 + ENOUGH)]
    best = now if now in good and now["workers"] == 0 else good[0]
    sentences = [_now(now, with_step)]
    if best is now:
        sentences.append(f"No other number that was tried is clearly faster: stay with num_workers={in_use}.")
    elif now in good:
        sentences.append(f"num_workers={best['workers']} is about as fast and needs fewer processes.")
    else:
        sentences.append(_change(now, best))
    if in_memory and best["workers"] == 0 and len(rows) > 1:
        sentences.append(
            "These pictures lie in memory: sending a batch over from another process takes longer than making it."
        )
    if not with_step:
        sentences.append("With profile(loader, step) you see how much of this a training step hides.")
    elif best["waiting share"] < ENOUGH:
        sentences.append("The data then keep up: computing sets the pace, so make the step faster, not the loader.")
    else:
        sentences.append(
            f"Even then {best['waiting share']:.0%} of the time is waiting. Make a sample cheaper (smaller pictures on "
            f"disk, or all of them in memory as an ImageSet), or use more cores; this machine offers {cores()}."
        )
    return sentences


def _now(row: dict, with_step: bool) -> str:
    if not with_step:
        return f"With num_workers={row['workers']}, as now, a batch takes {row['step']:.1f} ms to come."
    return (
        f"With num_workers={row['workers']}, as now, a step takes {row['step']:.1f} ms, and {row['waiting']:.1f} ms of "
        f"them ({row['waiting share']:.0%}) are waiting for data."
    )


def _change(now: dict, best: dict) -> str:
    sentence = f"num_workers={best['workers']} is {now['step'] / best['step']:.1f} times as fast: change to that."
    later = best["seconds to start"] - now["seconds to start"]
    if later > 0.5:
        steps = later * 1000 / (now["step"] - best["step"])
        sentence += f" Starting takes {later:.1f} s longer, which pays after about {steps:,.0f} steps."
    return sentence
