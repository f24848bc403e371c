"""How shapes are broadcast: written right under right, axis by axis.

On each axis the sizes must be equal; a size of 1, or no axis at all, is stretched to what the others have.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from labkit.errors import LabkitError


@dataclass(frozen=True)
class Axis:
    """One column of the aligned shapes.

    position: -1 is the last axis. sizes: one for each shape, None where the shape has no such axis.
    size: that of the result, None where the sizes do not fit.
    """

    position: int
    sizes: tuple[int | None, ...]
    size: int | None

    @property
    def stretched(self) -> tuple[bool, ...]:
        """Tell for each shape whether it is read several times (or never) along this axis."""
        return tuple(self.size not in (None, 1) and size in (None, 1) for size in self.sizes)


@dataclass(frozen=True)
class Alignment:
    """How shapes are broadcast together, or where they fail to be.

    shapes: as given. axes: from the first to the last. result: the common shape, None where there is none.
    reason: one sentence on the failing axis, empty where there is none.
    """

    shapes: tuple[tuple[int, ...], ...]
    axes: tuple[Axis, ...]
    result: tuple[int, ...] | None
    reason: str

    @property
    def failing(self) -> tuple[Axis, ...]:
        """The axes on which the sizes do not fit."""
        return tuple(axis for axis in self.axes if axis.size is None)

    @property
    def remedy(self) -> str:
        """One sentence on a missing axis that would let all fit if it stood last; empty where that does not help."""
        longest = max(self.shapes, key=len, default=())
        for place, shape in enumerate(self.shapes):
            tried = align(*self.shapes[:place], (*shape, 1), *self.shapes[place + 1 :])
            if self.failing and len(shape) < len(longest) and tried.result == longest:
                return f"With unsqueeze(-1), {shape} becomes {(*shape, 1)}, and the result is {tried.result}."
        return ""

    @property
    def stretched(self) -> tuple[bool, ...]:
        """Tell for each shape whether it is stretched along some axis."""
        return tuple(any(axis.stretched[place] for axis in self.axes) for place in range(len(self.shapes)))


def align(*shapes: Sequence[int]) -> Alignment:
    """Return how the shapes are broadcast together; shapes that do not fit give an alignment that says why.

    Raises LabkitError for what is no shape.
    """
    checked = tuple(_shape(shape) for shape in shapes)
    axes = tuple(_axis(position, checked) for position in range(-max(map(len, checked), default=0), 0))
    failing = [axis for axis in axes if axis.size is None]
    result = None if failing else tuple(axis.size for axis in axes)
    return Alignment(checked, axes, result, _reason(failing[-1]) if failing else "")


def _axis(position: int, shapes: Sequence[tuple[int, ...]]) -> Axis:
    sizes = tuple(shape[position] if len(shape) >= -position else None for shape in shapes)
    wanted = {size for size in sizes if size not in (None, 1)}
    size = None if len(wanted) > 1 else wanted.pop() if wanted else 1
    return Axis(position, sizes, size)


def _reason(axis: Axis) -> str:
    sizes = dict.fromkeys(size for size in axis.sizes if size not in (None, 1))
    return (
        f"On axis {axis.position} the sizes are {' and '.join(map(str, sizes))}: "
        "they must be equal, or one of them 1 or missing."
    )


def _shape(shape: object) -> tuple[int, ...]:
    """Return a shape as a tuple, or raise LabkitError that says how a shape is written."""
    if isinstance(shape, torch.Tensor):
        raise LabkitError("This is a tensor; its shape is wanted. Write align(x.shape, y.shape).")
    if isinstance(shape, int):
        raise LabkitError(f"{shape} is a number, not a shape. A shape with one axis has a comma: ({shape},).")
    if not isinstance(shape, tuple | list):
        raise LabkitError(f"{shape!r} is not a shape. A shape is a tuple of sizes, such as (3, 4).")
    if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in shape):
        raise LabkitError(f"{tuple(shape)} is not a shape: each size must be a whole number, 0 or more.")
    return tuple(shape)
