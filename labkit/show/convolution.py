"""A window that slides over a picture: which cells it sees, and which output cell that makes."""

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from labkit.errors import ConfigError
from labkit.models.arithmetic import Window
from labkit.show.boxes import MARGIN, box, cut, sheet, write
from labkit.show.controls import Control
from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style

_WIDTH = 7.5  # inches
_GAP = 1.0  # between the two grids
_LARGEST_BOX = 0.44


def convolution(
    size: int = 6, kernel_size: int = 3, stride: int = 1, padding: int = 0, dilation: int = 1, cell: int = 1
) -> Picture:
    """Draw a square picture with the window on it, and the output with the cell that the window makes.

    Cells of the padding are hatched, the cells that are multiplied are filled. cell: which output cell, counted from 1
    along the rows; after the last one it goes round again. Raises ConfigError for settings that mean nothing.
    """
    if size < 1 or cell < 1:
        raise ConfigError(f"size={size} and cell={cell} must be at least 1.")
    window = Window(kernel_size, stride, padding, dilation)
    side = window.output_size(size) if window.fits(size) else 0
    row, column = divmod((cell - 1) % side**2, side) if side else (0, 0)
    seen = {(i, j) for i in window.touched(row) for j in window.touched(column)}
    reach = max(size + padding, window.span - padding)  # a window that does not fit hangs over
    with course_style():
        panel = sheet(_WIDTH)
        unit = min(_LARGEST_BOX, (_WIDTH - 2 * MARGIN - _GAP - 0.6) / (reach + padding + max(side, 1)))
        top = MARGIN + 0.45
        left = MARGIN + padding * unit
        _input(panel, left, top + padding * unit, unit, size, window, seen)
        _outline(panel, left, top + padding * unit, unit, window, row, column, is_wrong=side == 0)
        right = left + reach * unit + _GAP
        middle = top + (reach + padding) * unit / 2
        above = middle - side * unit / 2  # the output stands beside the middle of the input
        write(panel, MARGIN, MARGIN + 0.15, f"input {size}×{size}" + _padded(window, size), 10)
        write(panel, right, above - 0.3, f"output {side}×{side}" if side else "no output", 10)
        for i in range(side):
            for j in range(side):
                kind = "filled" if (i, j) == (row, column) else "plain"
                box(panel, right + j * unit, above + i * unit, unit, kind=kind)
        if side:
            arrow = {"arrowstyle": "-|>", "color": INK, "mutation_scale": 14}
            panel.add_patch(FancyArrowPatch((right - 0.8, middle), (right - 0.2, middle), **arrow))
        height = top + (reach + padding) * unit + 0.3
        write(panel, MARGIN, height, window.formula(size), 10, color=QUIET)
        figure = cut(panel, height + 0.25)
    data = [{"row": i, "column": j, "in": "padding" if _is_padding(i, j, size) else "picture"} for i, j in sorted(seen)]
    return Picture(figure, data, _summary(size, window, side, row, column))


def convolution_control() -> Control:
    """Return a control over the settings of a convolution and over the place of its window."""
    return Control(
        convolution,
        size=[6, 5, 7, 8, 9],
        kernel_size=[3, 1, 2, 4, 5],
        stride=[1, 2, 3],
        padding=[0, 1, 2],
        dilation=[1, 2],
        cell=range(1, 65),
    )


def _input(
    panel: Axes, left: float, top: float, unit: float, size: int, window: Window, seen: set[tuple[int, int]]
) -> None:
    """Draw the picture and its padding; in the picture, what the window multiplies is filled."""
    around = range(-window.padding, size + window.padding)
    for i in around:
        for j in around:
            is_padding = _is_padding(i, j, size)
            kind = "copied" if is_padding else "filled" if (i, j) in seen else "plain"
            text = "0" if is_padding and (i, j) not in seen else ""
            box(panel, left + j * unit, top + i * unit, unit, text, kind)


def _outline(
    panel: Axes, left: float, top: float, unit: float, window: Window, row: int, column: int, is_wrong: bool
) -> None:
    """Draw a frame around all that the window spans, and a dot in every cell that it multiplies."""
    rows, columns = window.touched(row), window.touched(column)
    corner = (left + columns[0] * unit, top + rows[0] * unit)
    style = {"edgecolor": SERIES[1].color, "linewidth": 3, "facecolor": "none", "zorder": 4}
    span = window.span * unit
    panel.add_patch(Rectangle(corner, span, span, linestyle="--" if is_wrong else "-", **style))
    for i in rows:
        for j in columns:
            spot = (left + (j + 0.5) * unit, top + (i + 0.5) * unit)
            panel.plot(*spot, marker="o", markersize=5, color=SERIES[1].color, markeredgecolor="white", zorder=5)


def _is_padding(row: int, column: int, size: int) -> bool:
    return not (0 <= row < size and 0 <= column < size)


def _padded(window: Window, size: int) -> str:
    padded = size + 2 * window.padding
    return f", with padding {padded}×{padded}" if window.padding else ""


def _summary(size: int, window: Window, side: int, row: int, column: int) -> str:
    settings = f"stride {window.stride}, padding {window.padding}, dilation {window.dilation}"
    kernel = f"A kernel of {window.kernel_size}×{window.kernel_size} ({settings}) on {size}×{size}"
    if not side:
        return f"{kernel} finds no place: it spans {window.span}, and there are {size + 2 * window.padding} cells."
    seen = [window.touched(row), window.touched(column)]
    rows, columns = (", ".join(str(one) for one in cells) for cells in seen)
    outside = sum(_is_padding(i, j, size) for i in seen[0] for j in seen[1])
    padding = f"; {outside} of these {window.kernel_size**2} cells are padding" if outside else ""
    return (
        f"{kernel} gives {side}×{side}; output cell ({row}, {column}) sees the rows {rows} and the columns {columns}"
        f"{padding}."
    )
