"""One update of the weights, exact for any window of batches. Chapter 05 builds this up from eight bare lines.

The window may be spread over processes that train together: then each has its part, and the update is that of all.
"""

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from labkit.distributed import Crew
from labkit.measuring.losses import Batch, LossFunction
from labkit.measuring.metrics import count_correct


@dataclass
class Outcome:
    """What one update did. The tensors are scalars that stay on the device until somebody reads them."""

    loss: Tensor  # the mean over all samples of the window
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
    device, crew = window[0][0].device, Crew(model)
    count = crew.total(sum(len(targets) for _, targets in window))
    losses, correct = [], []

    optimizer.zero_grad()
    for number, (inputs, targets) in enumerate(window, start=1):
        autocast = torch.autocast(device.type, dtype=precision) if precision else nullcontext()
        with crew.exchange(wanted=number == len(window)), autocast:
            outputs = model(inputs)
            loss = loss_fn(outputs, targets)
        if len(targets) < count:
            loss = loss * (crew.size * len(targets) / count)
        scaler.scale(loss).backward()
        losses.append(loss.detach())
        correct.append(count_correct(outputs.detach(), targets))

    scaler.unscale_(optimizer)  # clip true gradients, not scaled ones
    parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
    gradient_norm = get_total_norm([parameter.grad for parameter in parameters])
    if clip_norm > 0:
        clip_grads_with_norm_(parameters, clip_norm, gradient_norm)
    loss, correct = crew.sums(sum(losses[1:], losses[0]), sum(correct[1:], correct[0]))
    stepped = step_if_finite(optimizer, loss + gradient_norm)
    if scaler.is_enabled():
        scaler.update()
    return Outcome(loss, correct, count, gradient_norm.detach(), stepped)


def step_if_finite(optimizer: torch.optim.Optimizer, sign: Tensor) -> Tensor:
    """Let the optimizer step unless `sign`, a scalar, is NaN or infinite; return a bool scalar that tells.

    On a GPU an `if` would make the program wait in every update until the number has arrived. A fused optimizer reads
    a flag there instead, and then leaves everything as it is: the door that `GradScaler.step` uses too.
    """
    stepped = torch.isfinite(sign)
    if sign.device.type != "cpu":
        optimizer.grad_scale, optimizer.found_inf = None, (~stepped).to(torch.float32)
        optimizer.step()
    elif stepped:
        optimizer.step()
    return stepped
