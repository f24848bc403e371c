"""Controls of the chapter on tensors: what happens to a storage, and how two shapes are broadcast."""

import torch

from labkit.show.broadcasting import broadcasting
from labkit.show.controls import Control
from labkit.show.picture import Picture
from labkit.show.storage import storage_strip

#: What `storage_control` can do to the tensor `x = torch.arange(12).view(3, 4)`.
OPERATIONS = {
    "x": lambda x: x,
    "x.t()": lambda x: x.t(),
    "x[1]": lambda x: x[1],
    "x[:, 1:3]": lambda x: x[:, 1:3],
    "x[:, ::2]": lambda x: x[:, ::2],
    "x[::2]": lambda x: x[::2],
    "x.view(2, 6)": lambda x: x.view(2, 6),
    "x[:, :1].expand(3, 4)": lambda x: x[:, :1].expand(3, 4),
    "x.t().contiguous()": lambda x: x.t().contiguous(),
    "x.t().reshape(2, 6)": lambda x: x.t().reshape(2, 6),
}


def storage_control() -> Control:
    """Return a control that shows what transposing, slicing, expanding and copying do to a tensor and its storage."""
    x = torch.arange(12).view(3, 4)

    def draw(operation: str) -> Picture:
        return storage_strip(OPERATIONS[operation](x), base=x, name=operation, base_name="x")

    return Control(draw, operation=list(OPERATIONS))


#: Pairs of shapes that `broadcasting_control` goes through: those that fit, those that do not, and the treacherous one.
SHAPES = ("(3, 1)", "(1, 4)", "(4,)", "(3,)", "(3, 4)", "(3, 2)", "(8, 1)", "(8,)", "()")


def broadcasting_control() -> Control:
    """Return a control that chooses two shapes and shows how they are broadcast, or why they are not."""

    def draw(first: str, second: str) -> Picture:
        return broadcasting(_shape(first), _shape(second))

    return Control(draw, first=SHAPES, second=("(4,)", *(shape for shape in SHAPES if shape != "(4,)")))


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.strip("()").split(",") if size.strip())
