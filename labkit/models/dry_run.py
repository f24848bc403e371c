"""Run a model to look at it, and leave no trace: every tool that looks into a model uses this."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn as nn

from labkit import randomness
from labkit.errors import ConfigError


def need_model(model: object) -> None:
    """Raise ConfigError for what is no model: a class without brackets, a list, or one without `super().__init__()`."""
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise ConfigError(f"{model.__name__} is a class; a model is made by calling it: {model.__name__}(…).")
    if not isinstance(model, nn.Module):
        raise ConfigError(f"A model is an nn.Module, got {type(model).__name__}. Layers in a row: nn.Sequential(…).")
    if "_modules" not in vars(model):
        raise ConfigError(f"{type(model).__name__} has no place for layers: call super().__init__() first in __init__.")


def zeros_for(model: nn.Module, shape: tuple[int, ...], batch_size: int) -> torch.Tensor:
    """Return a batch of zeros (batch_size, *shape) with the device and the dtype of the model's first parameter.

    Raises ConfigError for sizes that are none.
    """
    sizes = (batch_size, *shape) if isinstance(shape, tuple | list) else ("?",)
    if not all(type(size) is int and size >= 0 for size in sizes):
        raise ConfigError(
            f"Give a batch of inputs, or the shape of one, such as (3, 32, 32), and batch_size as a number; "
            f"got {shape!r} with batch_size={batch_size!r}."
        )
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
