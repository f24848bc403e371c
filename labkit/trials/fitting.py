"""The largest batch that fits into the memory: tried for real on an NVIDIA GPU, computed elsewhere."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass

import psutil  # comes along with ipykernel
import torch
import torch.nn as nn
from torch.optim import Optimizer

from labkit.measuring import LossFunction, cross_entropy
from labkit.measuring.metrics import device_of
from labkit.measuring.misfit import is_out_of_memory
from labkit.trials.memory import Example, batch_of, check_example, estimate_memory, update_with
from labkit.trials.steps import OptimizerMaker, optimizer_for, positive_number
from labkit.trials.untouched import untouched

MOST = 65_536  # samples; who needs a larger batch does not ask what fits
RESERVE = 0.2  # of the memory that is free, for what an update makes and throws away on its way


@dataclass(frozen=True)
class LargestBatch:
    """The largest batch that fits: its size (0 if not even one sample does), and one sentence about how it was found.

    tries: (size, whether it fitted) in the order of trying; empty where the size was computed.
    """

    batch_size: int
    tries: list[tuple[int, bool]]
    explanation: str

    def __repr__(self) -> str:
        return f"largest batch: {self.batch_size:,}. {self.explanation}"


def largest_batch(
    model: nn.Module,
    example: Example,
    limit_bytes: int | None = None,
    optimizer: Optimizer | OptimizerMaker = torch.optim.AdamW,
    loss_fn: LossFunction = cross_entropy,
) -> LargestBatch:
    """Return the largest batch, up to 65,536 samples, with which an update fits into the memory of the model's device.

    example: as for `estimate_memory`. limit_bytes: for the whole training; without it the memory that is free. On an
    NVIDIA GPU sizes are tried, first doubled, then halved in between, and the memory is given back after each. On a
    CPU too large a batch would not fail but slow everything down, so the size is computed from `estimate_memory`.
    Model, optimizer and random numbers are left as they were.
    """
    check_example(model, example)
    if limit_bytes is not None:
        positive_number("limit_bytes", limit_bytes)
    if device_of(model).type == "cuda":
        return tried(model, example, limit_bytes, optimizer, loss_fn)
    return _computed(model, example, limit_bytes, optimizer, loss_fn)


def _computed(model: nn.Module, example: Example, limit_bytes: int | None, optimizer, loss_fn) -> LargestBatch:
    estimate = estimate_memory(model, example, 2, optimizer, loss_fn)
    limit, reserve = limit_bytes, ""
    if limit is None:
        there = sum(row["bytes"] for row in estimate.rows if row["kind"] in ("weights", "buffers"))
        limit = there + round((1 - RESERVE) * _free(device_of(model)))
        reserve = f", {RESERVE:.0%} of what is free left for what comes and goes"
    size = min(MOST, int(max(0, limit - estimate.fixed) / max(estimate.per_sample, 1)))
    return LargestBatch(
        size,
        [],
        f"Computed: {estimate.fixed:,} bytes whatever the batch and {estimate.per_sample:,.0f} for each sample, in "
        f"{limit:,} bytes{reserve}.{' No larger one was looked for.' if size == MOST else ''}",
    )


def _free(device: torch.device) -> int:
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory()
    return psutil.virtual_memory().available


def tried(model: nn.Module, example: Example, limit_bytes: int | None, optimizer, loss_fn) -> LargestBatch:
    """Find the largest batch by making an update with each size, in the model itself, since a copy would take room."""
    optimizer, device, tries = optimizer_for(model, optimizer), device_of(model), []
    with untouched(model, optimizer, loss_fn, on_copies=False):
        model.train()

        def fits(size: int) -> bool:
            tries.append((size, _fits(model, example, size, limit_bytes, optimizer, loss_fn)))
            return tries[-1][1]

        size = largest_that(fits, MOST)
    _release(device)
    limit = "without running out of memory" if limit_bytes is None else f"within {limit_bytes:,} bytes"
    too_large = min((size for size, fitted in tries if not fitted), default=None)
    end = f"{too_large:,} were too many" if too_large else "no larger one was tried"
    return LargestBatch(size, tries, f"Tried on {device}: an update with {size:,} samples went {limit}, {end}.")


def _fits(model: nn.Module, example: Example, size: int, limit_bytes: int | None, optimizer, loss_fn) -> bool:
    """Make an update with a batch of `size` and give its memory back; say whether there was enough."""
    device = device_of(model)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    try:
        update_with(model, batch_of(model, example, size), loss_fn, optimizer)
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
        return limit_bytes is None or peak <= limit_bytes
    except Exception as error:
        if not is_out_of_memory(error) and not is_out_of_memory(error.__cause__):
            raise
        traceback.clear_frames(error.__traceback__)  # they hold the tensors of the update
        return False
    finally:
        model.zero_grad()
        _release(device)


def _release(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()


def largest_that(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest size for which `fits` is true, 0 if it never is; it must be true of all smaller ones.

    The size is doubled until it is too large, then the gap is halved until it is closed. It begins with 2, since a
    batch normalisation refuses a single sample.
    """
    if not fits(2):
        return int(fits(1))
    good = 2
    while good < most:
        size = min(2 * good, most)
        if not fits(size):
            break
        good = size
    else:
        return good
    bad = size
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good
