"""Networks for pictures, and tools that look inside a network."""

import torch.nn as nn

from labkit import randomness
from labkit.errors import ConfigError
from labkit.models.cnn import CNN, LeNet
from labkit.models.inspect import parameter_count, parameter_table, shape_trace
from labkit.models.mlp import MLP

NETWORKS = {"mlp": MLP, "lenet": LeNet, "cnn": CNN}

__all__ = ["CNN", "MLP", "NETWORKS", "LeNet", "build", "parameter_count", "parameter_table", "shape_trace"]


def build(
    name: str, image_shape: tuple[int, int, int], class_count: int, seed: int = 0, dropout: float = 0.0
) -> nn.Module:
    """Return the network called "mlp", "lenet" or "cnn" with initial weights that depend on `seed` alone.

    image_shape: (channels, height, width). The global generators are left as they were.
    Raises ConfigError for an unknown name or pictures that are too small.
    """
    if name not in NETWORKS:
        raise ConfigError(f"Model {name!r} is not known. Choose one of {', '.join(map(repr, NETWORKS))}.")
    with randomness.frozen_randomness(randomness.seed_for(seed, "initial weights")):
        return NETWORKS[name](image_shape, class_count, dropout=dropout)
