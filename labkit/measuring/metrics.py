"""Measure a model: sums over all samples divided by their count, never means of batch means."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch import Tensor

from labkit import distributed
from labkit.errors import DataError
from labkit.measuring.losses import Batch, LossFunction, cross_entropy
from labkit.measuring.misfit import checked, explained


@dataclass(frozen=True)
class Metrics:
    """The mean loss over `count` samples, and how many of them were classified right."""

    loss: float
    accuracy: float
    correct: int
    count: int


def evaluate(
    model: nn.Module, loader: Iterable[Batch], loss_fn: LossFunction = cross_entropy, together: bool = False
) -> Metrics:
    """Return the metrics of a model over everything a loader gives; the model keeps its mode and gets no gradient.

    loss_fn: gives the mean loss of a batch. together: add the sums of all processes that train together, each of which
    comes here with batches of its own. Raises DataError if nobody has any.
    """
    device = device_of(model)
    totals, count = torch.zeros(2, dtype=exact_dtype(device), device=device), 0
    with evaluation(model):
        for batch in loader:
            inputs, targets = (part.to(device) for part in checked(batch))
            with explained(model, [(inputs, targets)], loss_fn):
                outputs = model(inputs)
                totals += torch.stack([loss_fn(outputs, targets) * len(targets), _count_right(outputs, targets)])
            count += len(targets)
    loss_sum, correct = totals.tolist()  # the only moment at which the device is waited for
    if together:
        loss_sum, correct, count = distributed.total(loss_sum, correct, count)
    if count == 0:
        raise DataError("evaluate: the loader gave no batch, so there is nothing to measure.")
    return Metrics(loss_sum / count, correct / count, int(correct), int(count))


def _count_right(outputs: Tensor, targets: Tensor) -> Tensor:
    """Count the right answers; a row with a NaN is never right, though its largest output may be at the target."""
    broken = outputs.isnan().any(dim=-1)
    return count_correct(outputs, targets.masked_fill(broken, -1) if broken.shape == targets.shape else targets)


@contextmanager
def evaluation(model: nn.Module) -> Iterator[None]:
    """Run a block with every layer in evaluation mode and no graph recorded, then put each layer's mode back."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the model's first parameter; the CPU for a model without any."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def count_correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return how many rows of outputs (B, K) are largest at their target (B,); 0 where targets are no class numbers."""
    if outputs.ndim != 2 or targets.ndim != 1 or targets.is_floating_point():
        return torch.zeros((), dtype=torch.int64, device=outputs.device)
    return (outputs.argmax(dim=1) == targets).sum()


def exact_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype for sums: float64, except on Apple GPUs, which have none."""
    return torch.float32 if device.type == "mps" else torch.float64
