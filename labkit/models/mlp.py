"""The plainest network for pictures: flatten, then fully connected layers."""

import math
from itertools import pairwise

import torch.nn as nn
from torch import Tensor


class MLP(nn.Module):
    """Flatten a picture and send it through fully connected layers with ReLU.

    Maps inputs float (B, C, H, W) to logits float (B, class_count).
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        class_count: int,
        hidden: tuple[int, ...] = (128, 128),
        dropout: float = 0.0,
    ):
        super().__init__()
        sizes = [math.prod(image_shape), *hidden]
        layers = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU(), nn.Dropout(dropout)]
        self.hidden = nn.Sequential(*layers)
        self.output = nn.Linear(sizes[-1], class_count)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (B, class_count); no softmax: the loss wants raw scores."""
        return self.output(self.hidden(inputs.flatten(1)))
