"""How shapes are broadcast: written right under right, and, where they are small, box by box."""

from collections.abc import Sequence
from math import prod

from matplotlib.axes import Axes

from labkit.errors import LabkitError
from labkit.show.boxes import MARGIN, box, cut, sheet, write
from labkit.show.picture import Picture
from labkit.show.style import QUIET, course_style
from labkit.tensors import Alignment, align

_WIDTH = 9.0  # inches
_EDGE = 0.42  # of a box of the table
_MOST_AXES, _MOST_SHAPES, _MOST_BOXES = 6, 4, 8
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NUMBERS = [str(number) for number in range(1, 27)]


def broadcasting(*shapes: Sequence[int], names: Sequence[str] = ()) -> Picture:
    """Draw how shapes are aligned, which axes are stretched, and the result or the axis that fails.

    Hatched boxes are read again instead of being there. Of shapes with at most two axes of at most eight the tensors
    themselves are drawn too. names: of the shapes, "first", "second", … by default.
    Raises LabkitError for what is no shape, and for two equal names.
    """
    plan = align(*shapes)
    if not 1 <= len(plan.shapes) <= _MOST_SHAPES or len(plan.axes) > _MOST_AXES:
        raise LabkitError(
            f"{len(plan.shapes)} shapes with up to {len(plan.axes)} axes cannot be drawn: "
            f"give 1 to {_MOST_SHAPES} shapes of at most {_MOST_AXES} axes. `labkit.tensors.align` takes any."
        )
    names = [*names, *("first", "second", "third", "fourth")[len(names) :]]
    if len({"axis", "result", *names}) < 2 + len(names):
        raise LabkitError(f"Each shape needs a name of its own, and not 'axis' or 'result'; given: {', '.join(names)}.")
    with course_style():
        panel = sheet(_WIDTH)
        right = _table(panel, plan, names)
        height = MARGIN + (len(plan.shapes) + 2) * (_EDGE + 0.08)
        if _is_small(plan):
            height = max(height, _tensors(panel, plan, names, right + 0.7))
        hatched = "Hatched: not there, the same element is read again." if any(plan.stretched) else ""
        for line in filter(None, (_summary(plan), plan.remedy or hatched)):
            write(panel, MARGIN, height + 0.1, line, 10)
            height += 0.24
        figure = cut(panel, height + MARGIN)
    return Picture(figure, _data(plan, names), _summary(plan))


def _table(panel: Axes, plan: Alignment, names: Sequence[str]) -> float:
    """Draw a row of sizes for each shape and one for the result; return how far to the right it reaches."""
    left = MARGIN + 0.9
    for column, axis in enumerate(plan.axes):
        x = left + column * (_EDGE + 0.08)
        write(panel, x + _EDGE / 2, MARGIN + 0.1, f"axis {axis.position}", 7.5, color=QUIET, ha="center")
        for row, (size, stretched) in enumerate(zip(axis.sizes, axis.stretched, strict=True)):
            kind = "wrong" if axis.size is None and size not in (None, 1) else "copied" if stretched else "plain"
            box(panel, x, _row_y(row), _EDGE, "" if size is None else str(size), kind)
        if axis.size is None:
            box(panel, x, _row_y(len(plan.shapes)) + 0.1, _EDGE, "✗", "wrong")
        else:
            box(panel, x, _row_y(len(plan.shapes)) + 0.1, _EDGE, str(axis.size), "filled")
    for row in range(len(plan.shapes)):
        write(panel, left - 0.12, _row_y(row) + _EDGE / 2, names[row], 9, ha="right")
    write(panel, left - 0.12, _row_y(len(plan.shapes)) + 0.1 + _EDGE / 2, "result", 9, ha="right", fontweight="bold")
    return left + max(1, len(plan.axes)) * (_EDGE + 0.08)


def _row_y(row: int) -> float:
    return MARGIN + 0.2 + row * (_EDGE + 0.08)


def _is_small(plan: Alignment) -> bool:
    shapes = [*plan.shapes, plan.result or ()]
    return all(len(shape) <= 2 and all(1 <= size <= _MOST_BOXES for size in shape) for shape in shapes)


def _tensors(panel: Axes, plan: Alignment, names: Sequence[str], left: float) -> float:
    """Draw each tensor as a grid, stretched boxes hatched, and the result; return how far down it reaches.

    The elements of two tensors are named, a, b, c and 1, 2, 3: a box of the result says which of them meet there.
    """
    fits = plan.result is not None
    own = [_as_matrix(shape) for shape in plan.shapes]
    shown = [_as_matrix(plan.result) if fits else size for size in own]
    elements = _element_names(own, shown)
    grids = [(names[place], *sizes, "plain") for place, sizes in enumerate(zip(own, shown, elements, strict=True))]
    if fits:
        together = ["".join(met) for met in zip(*elements, strict=True)]
        grids.append(("result", shown[0], shown[0], together, "filled"))
    across = sum(size[1] for _, _, size, _, _ in grids) + 1.6 * (len(grids) - 1)
    edge = min(0.36, (_WIDTH - left - MARGIN) / across)
    bottom = 0.0
    for place, (name, there, (rows, columns), texts, kind) in enumerate(grids):
        if place:
            sign = "→" if kind == "filled" else "and"
            write(panel, left - 0.8 * edge, _row_y(0) + rows * edge / 2, sign, 9.5, color=QUIET, ha="center")
        write(panel, left, MARGIN + 0.1, name, 8.5, color=QUIET)
        for index, text in enumerate(texts):
            row, column = divmod(index, columns)
            is_there = row < there[0] and column < there[1]
            x, y = left + column * edge, _row_y(0) + row * edge
            box(panel, x, y, edge, text, kind if is_there else "copied")
        left, bottom = left + (columns + 1.6) * edge, max(bottom, _row_y(0) + rows * edge)
    return bottom + 0.2


def _element_names(own: Sequence[tuple[int, int]], shown: Sequence[tuple[int, int]]) -> list[list[str]]:
    """Return for each tensor the name of the element in each box; empty names where there are too many."""
    if len(own) != 2 or any(rows * columns > len(_LETTERS) for rows, columns in own):
        return [[""] * (rows * columns) for rows, columns in shown]
    named = []
    for signs, (rows, columns), (down, across) in zip((_LETTERS, _NUMBERS), own, shown, strict=True):
        named.append(
            [signs[row % rows * columns + column % columns] for row in range(down) for column in range(across)]
        )
    return named


def _as_matrix(shape: Sequence[int]) -> tuple[int, int]:
    """Return rows and columns of a shape with at most two axes: a vector is one row, a number one box."""
    rows, columns = (1, 1, *shape)[-2:]
    return rows, columns


def _data(plan: Alignment, names: Sequence[str]) -> list[dict[str, object]]:
    """Return a row for each axis: its position, the size in each shape, the size of the result."""
    return [
        {"axis": axis.position, **dict(zip(names, axis.sizes, strict=False)), "result": axis.size} for axis in plan.axes
    ]


def _summary(plan: Alignment) -> str:
    listed = " and ".join(str(shape) for shape in plan.shapes)
    if plan.result is None:
        return f"{listed} do not fit. {plan.reason}"
    stretched = [shape for shape, is_stretched in zip(plan.shapes, plan.stretched, strict=True) if is_stretched]
    how = f"stretched: {' and '.join(map(str, stretched))}" if stretched else "nothing is stretched"
    if prod(plan.result) > max(map(prod, plan.shapes)):
        how += f", so {' and '.join(str(prod(shape)) for shape in plan.shapes)} elements make {prod(plan.result)}"
    return f"{listed} give {plan.result}; {how}."
