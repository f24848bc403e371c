"""Ten dimension errors that people make: the failing layer, what came in, and what to change."""

import pytest
import torch
import torch.nn as nn
from torch import Tensor

from labkit.models import shape_trace
from labkit.models.inspect import ShapeError


class Joined(nn.Module):
    """Two branches that lose the border differently."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = nn.Conv2d(1, 4, 3), nn.Conv2d(1, 4, 5)

    def forward(self, inputs: Tensor) -> Tensor:
        small, large = self.small(inputs), self.large(inputs)
        return torch.cat([small, large], dim=1)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.body(inputs)


class Reshaping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(1, 4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layer(inputs).view(-1, 100)


class Wide(nn.Conv2d):
    """A layer of one's own, without a number in its name."""


def classifier(*layers: nn.Module) -> nn.Sequential:
    model = nn.Sequential()
    model.features, model.classifier = nn.Sequential(*layers[:-1]), layers[-1]
    return model


PLANTED = {
    "in_features after flatten": (
        classifier(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(100, 10)),
        (1, 8, 8),
        ["'classifier' (Linear)", "of shape 2×36", "takes …×100 and gives …×10", "`nn.Linear(36, 10)`"],
    ),
    "channels": (
        classifier(nn.Conv2d(1, 4, 3), nn.Conv2d(8, 4, 3), nn.Flatten()),
        (1, 8, 8),
        ["'features.1' (Conv2d)", "of shape 2×4×6×6", "takes 8 channels and gives 4; 4 came in", "`Conv2d(4, 4, …)`"],
    ),
    "kernel larger than the picture": (
        classifier(nn.MaxPool2d(4), nn.Conv2d(1, 4, 5), nn.Flatten()),
        (1, 12, 12),
        ["'features.1' (Conv2d)", "of shape 2×1×3×3", "window of 5×5 is larger than the picture of 3×3", "`padding=2`"],
    ),
    "kernel larger than one picture without a batch": (
        classifier(Wide(1, 4, 5), nn.Flatten()),
        torch.zeros(1, 3, 4),
        ["'features.0' (Wide)", "of shape 1×3×4", "window of 5×5 is larger than the picture of 3×4", "`padding=2`"],
    ),
    "pooling far apart": (
        classifier(nn.MaxPool2d(2, dilation=4), nn.Flatten()),
        (1, 4, 4),
        ["'features.0' (MaxPool2d)", "window of 5×5 is larger than the picture of 4×4"],
    ),
    "pooling once too often": (
        classifier(nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d(2), nn.Flatten()),
        (1, 6, 6),
        ["'features.2' (MaxPool2d)", "of shape 2×1×1×1", "window of 2×2 is larger than the picture of 1×1"],
    ),
    "flatten forgotten": (
        classifier(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Linear(144, 10)),
        (1, 8, 8),
        ["'classifier' (Linear)", "of shape 2×4×6×6", "Put `nn.Flatten()` before it: a sample has 144 numbers"],
    ),
    "flatten and size": (
        classifier(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Linear(100, 10)),
        (1, 8, 8),
        ["'classifier' (Linear)", "Put `nn.Flatten()` before it and make it `nn.Linear(144, 10)`"],
    ),
    "batch dimension forgotten": (
        classifier(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 10)),
        torch.zeros(1, 8, 8),
        ["'classifier' (Linear)", "of shape 4×36", "batch dimension is missing: `model(inputs.unsqueeze(0))` works"],
    ),
    "batch dimension forgotten before a normalisation": (
        classifier(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten()),
        torch.zeros(1, 8, 8),
        ["'features.1' (BatchNorm2d)", "of shape 4×6×6", "batch dimension is missing"],
    ),
    "features of BatchNorm": (
        classifier(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(8), nn.Flatten()),
        (1, 8, 8),
        [
            "'features.1' (BatchNorm2d)",
            "of shape 2×4×6×6",
            "takes and gives 8 channels, and 4 came in",
            "`BatchNorm2d(4)`",
        ],
    ),
    "BatchNorm of another dimension": (
        classifier(nn.Flatten(), nn.BatchNorm2d(64), nn.Linear(64, 2)),
        (1, 8, 8),
        ["'features.1' (BatchNorm2d)", "takes 4 dimensions (batch, channels, height, width), and 2 came in"],
    ),
    "index of an embedding": (
        classifier(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(12, 2)),
        torch.tensor([[1, 2, 10]]),
        ["'features.0' (Embedding)", "of shape 1×3", "indices from 0 to 9 and gives …×4", "`nn.Embedding(11, 4)`"],
    ),
    "transposed convolution": (
        classifier(nn.Conv2d(1, 16, 3), nn.ConvTranspose2d(8, 16, 2, stride=2), nn.Flatten()),
        (1, 8, 8),
        ["'features.1' (ConvTranspose2d)", "of shape 2×16×6×6", "takes 8 channels and gives 16; 16 came in"],
    ),
    "concatenation": (
        classifier(Joined(), nn.Flatten()),
        (1, 8, 8),
        [
            "'features.0' (Joined)",
            "of shape 2×1×8×8",
            "in the line `return torch.cat([small, large], dim=1)`",
            "gave 'features.0.small' 2×4×6×6, 'features.0.large' 2×4×4×4",
            "keep the same height and width",
        ],
    ),
    "residual": (
        nn.Sequential(Residual()),
        (8, 6, 6),
        ["'0' (Residual)", "`return inputs + self.body(inputs)`", "gave '0.body' 2×16×6×6", "a 1×1 convolution"],
    ),
    "reshape": (
        Reshaping(),
        (1, 8, 8),
        ["'Reshaping' (Reshaping)", "of shape 2×1×8×8", "`return self.layer(inputs).view(-1, 100)`", "`x.flatten(1)`"],
    ),
    "channels last": (
        classifier(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2)),
        torch.zeros(2, 8, 8, 3),
        ["'features.0' (Conv2d)", "of shape 2×8×8×3", "`model(inputs.permute(0, 3, 1, 2))` works"],
    ),
    "bytes": (
        classifier(nn.Flatten(), nn.Linear(12, 2)),
        torch.zeros(2, 12, dtype=torch.uint8),
        ["'classifier' (Linear)", "`model(inputs.float())` works"],
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_explained(name: str) -> None:
    model, inputs, words = PLANTED[name]
    with pytest.raises(ShapeError) as caught:
        shape_trace(model, inputs)
    for part in words:
        assert part in str(caught.value), str(caught.value)


def test_the_layers_before_are_in_the_table() -> None:
    with pytest.raises(ShapeError) as caught:
        shape_trace(*PLANTED["in_features after flatten"][:2])
    assert [row["out"] for row in caught.value.table.rows] == ["2×4×6×6", "2×4×3×3", "2×36"]


def test_a_batch_as_it_is() -> None:
    table = shape_trace(nn.Sequential(nn.Embedding(10, 4), nn.Flatten()), torch.tensor([[1, 2, 9]]))
    assert [row["out"] for row in table.rows] == ["1×3×4", "1×12"] and table.caption.endswith("a batch of 1")


def test_an_error_without_known_fix_keeps_torchs_words() -> None:
    class Own(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            raise RuntimeError("Something of its own.")

    with pytest.raises(
        ShapeError, match=r"'0' \(Own\) .* Something of its own\. It came up in the line `raise Runtime"
    ):
        shape_trace(nn.Sequential(Own()), (1, 2, 2))


def test_indices_by_shape_are_refused_with_a_sentence() -> None:
    with pytest.raises(ShapeError, match=r"inputs\.long\(\)"):
        shape_trace(nn.Sequential(nn.Embedding(10, 4)), (3,))
