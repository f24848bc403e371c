"""The graph of a loss as a picture, and a walk through it: forward with values, backward with gradients."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import ipywidgets
import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from labkit.autograd import Graph, Node, Step, steps, trace
from labkit.autograd.steps import Watch
from labkit.autograd.trace import Names
from labkit.errors import LabkitError
from labkit.show.boxes import cut, sheet, write
from labkit.show.controls import Control
from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style

_WIDTH = 9.5  # inches
_MOST_NODES, _MOST_COLUMNS = 30, 12
_BOX_HEIGHT, _ROW, _MARGIN = 0.42, 1.0, 0.2


def graph(loss: torch.Tensor, names: Names = None) -> Picture:
    """Draw the graph behind a loss: leaves filled, operations in frames, left to right as the forward pass went.

    names: a module, or tensors by name. Raises LabkitError for a graph that is too large to draw, with a summary of it.
    """
    recorded = trace(loss, names)
    return _picture(recorded, [], recorded.table().rows, f"A graph of {recorded.summary}")


def graph_steps(walk: Sequence[Step], position: int) -> Picture:
    """Draw a walk through a graph after `position` steps, from 1: what has been computed so far, and the last step.

    walk: what `labkit.autograd.steps` returned.
    """
    _need_walk(walk)
    if not isinstance(position, int) or not 1 <= position <= len(walk):
        raise LabkitError(f"This walk has the steps 1 to {len(walk)}; there is no step {position!r}.")
    nodes = tuple(step.node for step in walk if step.direction == "forward")
    so_far = walk[:position]
    rows = [_row(number, step) for number, step in enumerate(so_far, start=1)]
    operations = dict(Counter(node.operation for node in nodes).most_common())
    return _picture(Graph(nodes, operations), so_far, rows, f"Step {position} of {len(walk)}. {in_words(so_far[-1])}")


def _need_walk(walk: Sequence[Step]) -> None:
    if not isinstance(walk, Sequence) or not walk or not isinstance(walk[0], Step):
        raise LabkitError("A walk is the list that `labkit.autograd.steps(loss)` returns.")


class GraphControl(Control):
    """A walk through a graph with a slider, buttons for one step back and forward, and one that plays."""

    def __init__(self, walk: Sequence[Step]) -> None:
        _need_walk(walk)
        super().__init__(lambda step: graph_steps(walk, step), step=range(1, len(walk) + 1))
        slider = self._sliders["step"]
        self.back = ipywidgets.Button(description="back", icon="step-backward", layout={"width": "6em"})
        self.next = ipywidgets.Button(description="next", icon="step-forward", layout={"width": "6em"})
        self.play = ipywidgets.Play(min=0, max=len(walk) - 1, interval=1500)
        self.back.on_click(lambda _: self._go(-1))
        self.next.on_click(lambda _: self._go(+1))
        ipywidgets.link((self.play, "value"), (slider, "index"))

    def _go(self, by: int) -> None:
        slider = self._sliders["step"]
        slider.index = min(max(slider.index + by, 0), len(slider.options) - 1)

    def _widgets(self) -> list[ipywidgets.Widget]:
        return [ipywidgets.HBox([self.back, self.next, self.play]), *super()._widgets()]


def graph_control(loss: torch.Tensor, names: Names = None, watched: Watch | None = None) -> GraphControl:
    """Return a control that walks through the graph of a loss one operation at a time, forward and then backward."""
    return GraphControl(steps(loss, names, watched))


def in_words(step: Step) -> str:
    """Return what happens in a step as one sentence with its numbers."""
    name = step.node.leaf or step.node.operation
    if step.direction == "forward":
        what = "is" if step.node.leaf else "gives"
        return f"Forward: {name} {what} {number(step.value) if step.value is not None else '(not kept by torch)'}."
    if step.node.leaf:
        return f"Backward: {number(step.upstream[0])} arrives at {name}; its grad is now {number(step.accumulated)}."
    arrives = " and ".join(number(one) for one in step.upstream if one is not None)
    slopes = [one for one in step.local if one is not None]
    slope = f" Its slope is {' and '.join(number(one) for one in slopes)}." if slopes else ""
    on = " and ".join(number(one) for one in step.handed_on if one is not None)
    return f"Backward: {arrives} arrives at {name}.{slope} It hands on {on or 'nothing'}."


def number(tensor: torch.Tensor) -> str:
    """Return one number as it is, and of a larger tensor its shape and length."""
    if tensor.is_meta:
        return f"{tuple(tensor.shape)} without values"
    if tensor.numel() == 1:
        return f"{tensor.item():.3g}"
    return f"{tuple(tensor.shape)} of length {_length(tensor):.3g}"


def _row(place: int, step: Step) -> dict[str, Any]:
    upstream = next((one for one in step.upstream if one is not None), None)
    shown = {"value": step.value, "arrives": upstream, "grad": step.accumulated}
    return {
        "step": place,
        "direction": step.direction,
        "node": step.node.leaf or step.node.operation,
        **{name: "" if tensor is None else number(tensor) for name, tensor in shown.items()},
        "handed on": ", ".join(number(one) for one in step.handed_on if one is not None),
    }


def _picture(recorded: Graph, so_far: Sequence[Step], rows: list[dict], summary: str) -> Picture:
    places = _places(recorded)
    columns, lines = (max(place[axis] for place in places.values()) + 1 for axis in (0, 1))
    with course_style():
        panel = sheet(_WIDTH)
        width = (_WIDTH - 2 * _MARGIN) / columns
        middles = {
            number: (_MARGIN + (column + 0.5) * width, _MARGIN + 0.2 + (line + 0.5) * _ROW)
            for number, (column, line) in places.items()
        }
        box_width = min(1.3, width - 0.3)
        for node in recorded.nodes:
            _arrows(panel, node, middles, box_width, so_far)
        for node in recorded.nodes:
            _box(panel, node, middles[node.number], box_width, so_far)
        height = _MARGIN + 0.2 + lines * _ROW
        if so_far:
            write(panel, _MARGIN, height + 0.2, in_words(so_far[-1]), 10.5)
        figure = cut(panel, height + (0.45 if so_far else 0.1))
    return Picture(figure, rows, summary)


def _places(recorded: Graph) -> dict[int, tuple[int, int]]:
    """Return (column, line) of each node: the column before its first use, the line of a parent where that is free."""
    if not recorded.nodes or len(recorded.nodes) > _MOST_NODES:
        raise LabkitError(f"This graph is too large to draw: {recorded.summary} Its table is `trace(loss).table()`.")
    column: dict[int, int] = {}
    for node in reversed(recorded.nodes):  # users come before what they use
        users = [column[user.number] for user in recorded.nodes if node.number in user.parents]
        column[node.number] = min(users, default=0) - 1
    first = min(column.values())
    column = {number: place - first for number, place in column.items()}
    if max(column.values()) >= _MOST_COLUMNS:
        raise LabkitError(f"This graph is too long to draw: {recorded.summary} Its table is `trace(loss).table()`.")
    lines: dict[int, int] = {}
    for number in sorted(column, key=lambda number: (column[number], bool(recorded.nodes[number].leaf), number)):
        taken = {lines[other] for other in lines if column[other] == column[number]}
        wanted = [lines[parent] for parent in recorded.nodes[number].parents if parent is not None]
        line = min(wanted, default=0)
        while line in taken:
            line += 1
        lines[number] = line
    return {number: (column[number], lines[number]) for number in column}


def _reached(node: Node, so_far: Sequence[Step]) -> dict[str, Step]:
    return {step.direction: step for step in so_far if step.node.number == node.number}


def _box(panel: Axes, node: Node, middle: tuple[float, float], width: float, so_far: Sequence[Step]) -> None:
    """Draw a node: its name, above it the value of the forward pass, below it the gradient that arrived."""
    x, y = middle
    reached = _reached(node, so_far)
    is_active = bool(so_far) and so_far[-1].node.number == node.number
    quiet = bool(so_far) and not reached
    face = SERIES[0].color if node.leaf and not quiet else "white"
    frame = SERIES[1].color if is_active else ("#bbbbbb" if quiet else INK)
    panel.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - _BOX_HEIGHT / 2),
            width,
            _BOX_HEIGHT,
            boxstyle=f"round,pad=0,rounding_size={0.16 if node.leaf else 0.03}",
            facecolor=face,
            edgecolor=frame,
            linewidth=3 if is_active else 1,
            zorder=2,
        )
    )
    color = "white" if face != "white" else (QUIET if quiet else INK)
    name = node.leaf or node.operation
    write(panel, x, y, name, min(10, 110 * width / max(6, len(name))), color=color, ha="center", zorder=3)
    if not so_far:
        write(panel, x, y + 0.34, " ".join(node.results[0].split()[1:]), 8, color=QUIET, ha="center", zorder=3)
    if "forward" in reached and reached["forward"].value is not None:
        write(panel, x, y - 0.33, _short(reached["forward"].value), 8.5, ha="center", zorder=3, bbox=_BACKING)
    if "backward" in reached and reached["backward"].upstream[0] is not None:
        step = reached["backward"]
        text = _short(step.upstream[0]) if step.accumulated is None else _short(step.accumulated)
        style = {"color": SERIES[1].color, "fontstyle": "italic", "fontweight": "bold" if node.leaf else "normal"}
        write(panel, x, y + 0.33, f"grad {text}", 8.5, ha="center", zorder=3, bbox=_BACKING, **style)


def _arrows(
    panel: Axes, node: Node, middles: dict[int, tuple[float, float]], width: float, so_far: Sequence[Step]
) -> None:
    """Draw an arrow from each parent; dashed and turned round where the gradient has come through."""
    x, y = middles[node.number]
    returned = "backward" in _reached(node, so_far)
    for parent in node.parents:
        if parent is None:
            continue
        from_x, from_y = middles[parent]
        ends = [(from_x + width / 2, from_y), (x - width / 2, y)]
        color, line = (SERIES[1].color, (0, (4, 2))) if returned else (QUIET, "-")
        panel.add_patch(
            FancyArrowPatch(
                *(reversed(ends) if returned else ends),
                arrowstyle="-|>",
                mutation_scale=10,
                color=color,
                linestyle=line,
                linewidth=1.2,
                shrinkA=1,
                shrinkB=1,
                zorder=1,
            )
        )


_BACKING = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}


def _short(tensor: torch.Tensor) -> str:
    if tensor.is_meta:
        return "?"
    return f"{tensor.item():.3g}" if tensor.numel() == 1 else f"length {_length(tensor):.2g}"


def _length(tensor: torch.Tensor) -> float:
    return tensor.abs().double().norm().item()  # a complex number counts with its length
