"""Run a model to look at it, and leave no trace: every tool that looks into a model uses this."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn as nn

from labkit import randomness


def zeros_for(model: nn.Module, shape: tuple[int, ...], batch_size: int) -> torch.Tensor:
    """Return a batch of zeros (batch_size, *shape) with the device and the dtype of the model's first parameter."""
    first = next(model.parameters(), torch.zeros(()))
    return torch.zeros(batch_size, *shape, device=first.device, dtype=first.dtype)


@contextmanager
def left_as_it_was(model: nn.Module) -> Iterator[None]:
    """Put the modes, the buffers (such as batch statistics) and the random numbers back after the block."""
    modes = {module: module.training for module in model.modules()}
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        with randomness.frozen_randomness():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
