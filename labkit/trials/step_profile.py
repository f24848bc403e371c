"""Where the time of one update goes: waiting for data, forward, backward, the optimizer's step."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn as nn
from torch.optim import Optimizer

from labkit import devices
from labkit.measuring import Batch, LossFunction, cross_entropy
from labkit.measuring.metrics import device_of
from labkit.measuring.misfit import explained
from labkit.table import Table
from labkit.trials.steps import OptimizerMaker, check, endless, loss_of, optimizer_for, whole_number
from labkit.trials.untouched import untouched

PARTS = ("data", "forward", "backward", "step")
WARM_UP = 3  # updates that are not counted: in the first ones memory is fetched and fast ways are looked for
HIDES = {  # what helps where most of the time goes
    "data": "The computing waits for data: labkit.data.profile says how many workers help, or what else would.",
    "forward": "The forward pass takes most: a lower precision, torch.compile or a smaller model make it shorter.",
    "backward": "The backward pass takes most, as usual: it costs about two forward passes. Frozen layers shorten it.",
    "step": "The optimizer takes most: use fused=True, or larger batches, which need fewer steps.",
}


@dataclass(frozen=True, repr=False)
class StepProfile(Table):
    """A row for each part of an update: its median in milliseconds, and its share of the sum of the medians.

    device: in words. batch_size: of the largest batch. advice: one sentence.
    """

    device: str = ""
    batch_size: int = 0
    advice: str = ""

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.advice}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{super()._repr_html_()}<p>{self.advice}</p>"


def profile_step(
    model: nn.Module,
    source,
    loss_fn: LossFunction = cross_entropy,
    optimizer: Optimizer | OptimizerMaker = torch.optim.AdamW,
    updates: int = 20,
) -> StepProfile:
    """Make some updates with a copy of the model and return how long their parts take.

    source: a labkit Loader, a torch DataLoader, or one batch (inputs, targets); getting a batch includes sending it to
    the device. After each part the device is waited for, so that no part pays for another; a training does not wait,
    and is a little faster. For mixed precision, call this inside torch.autocast. Model, optimizer, loader and random
    numbers are left as they were. Raises ConfigError or DataError for what does not fit together.
    """
    check(model, source)
    whole_number("updates", updates)
    optimizer = optimizer_for(model, optimizer)
    workers = getattr(source, "num_workers", 0)
    # Workers make batches ahead while the first updates are slow; those come for nothing, and are not counted.
    warm_up = max(WARM_UP, workers * (getattr(source, "prefetch_factor", None) or 2) + 1)
    with untouched(model, optimizer, loss_fn, source) as (model, optimizer, loss_fn, source):
        model.train()
        device, made = device_of(model), []
        batches = endless(source, device)
        try:
            for _ in range(warm_up + updates):
                made.append(_one_update(model, batches, loss_fn, optimizer, device))
        finally:
            batches.close()  # ends the workers of the copied loader
    medians = [statistics.median(column) for column in zip(*[seconds for seconds, _ in made[warm_up:]], strict=True)]
    size = max(samples for _, samples in made)
    rows = [
        {"part": part, "milliseconds": 1000 * median, "share": median / sum(medians)}
        for part, median in zip(PARTS, medians, strict=True)
    ]
    most = max(rows, key=lambda row: row["share"])["part"]
    caption = f"One update of {type(model).__name__} with a batch of {size} on {devices.describe(device)}"
    return StepProfile(rows, caption, devices.describe(device), size, HIDES[most])


def _one_update(
    model: nn.Module, batches: Iterator[Batch], loss_fn: LossFunction, optimizer: Optimizer, device: torch.device
) -> tuple[list[float], int]:
    """Make one update; return the seconds of its parts and the number of its samples."""
    times = [time.perf_counter()]

    def done() -> None:
        devices.synchronize(device)
        times.append(time.perf_counter())

    batch = next(batches)
    done()
    loss = loss_of(model, batch, loss_fn)[1]
    done()
    with explained(model, [batch], loss_fn):
        loss.backward()
        done()
        optimizer.step()
        optimizer.zero_grad()
        done()
    return [end - start for start, end in pairwise(times)], len(batch[1])
