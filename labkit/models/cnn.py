"""Two convolutional networks, built from the shape of the pictures and the number of classes."""

import torch.nn as nn
from torch import Tensor

from labkit.errors import ConfigError


class LeNet(nn.Module):
    """Two convolutions with pooling, then three fully connected layers (after LeCun et al., 1998, with ReLU).

    Maps inputs float (B, C, H, W), at least 4 × 4 pixels, to logits float (B, class_count).
    """

    def __init__(self, image_shape: tuple[int, int, int], class_count: int, dropout: float = 0.0):
        super().__init__()
        channels, height, width = _checked(image_shape, smallest=4)
        self.features = nn.Sequential(
            nn.Conv2d(channels, 16, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(32 * (height // 4) * (width // 4), 120),  # each pooling halves both sides
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, class_count),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (B, class_count)."""
        return self.classifier(self.features(inputs))


class CNN(nn.Module):
    """Stages of two 3 × 3 convolutions with batch normalisation; each stage but the last halves the sides.

    The mean over all positions feeds one linear layer, so the size of the pictures does not change the number of
    parameters. Maps inputs float (B, C, H, W), at least 4 × 4 pixels, to logits float (B, class_count).
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        class_count: int,
        widths: tuple[int, ...] = (32, 64, 128),
        dropout: float = 0.0,
    ):
        super().__init__()
        channels, height, width = _checked(image_shape, smallest=4)
        side = min(height, width)
        stages = []
        for number, width_out in enumerate(widths, start=1):
            stages += [convolution(channels, width_out), convolution(width_out, width_out)]
            channels = width_out
            if side >= 4 and number < len(widths):
                stages.append(nn.MaxPool2d(2))
                side //= 2
        self.stages = nn.Sequential(*stages)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout), nn.Linear(channels, class_count)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits (B, class_count)."""
        return self.head(self.stages(inputs))


def convolution(channels_in: int, channels_out: int) -> nn.Sequential:
    """Return a 3 × 3 convolution that keeps height and width, batch normalisation and ReLU.

    The convolution has no bias: the normalisation would subtract it again.
    """
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
    )


def _checked(image_shape: tuple[int, int, int], smallest: int) -> tuple[int, int, int]:
    channels, height, width = image_shape
    if min(height, width) < smallest:
        raise ConfigError(
            f"Pictures of {height}×{width} are too small for a convolutional network here; "
            f"it needs {smallest}×{smallest}. Use model='mlp'."
        )
    return channels, height, width
