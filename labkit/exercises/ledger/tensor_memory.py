"""Measurements for the topic "Tensors": memory on the GPU, without one.

What the functions of `torch.cuda` promise stands in their documentation, which is part of PyTorch and is read here;
what a training step keeps is counted on the CPU, where it is the same.
"""

import gc
import weakref
from collections.abc import Callable

import torch
from torch import nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import bytes_kept_for_backward


def documentation(function: Callable) -> str:
    """Return the documentation of a function as one line."""
    return " ".join((function.__doc__ or "").split())


@claim(
    "C049",
    true="The first half is right. The second would make every program wait for a collector; below, the tensor was "
    "gone the moment its last name went, with Python's collector switched off.",
    false="The first half is right: GPU memory comes from an allocator that keeps freed blocks for the next tensor. "
    "Only the collecting does not exist.",
    depends="Right. A tensor's block goes back to the cache when its last reference goes. If no block fits, the "
    "allocator returns cached blocks to the driver and tries once more; then comes the out-of-memory error.",
)
def nobody_waits_for_a_collector() -> dict[str, bool]:
    """Read what the allocator does, and let a tensor go while Python's collector is off."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        tensor = torch.ones(1000)
        watch = weakref.ref(tensor)
        del tensor
        waits = watch() is not None
    finally:
        if was_on:
            gc.enable()
    return {
        "GPU memory comes from an allocator that keeps freed blocks": "cached memory currently held by the caching "
        "allocator" in documentation(torch.cuda.empty_cache),
        "a tensor that nobody references waits until it is collected": waits,
    }


@claim(
    "C052",
    true="Fragmentation exists, and the error message itself mentions it. But look at the plain reasons first: what a "
    "step keeps grew with the batch, and an evaluation without `no_grad` kept as much as training.",
    false="Rarely the cause, but not never: PyTorch's own documentation speaks of it. It stands last on the list of "
    "what to look at.",
    depends="Right, and the order matters: batch size, evaluation without `no_grad`, stored losses with their graphs, "
    "other programs; fragmentation last.",
)
def memory_is_short_for_plain_reasons() -> dict[str, bool]:
    """Count what a forward pass keeps, for two batch sizes and under no_grad, and read about fragmentation."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    small, large = (bytes_kept_for_backward(model, torch.ones(batch, 64)) for batch in (8, 80))
    with torch.no_grad():
        unrecorded = bytes_kept_for_backward(model, torch.ones(80, 64))
    return {
        "fragmentation of GPU memory is a known cause": "fragmentation" in documentation(torch.cuda.empty_cache),
        "a batch ten times as large needs no more memory": large <= small,
        "an evaluation with no_grad needs as much memory as one without": unrecorded >= large,
    }


@claim(
    "C053",
    true="Yes: it promises the allocator's current figures as a printout, and the peak beside them.",
    false="You may have called it on a computer without a GPU, where it fails instead of printing zeros. Ask "
    "`torch.cuda.is_available()` first; where there is a GPU it does what it promises.",
    depends="It needs a GPU, as all of `torch.cuda` does; without one it stops with an error. What it shows is in no "
    "doubt.",
)
def memory_summary_shows_the_current_use() -> dict[str, bool]:
    """Read what memory_summary and memory_allocated promise."""
    return {
        "memory_summary prints the allocator's current figures": "printout of the current memory allocator statistics"
        in documentation(torch.cuda.memory_summary),
        "it is meant for out-of-memory errors": "handling out-of-memory" in documentation(torch.cuda.memory_summary),
        "memory_allocated gives the bytes in tensors as a number": "current GPU memory occupied by tensors in bytes"
        in documentation(torch.cuda.memory_allocated),
    }


@claim(
    "C054",
    true="It looks like a cure because `nvidia-smi` then shows less. What shrank is the cache, which PyTorch would "
    "have used for its next tensors; its documentation says that you get no more.",
    false="The first half holds: it hands back blocks that no tensor occupies, and never touches one in use. What it "
    "does not do is cure the error.",
    depends="Right. It helps *other* programs on the same GPU. For your own: drop references, or take smaller batches, "
    "mixed precision or gradient accumulation.",
)
def empty_cache_gives_you_no_more() -> dict[str, bool]:
    """Read what empty_cache promises, and what it does not."""
    text = documentation(torch.cuda.empty_cache)
    return {
        "it frees what no tensor occupies, and only that": "Release all unoccupied cached memory" in text,
        "it leaves more GPU memory to your program": "doesn't increase the amount of GPU memory available" not in text,
    }


@claim(
    "C055",
    true="The word *reset* sounds like it. All it resets is the record of the peak: its documentation says so, and its "
    "code calls one function of that name and no other.",
    false="Right. Call it before the part that you want to measure, and read `max_memory_allocated` after it.",
    depends="There is no situation in which it does more. Even the other statistics stay: they have a reset of their "
    "own.",
)
def only_the_peak_is_reset() -> dict[str, bool]:
    """Read what reset_peak_memory_stats promises, and which function of the driver's side it calls."""
    reset = torch.cuda.reset_peak_memory_stats
    calls = [name for name in reset.__code__.co_names if name.startswith("_cuda")]
    return {
        "it resets CUDA as a whole": 'Reset the "peak" stats' not in documentation(reset),
        "it does something to running work, beside resetting the peak": calls != ["_cuda_resetPeakMemoryStats"],
        "it clears all statistics": not hasattr(torch.cuda, "reset_accumulated_memory_stats"),
    }
