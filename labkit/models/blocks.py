"""Two ideas in a few lines each: a residual block, and two layers that share one weight."""

import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from labkit.models.cnn import convolution


class ResidualBlock(nn.Module):
    """Two convolutions whose result is *added* to what came in: at worst the block does nothing.

    Maps float (B, channels_in, H, W) to (B, channels_out, H / stride, W / stride), rounded up. Where the shape changes,
    the shortcut is a 1 × 1 convolution, so that both sides of the sum fit.
    """

    def __init__(self, channels_in: int, channels_out: int, stride: int = 1):
        super().__init__()
        first = convolution(channels_in, channels_out)
        first[0].stride = (stride, stride)
        self.body = nn.Sequential(first, *convolution(channels_out, channels_out)[:-1])  # ReLU comes after the sum
        self.shortcut = nn.Identity()
        if stride > 1 or channels_in != channels_out:
            self.shortcut = nn.Conv2d(channels_in, channels_out, kernel_size=1, stride=stride, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the sum of the body's and the shortcut's results, after ReLU."""
        return (self.shortcut(inputs) + self.body(inputs)).relu()


class TiedAutoencoder(nn.Module):
    """Squeeze `size` numbers into `code` and back with one weight: the decoder uses the encoder's, transposed.

    Maps float (B, size) to (B, size). The weight is one parameter: it is counted, saved and updated once.
    """

    def __init__(self, size: int, code: int):
        super().__init__()
        self.encoder = nn.Linear(size, code)
        self.bias = nn.Parameter(self.encoder.weight.new_zeros(size))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return what is left of the inputs after the way through the code."""
        return F.linear(self.encoder(inputs).relu(), self.encoder.weight.T, self.bias)
