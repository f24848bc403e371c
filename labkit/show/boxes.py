"""Boxes on a sheet of paper: what the pictures of storage and of broadcasting are made of.

Everything is measured in inches from the upper left corner, so a box is square and a letter as large as it says.
The kinds of boxes differ in frame, filling and hatch: they are told apart in grey too.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from labkit.show.style import INK, QUIET, SERIES

MARGIN = 0.15  # inches around everything

_KINDS = {
    # The frame of a box that is read lies over those of its neighbours.
    "plain": {"facecolor": "white", "edgecolor": INK, "linewidth": 1.0, "zorder": 1.2},
    "filled": {"facecolor": SERIES[0].color, "edgecolor": "white", "linewidth": 1.0},
    "unused": {"facecolor": "#f1f1f1", "edgecolor": "#bbbbbb", "linewidth": 0.8},
    "copied": {"facecolor": "white", "edgecolor": QUIET, "linewidth": 0.8, "linestyle": (0, (3, 2)), "hatch": "////"},
    "wrong": {"facecolor": "white", "edgecolor": SERIES[1].color, "linewidth": 3.0, "zorder": 1.3},
}


def sheet(width: float) -> Axes:
    """Return a panel without axes over all of a new figure; `cut` gives it its height when all is drawn."""
    panel = Figure(figsize=(width, width)).add_axes((0, 0, 1, 1))
    panel.set(xlim=(0, width), ylim=(width, 0))
    panel.set_axis_off()
    return panel


def cut(panel: Axes, height: float) -> Figure:
    """Cut the sheet off at `height` and return its figure."""
    panel.set_ylim(height, 0)
    panel.figure.set_figheight(height)
    return panel.figure


def box(panel: Axes, x: float, y: float, size: float, text: str = "", kind: str = "plain") -> None:
    """Draw a square box with its upper left corner at (x, y), and a short text in it."""
    panel.add_patch(Rectangle((x, y), size, size, hatch_linewidth=0.4, **_KINDS[kind]))
    color = {"filled": "white", "unused": QUIET, "copied": QUIET}.get(kind, INK)
    backing = {"facecolor": "white", "edgecolor": "none", "pad": 1.0} if kind == "copied" else None
    write(panel, x + size / 2, y + size / 2, text, fit(text, size), color=color, ha="center", bbox=backing)


def write(panel: Axes, x: float, y: float, text: str, points: float, **style: object) -> None:
    """Write `text` at (x, y), its middle at that height, in letters of `points`."""
    panel.text(x, y, text, fontsize=points, va="center", **style)


def fit(text: str, size: float) -> float:
    """Return the size of letters, in points, at which a text stands inside a box of `size` inches."""
    return min(32 * size, 98 * size / max(1, len(text)), 11)
