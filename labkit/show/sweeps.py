"""A sweep in one picture: parallel coordinates, a line a run, an axis a parameter, and the result on the last axis."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize

from labkit.errors import DataError
from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, course_style, new_figure

SPREAD = 10.0  # an axis whose largest value is so many times the smallest is drawn in powers of ten


def sweep_lines(rows: Sequence[Mapping], parameters: Sequence[str], result: str) -> Picture:
    """Draw a line for each run from parameter to parameter to its result: dark lines ended high.

    rows: one dict a run; those without a number under `result` are counted in the summary and not drawn. Parameters
    that are the same in all runs have no axis. Raises DataError where fewer than two runs have a result.
    """
    drawn = [row for row in rows if _is_number(row.get(result))]
    if len(drawn) < 2:
        raise DataError(f"{len(drawn)} of {len(rows)} runs have a number for {result!r}: two are needed for a picture.")
    names = [name for name in parameters if len({row[name] for row in drawn}) > 1]
    axes_names = [*names, result]
    heights = np.array([_heights([row[name] for row in drawn]) for name in axes_names]).T  # (runs, axes)
    with course_style():
        figure = new_figure(2.2 + 1.7 * len(axes_names), 4.4)
        panel = figure.subplots()
        scale = Normalize(heights[:, -1].min() - 0.35, heights[:, -1].max())  # the palest line can still be seen
        for line in heights[heights[:, -1].argsort()]:
            panel.plot(range(len(axes_names)), line, color=_shade(scale(line[-1])), linewidth=1.8)
        for place, name in enumerate(axes_names):
            _axis(panel, place, name.replace("$", r"\$"), [row[name] for row in drawn])
        panel.set(xlim=(-0.35, len(axes_names) - 0.35), ylim=(-0.12, 1.12))
        panel.axis("off")
    data = [{"run": row.get("run"), **{name: row[name] for name in axes_names}} for row in drawn]
    return Picture(figure, data, _summary(drawn, len(rows), names, result))


def _shade(share: float) -> tuple[float, float, float]:
    """Return a blue from pale to dark: the order can be seen in grey, too."""
    pale, dark = np.array([0.80, 0.87, 0.94]), np.array([0.03, 0.19, 0.42])
    return tuple(pale + (dark - pale) * float(share))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)


def _heights(values: list) -> np.ndarray:
    """Return where values lie on their axis, from 0 to 1: numbers by size, other things one below another."""
    if not all(_is_number(value) for value in values):
        order = sorted({str(value) for value in values})
        return np.array([order.index(str(value)) / max(len(order) - 1, 1) for value in values])
    numbers = np.log10(values) if _is_wide(values) else np.array(values, dtype=float)
    low, high = numbers.min(), numbers.max()
    return (numbers - low) / (high - low) if high > low else np.full(len(numbers), 0.5)


def _is_wide(values: list) -> bool:
    return min(values) > 0 and max(values) / min(values) >= SPREAD


def _axis(panel: Axes, place: int, name: str, values: list) -> None:
    """Draw an axis with its name above and the values that occur beside it: all where they are few, else the ends."""
    panel.axvline(place, ymin=0.1, ymax=0.9, color=QUIET, linewidth=1)
    panel.text(place, 1.08, name, ha="center", va="bottom", fontweight="bold")
    ticks = dict(zip(map(_text, values), _heights(values), strict=True))
    if len(ticks) > 6:
        ends = sorted(ticks.items(), key=lambda tick: tick[1])
        ticks = dict((ends[0], ends[-1]))
    paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
    for text, height in ticks.items():
        panel.text(place + 0.06, height, text, va="center", fontsize=9, color=INK, bbox=paper, zorder=5)


def _text(value: object) -> str:
    return f"{value:.3g}" if _is_number(value) else str(value).replace("$", r"\$")


def _summary(drawn: list[Mapping], count: int, names: list[str], result: str) -> str:
    best = max(drawn, key=lambda row: row[result])
    settings = ", ".join(f"{name} {_text(best[name])}" for name in names) or "the same settings as all"
    missing = f"; {count - len(drawn)} of {count} runs have none" if len(drawn) < count else ""
    low = min(row[result] for row in drawn)
    return (
        f"The {result} of {len(drawn)} runs lies between {low:.4g} and {best[result]:.4g}, the highest with "
        f"{settings}{missing}."
    )
