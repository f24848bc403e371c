"""How shapes are broadcast: written right under right, and, where they are small, box by box."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from labkit.errors import LabkitError
from labkit.show.boxes import MARGIN, box, cut, sheet, write
from labkit.show.picture import Picture
from labkit.show.style import QUIET, SERIES, course_style
from labkit.tensors import Alignment, align

_WIDTH = 9.0  # inches
_EDGE = 0.42  # of a box of the table
_MOST_AXES, _MOST_SHAPES, _MOST_BOXES = 6, 4, 8


def broadcasting(*shapes: Sequence[int], names: Sequence[str] = ()) -> Picture:
    """Draw how shapes are aligned, which axes are stretched, and the result or the axis that fails.

    Hatched boxes are read again instead of being there. Of shapes with at most two axes of at most eight the tensors
    themselves are drawn too. names: of the shapes, "first", "second", … by default.
    Raises LabkitError for what is no shape.
    """
    plan = align(*shapes)
    if not 1 <= len(plan.shapes) <= _MOST_SHAPES or len(plan.axes) > _MOST_AXES:
        raise LabkitError(
            f"{len(plan.shapes)} shapes with up to {len(plan.axes)} axes cannot be drawn: "
            f"give 1 to {_MOST_SHAPES} shapes of at most {_MOST_AXES} axes. `labkit.tensors.align` takes any."
        )
    names = [*names, *("first", "second", "third", "fourth")[len(names) :]]
    with course_style():
        panel = sheet(_WIDTH)
        right = _table(panel, plan, names)
        height = MARGIN + (len(plan.shapes) + 2) * (_EDGE + 0.08)
        if _is_small(plan):
            height = max(height, _tensors(panel, plan, names, right + 0.7))
        write(panel, MARGIN, height + 0.1, _summary(plan), 10)
        figure = cut(panel, height + 0.1 + 2 * MARGIN)
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
    """Draw each tensor as a grid, stretched boxes hatched, and the result; return how far down it reaches."""
    rows, columns = _as_matrix(plan.result or ())
    grids = [(_as_matrix(shape), name) for shape, name in zip(plan.shapes, names, strict=False)]
    across = sum(max(columns, one[1]) if plan.result is not None else one[1] for one, _ in grids)
    across += (columns if plan.result is not None else 0) + 1.6 * len(grids)
    edge = min(0.36, (_WIDTH - left - MARGIN) / max(1, across))
    x, bottom = left, 0.0
    for place, ((own_rows, own_columns), name) in enumerate(grids):
        down, wide = (rows, columns) if plan.result is not None else (own_rows, own_columns)
        if place:
            write(panel, x - 0.8 * edge, _row_y(0) + down * edge / 2, "and", 9, color=QUIET, ha="center")
        bottom = max(bottom, _grid(panel, x, edge, (down, wide), (own_rows, own_columns), name, "plain"))
        x += (wide + 1.6) * edge
    if plan.result is not None:
        write(panel, x - 0.8 * edge, _row_y(0) + rows * edge / 2, "→", 11, color=SERIES[1].color, ha="center")
        bottom = max(bottom, _grid(panel, x, edge, (rows, columns), (rows, columns), "result", "filled"))
    return bottom + 0.15


def _grid(panel: Axes, x: float, edge: float, shown: tuple, own: tuple, name: str, kind: str) -> float:
    write(panel, x, MARGIN + 0.1, f"{name}", 8.5, color=QUIET)
    for row in range(shown[0]):
        for column in range(shown[1]):
            is_there = row < own[0] and column < own[1]
            box(panel, x + column * edge, _row_y(0) + row * edge, edge, "", kind if is_there else "copied")
    return _row_y(0) + shown[0] * edge


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
    stretched = [str(shape) for shape, is_stretched in zip(plan.shapes, plan.stretched, strict=True) if is_stretched]
    how = f"stretched: {' and '.join(stretched)}" if stretched else "nothing is stretched"
    return f"{listed} give {plan.result}; {how}."
