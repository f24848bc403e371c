"""Networks for pictures, and tools that look inside a network."""

import torch.nn as nn

from labkit import randomness
from labkit.errors import ConfigError
from labkit.models.arithmetic import Window, output_size, receptive_field, same_padding, window_table, windows_of
from labkit.models.blocks import ResidualBlock, TiedAutoencoder
from labkit.models.cnn import CNN, LeNet
from labkit.models.freezing import freeze, trained_parameters, unfreeze
from labkit.models.init import INITS, deep, initialise, signal_table
from labkit.models.inspect import ShapeError, parameter_count, parameter_table, shape_trace
from labkit.models.memory import kept_for_backward, memory_table
from labkit.models.mlp import MLP
from labkit.models.registration import registration

NETWORKS = {"mlp": MLP, "lenet": LeNet, "cnn": CNN}

__all__ = [
    "CNN",
    "INITS",
    "MLP",
    "NETWORKS",
    "LeNet",
    "ResidualBlock",
    "ShapeError",
    "TiedAutoencoder",
    "Window",
    "build",
    "deep",
    "freeze",
    "initialise",
    "kept_for_backward",
    "memory_table",
    "output_size",
    "parameter_count",
    "parameter_table",
    "receptive_field",
    "registration",
    "same_padding",
    "shape_trace",
    "signal_table",
    "trained_parameters",
    "unfreeze",
    "window_table",
    "windows_of",
]


def build(
    name: str, image_shape: tuple[int, int, int], class_count: int, seed: int = 0, dropout: float = 0.0
) -> nn.Module:
    """Return the network called "mlp", "lenet" or "cnn" with initial weights that depend on `seed` alone.

    image_shape: (channels, height, width). The global generators are left as they were.
    Raises ConfigError for an unknown name, pictures that are too small, and sizes that mean nothing.
    """
    if not isinstance(name, str) or name not in NETWORKS:
        raise ConfigError(f"Model {name!r} is not known. Choose one of {', '.join(map(repr, NETWORKS))}.")
    if not isinstance(image_shape, tuple | list) or len(image_shape) != 3 or not all(map(_is_size, image_shape)):
        raise ConfigError(f"image_shape={image_shape!r} must be three whole numbers: (channels, height, width).")
    if not _is_size(class_count):
        raise ConfigError(
            f"class_count={class_count!r} must be a whole number of at least 1, as len(images.classes) is."
        )
    if not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise ConfigError(f"dropout={dropout!r} must be a number from 0 to below 1.")
    with randomness.frozen_randomness(randomness.seed_for(seed, "initial weights")):
        return NETWORKS[name](image_shape, class_count, dropout=dropout)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
