"""One update of the weights, exact for any window of batches. Chapter 05 builds this up from eight bare lines."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

LossFunction = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) -> mean over the batch, a scalar
Batch = tuple[Tensor, Tensor]


@dataclass
class Outcome:
    """What one update did. All tensors are scalars that stay on the device until somebody reads them."""

    loss_sum: Tensor  # the sum of the losses of all samples, not their mean
    correct: Tensor  # how many samples had the largest output at their target
    count: int  # how many samples there were
    gradient_norm: Tensor  # before clipping
    stepped: Tensor  # bool: False when the update was skipped


def windows(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Group batches into windows of `size`, one window for one update; the last may be shorter, none is dropped."""
    batches = iter(batches)
    while window := list(islice(batches, size)):
        yield window


def update(
    model: nn.Module,
    window: list[Batch],
    loss_fn: LossFunction,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    precision: torch.dtype | None = None,
    clip_norm: float = 0.0,
) -> Outcome:
    """Make one update from a window of batches, as if they were one big batch.

    The loss of each batch counts by its share of the window's samples, so uneven batches and a short last window
    give the gradient of the big batch (batch normalisation apart: it sees each small batch). A loss or gradient that
    is not finite leaves weights and optimizer as they are. Nothing here waits for the device.
    """
    device = window[0][0].device
    count = sum(len(targets) for _, targets in window)
    loss_sum = torch.zeros((), dtype=exact_dtype(device), device=device)
    correct = torch.zeros((), dtype=torch.int64, device=device)

    optimizer.zero_grad()
    for inputs, targets in window:
        with torch.autocast(device.type, dtype=precision, enabled=precision is not None):
            outputs = model(inputs)
            loss = loss_fn(outputs, targets)
        scaler.scale(loss * (len(targets) / count)).backward()
        loss_sum += loss.detach() * len(targets)
        correct += count_correct(outputs.detach(), targets)

    scaler.unscale_(optimizer)  # clip true gradients, not scaled ones
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    gradient_norm = get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    if clip_norm > 0:
        clip_grads_with_norm_(parameters, clip_norm, gradient_norm)
    stepped = torch.isfinite(gradient_norm) & torch.isfinite(loss_sum)

    # A fused optimizer reads this flag on the device and then leaves everything as it is: the door that
    # GradScaler.step uses too. An `if` in Python would make the host wait for the device in every update.
    optimizer.grad_scale, optimizer.found_inf = None, (~stepped).to(torch.float32)
    optimizer.step()
    if scaler.is_enabled():
        scaler.update()
    return Outcome(loss_sum, correct, count, gradient_norm.detach(), stepped)


def cross_entropy(outputs: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Return the mean cross-entropy of a batch.

    As torch's own, but without a class number (there -100) that secretly means "leave this sample out": sums over
    samples would silently be wrong.
    """
    return F.cross_entropy(outputs, targets, ignore_index=-(2**31), label_smoothing=label_smoothing)


def is_cross_entropy(loss_fn: LossFunction) -> bool:
    """Say whether a loss is the one above, with or without settings."""
    return getattr(loss_fn, "func", loss_fn) is cross_entropy


def count_correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return how many rows of outputs (B, K) are largest at their target (B,); 0 where targets are no class numbers.

    A row with a NaN is never right.
    """
    if outputs.ndim != 2 or targets.ndim != 1 or targets.is_floating_point():
        return torch.zeros((), dtype=torch.int64, device=outputs.device)
    largest, labels = outputs.max(dim=1)
    return ((labels == targets) & ~largest.isnan()).sum()


def exact_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype for sums: float64, except on Apple GPUs, which have none."""
    return torch.float32 if device.type == "mps" else torch.float64
