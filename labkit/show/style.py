"""One look for every figure of the course.

A reader may print the page in grey or not tell red from green, so a line is never known by its colour alone:
each series also has its own dash pattern and marker, and the colours are spaced in lightness.
"""

from dataclasses import dataclass

from matplotlib import rc_context
from matplotlib.figure import Figure

INK = "#222222"  # text and axes
QUIET = "#6b6b6b"  # second-rank lines: learning rate, expected values
GRID = "#dddddd"


@dataclass(frozen=True)
class Series:
    """How one line is drawn: three signs, each enough on its own."""

    color: str
    dashes: str
    marker: str


#: Lightness 15, 33, 46 and 60 of 100: all dark enough for white paper, all apart from each other in grey.
SERIES = (
    Series(color="#10284f", dashes="-", marker="o"),
    Series(color="#c1440e", dashes="--", marker="s"),
    Series(color="#2f9bd0", dashes="-.", marker="^"),
    Series(color="#7b2d7f", dashes=":", marker="D"),
)

_SETTINGS = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: nothing is fetched, every machine draws alike
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.edgecolor": "none",  # lines may pass behind a legend, they shall not cross its words
    "legend.framealpha": 0.85,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "figure.dpi": 100,
    "savefig.facecolor": "white",
    "figure.facecolor": "white",
}


def course_style() -> rc_context:
    """Return a context in which matplotlib draws in the course's style; the old settings come back after."""
    return rc_context(_SETTINGS)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure (inches) that pyplot does not know: nothing to close, nothing shown twice."""
    return Figure(figsize=(width, height), layout="constrained")


def line_style(position: int, points: int) -> dict[str, object]:
    """Return the keyword arguments of `Axes.plot` for the series at `position` with `points` points.

    Markers are thinned so that a long line carries about a dozen of them.
    """
    series = SERIES[position % len(SERIES)]
    return {
        "color": series.color,
        "linestyle": series.dashes,
        "marker": series.marker,
        "markevery": max(1, points // 12),
    }


def luminance(color: str) -> float:
    """Return the relative luminance (0 black, 1 white) of a '#rrggbb' colour, as WCAG 2 defines it."""
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
