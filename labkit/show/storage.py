"""The storage strip: the one row of boxes that a tensor stands on, and from which box each element is read."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch
from torch import Tensor

from labkit.errors import LabkitError
from labkit.show.boxes import MARGIN, box, cut, fit, sheet, write
from labkit.show.picture import Picture
from labkit.show.style import QUIET, SERIES, course_style
from labkit.tensors import element_places, reading_steps, shares_storage, whole_storage
from labkit.tensors.description import count, strides_in_words
from labkit.tensors.places import storage_of

_WIDTH = 9.0  # inches, as all that follow
_ROW_NAMES = 0.6
_GAP = 0.45  # between a tensor and the strip beside, above or below it
_LINE = 0.3  # height of a line of text
_MOST_ACROSS = 28  # columns of the tensor and boxes of the storage, which stand side by side
_MOST_ROWS = 12


@dataclass(frozen=True)
class _View:
    """A tensor to be drawn, row by row. A tensor with more than two axes has its matrices one below the other."""

    name: str
    tensor: Tensor
    boxes: list[str]  # the value in each box of the storage
    values: list[list[str]]  # of each element
    places: list[list[int]]  # the box of each element

    def top(self, row: int, edge: float) -> float:
        """Return how far below the first row this one begins; the matrices of a stack stand a little apart."""
        matrices = row // max(1, self.tensor.shape[-2]) if self.tensor.dim() > 2 else 0
        return row * edge + 0.15 * matrices

    def height(self, edge: float) -> float:
        return self.top(max(0, len(self.places) - 1), edge) + edge


def storage_strip(tensor: Tensor, base: Tensor | None = None, *, name: str = "x", base_name: str = "base") -> Picture:
    """Draw the storage of a tensor as a strip of boxes and, beside the tensor, each row spread out over its boxes.

    base: the tensor from which it was taken. It is drawn above the strip if both stand on the same one, and on a
    strip of its own if something was copied. Boxes that the tensor does not read are grey.
    Raises LabkitError for a tensor without a storage, and for one that is too large to draw.
    """
    view, above = _view(name, tensor), None if base is None else _view(base_name, base)
    views = [view] if above is None else [above, view]
    one_strip = above is None or (storage_of(tensor) is storage_of(base) and tensor.itemsize == base.itemsize)
    with course_style():
        panel = sheet(_WIDTH)
        drawing = _Drawing(panel, views)
        y = MARGIN
        if above is not None:
            drawing.title(above, y)
            write(panel, drawing.strip_x, y + _LINE / 2, _strides(above.tensor), 9.5)
            strip_y = y + _LINE + above.height(drawing.edge) + _GAP
            drawing.rows(above, y + _LINE, strip_y - 0.2)
            y = strip_y - 0.2
        if above is not None and not one_strip:
            drawing.strip(above, y, f"storage of {base_name}")
            y += drawing.edge + _GAP
        drawing.strip(view, y, _caption(view, above, one_strip))
        y += 0.2 + drawing.edge
        drawing.title(view, y + 0.05)
        drawing.rows(view, y + 0.05 + _LINE, y)
        y += 0.05 + _LINE + view.height(drawing.edge)
        for line in _in_words(tensor).split("; "):
            y += 0.8 * _LINE
            write(panel, MARGIN, y, line, 9.5)
        figure = cut(panel, y + _LINE / 2 + MARGIN)
    return Picture(figure, [row for one in views for row in _data(one)], _summary(view, above))


class _Drawing:
    """The panel, and what all its parts agree on: the edge of a box, and where strips begin at the left."""

    def __init__(self, panel: Axes, views: list[_View]) -> None:
        columns = max(_columns(view.tensor) for view in views)
        boxes = max(len(view.boxes) for view in views)
        self.panel = panel
        self.edge = min(0.5, (_WIDTH - 2 * MARGIN - _ROW_NAMES - _GAP) / max(1, columns + boxes))
        self.grid_x = MARGIN + _ROW_NAMES
        self.strip_x = self.grid_x + columns * self.edge + _GAP

    def middle(self, place: int) -> float:
        return self.strip_x + (place + 0.5) * self.edge

    def title(self, view: _View, y: float) -> None:
        text = f"{view.name}, shape {tuple(view.tensor.shape)}"
        write(self.panel, MARGIN, y + _LINE / 2, text, 11, fontweight="bold", bbox=_BACKING, zorder=4)

    def strip(self, view: _View, y: float, caption: str) -> None:
        """Draw a storage: the index of each box, and below it the box. Those that the tensor does not read are grey."""
        read = {place for line in view.places for place in line}
        for place, text in enumerate(view.boxes):
            write(self.panel, self.middle(place), y + 0.1, str(place), 7.5, color=QUIET, ha="center")
            left = self.strip_x + place * self.edge
            box(self.panel, left, y + 0.2, self.edge, text, "plain" if place in read else "unused")
        room = self.strip_x - 0.15 - MARGIN
        points = min(9, 110 * room / max(map(len, caption.splitlines())))  # a long name in smaller letters
        write(self.panel, self.strip_x - 0.15, y + 0.2 + self.edge / 2, caption, points, color=QUIET, ha="right")

    def rows(self, view: _View, y: float, strip_y: float) -> None:
        """Draw the tensor as a grid and, beside it, each row spread out, with guides to the boxes at `strip_y`."""
        middles = [y + view.top(row, self.edge) + self.edge / 2 for row in range(len(view.places))]
        if not middles:
            write(self.panel, MARGIN, y + self.edge / 2, "It has no elements.", 9.5, color=QUIET)
        rows = zip(_row_names(view.tensor), view.values, view.places, middles, strict=True)
        for name, values, places, middle in rows:
            write(self.panel, self.grid_x - 0.1, middle, name, 8.5, color=QUIET, ha="right")
            for column, text in enumerate(values):
                box(self.panel, self.grid_x + column * self.edge, middle - self.edge / 2, self.edge, text, "filled")
            self.spread_out(values, places, middle, strip_y)
        self.steps(view, middles)

    def spread_out(self, values: list[str], places: list[int], y: float, strip_y: float) -> None:
        """Draw the elements of one row over their boxes; for a box that is read several times say how often."""
        radius = _RADIUS * self.edge
        line = [self.middle(place) for place in places]
        self.panel.plot(line, [y] * len(line), color=SERIES[0].color, linewidth=1.6, zorder=1.5)
        for place, text in dict(zip(places, values, strict=True)).items():
            x, times = self.middle(place), places.count(place)
            self.panel.plot([x, x], [strip_y, y], color=QUIET, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
            self.panel.add_patch(Circle((x, y), radius, facecolor=SERIES[0].color, edgecolor="white", zorder=2))
            points = fit(f"{text} ", 0.8 * self.edge)  # a circle has room for a letter less than a box
            write(self.panel, x, y, text, points, color="white", ha="center", zorder=3)
            if times > 1:
                write(self.panel, x + 0.75 * radius, y - radius, f"read {times} times", 8.5, bbox=_BACKING, zorder=3)

    def steps(self, view: _View, middles: list[float]) -> None:
        """Write the step inside the first row, and draw the way from the end of each row to the next."""
        if middles and len(set(view.places[0])) > 1:
            first, second = view.places[0][:2]
            x = (self.middle(first) + self.middle(second)) / 2
            write(self.panel, x, middles[0] - 0.42 * self.edge, _signed(second - first), 8.5, ha="center")
        ends = [(places[-1], following[0]) for places, following in pairwise(view.places)]
        for (here, there), (y, next_y) in zip(ends, pairwise(middles), strict=True):
            start, end = (self.middle(here), y), (self.middle(there), next_y)
            points = 72 * _RADIUS * self.edge
            self.panel.add_patch(FancyArrowPatch(start, end, shrinkA=points, shrinkB=points, **_WAY_ON))
        if ends:
            here, there = ends[0]
            # The step is written on its way, or beside it where the way is no longer than the words.
            aside = 0.3 * self.edge if 0 <= there - here <= 1 else 0.0
            x, y = (self.middle(here) + self.middle(there)) / 2 + aside, (middles[0] + middles[1]) / 2 - aside / 2
            write(self.panel, x, y, _signed(there - here), 8.5, ha="center", bbox=_BACKING)


_RADIUS = 0.36  # of an element beside the strip, as a share of a box
_BACKING = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
_WAY_ON = {"arrowstyle": "->", "mutation_scale": 9, "linestyle": (0, (4, 2)), "color": SERIES[1].color}


def _view(name: str, tensor: Tensor) -> _View:
    storage, columns = whole_storage(tensor), _columns(tensor)
    rows = tensor.numel() // columns if columns else 0
    if columns + len(storage) > _MOST_ACROSS or rows > _MOST_ROWS:
        raise LabkitError(
            f"A tensor of shape {tuple(tensor.shape)} on {count(len(storage), 'box')} is too large to draw: "
            f"at most {_MOST_ROWS} rows, and {_MOST_ACROSS} columns and boxes together. "
            "Take a small example: torch.arange(12).view(3, 4)."
        )
    values, places = (
        [line[at : at + columns] for at in range(0, len(line), columns or 1)]
        for line in (_texts(tensor), element_places(tensor).flatten().tolist())
    )
    return _View(name, tensor, _texts(storage), values, places)


def _caption(view: _View, above: _View | None, one_strip: bool) -> str:
    """Say whose storage is drawn; the same bytes read as another dtype are boxes of another size."""
    if above is None:
        return f"storage of {view.name}"
    if one_strip:
        return f"storage of {above.name}\nand {view.name}"
    if shares_storage(view.tensor, above.tensor):
        return f"the same memory, read as {str(view.tensor.dtype).removeprefix('torch.')}"
    return f"storage of {view.name}"


def _columns(tensor: Tensor) -> int:
    return tensor.shape[-1] if tensor.dim() else 1


def _row_names(tensor: Tensor) -> list[str]:
    if tensor.dim() < 2:
        return [""] * min(1, tensor.numel())
    indices = torch.ones(tensor.shape[:-1], device="cpu").nonzero().tolist() if tensor.numel() else []
    return [f"row {index[0]}" if tensor.dim() == 2 else str(index) for index in indices]


def _texts(tensor: Tensor) -> list[str]:
    """Return the elements in reading order as short texts; empty ones where there are no values (meta, fake)."""
    if storage_of(tensor).device.type == "meta":
        return [""] * tensor.numel()
    return [_text(value) for value in tensor.detach().flatten().tolist()]


def _text(value: bool | int | float | complex) -> str:
    if isinstance(value, complex):
        return f"{value.real:.2g}{value.imag:+.2g}j"
    return f"{value:.2g}" if isinstance(value, float) else str(value)


def _signed(step: int) -> str:
    return f"{step:+d}" if step else "0"


def _strides(tensor: Tensor) -> str:
    return ", ".join(strides_in_words(tensor.shape, tensor.stride())) if tensor.numel() else ""


def _in_words(tensor: Tensor) -> str:
    """Return the strides, and whether all elements can be read with one step."""
    words, steps = _strides(tensor), reading_steps(tensor)
    if tensor.dim() < 2 or not steps:
        return words
    if len(steps) == 1:
        return f"{words}; row after row every step is {_signed(steps[0])}, so view(-1) works"
    different = " and ".join(map(_signed, steps))
    return f"{words}; row after row the steps are {different}, and one axis has one step: view(-1) fails"


def _data(view: _View) -> list[dict[str, object]]:
    """Return a row for each element: of which tensor, its place in reading order, its value, its box."""
    pairs = [pair for line in zip(view.values, view.places, strict=True) for pair in zip(*line, strict=True)]
    return [
        {"tensor": view.name, "element": element, "value": value, "box": place}
        for element, (value, place) in enumerate(pairs)
    ]


def _summary(view: _View, above: _View | None) -> str:
    read = {place for line in view.places for place in line}
    text = f"{view.name} of shape {tuple(view.tensor.shape)} reads {len(read)} of {count(len(view.boxes), 'box')}"
    if words := _in_words(view.tensor):
        text += f": {words}"
    if above is None:
        return f"{text}."
    shares = shares_storage(view.tensor, above.tensor)
    return f"{text}. It {'shares the storage of' if shares else 'has a storage of its own, not that of'} {above.name}."
