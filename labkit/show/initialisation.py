"""What the initial weights do to a signal over many layers: histograms, and deviations forward and back."""

import math

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from labkit.models.init import ACTIVATIONS, INITS, Signal, deep, initialise, signals
from labkit.randomness import generator
from labkit.show.controls import Control
from labkit.show.picture import Picture
from labkit.show.style import QUIET, SERIES, course_style, line_style, new_figure

_WIDTH_OF_LAYERS, _BATCH = 128, 256
_SHOWN = 5  # histograms
_SCALE = (1e-3, 1e3)  # at least: what stays within a factor of two shall look as steady as it is


def initialisation(init: str = "kaiming", activation: str = "relu", depth: int = 20) -> Picture:
    """Draw what becomes of a random batch in `depth` linear layers, and of a random gradient on its way back.

    Above, histograms of what five of the layers give; below, the deviation of every layer's values and of the gradients
    that arrive there, on a logarithmic scale. Raises ConfigError for names that `labkit.models.init` does not know.
    """
    model = initialise(deep(depth, _WIDTH_OF_LAYERS, activation), init)
    passed = signals(model, torch.randn(_BATCH, _WIDTH_OF_LAYERS, generator=generator(0, "a batch")))
    rows = [signal.row() | {"layer": number} for number, signal in enumerate(passed, start=1)]
    shown = sorted({round(1 + step * (depth - 1) / (_SHOWN - 1)) for step in range(_SHOWN)})
    with course_style():
        figure = new_figure(9.5, 5.2)
        above, below = figure.subfigures(2, 1, height_ratios=[1, 1.35])
        for panel, number in zip(above.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
            _histogram(panel, passed[number - 1], number)
        above.suptitle(f"What the layers give: {init}, {activation}", fontsize=11, fontweight="bold", x=0.01, ha="left")
        _deviations(below.subplots(), rows)
    return Picture(figure, rows, _summary(init, activation, rows))


def initialisation_control() -> Control:
    """Return a control over the initialisation, the activation and the number of layers."""
    return Control(initialisation, init=list(INITS), activation=list(ACTIVATIONS), depth=[20, 5, 10, 40])


def _histogram(panel: Axes, signal: Signal, number: int) -> None:
    """Draw the share of values in each of 30 bins; a layer that gives one value has one bar."""
    values = signal.values.flatten()
    low, high = values.min().item(), values.max().item()
    panel.set_title(f"layer {number}", fontsize=9.5)
    panel.yaxis.set_visible(False)
    panel.grid(visible=False)
    panel.spines["left"].set_visible(False)
    if not math.isfinite(low + high):
        panel.text(0.5, 0.5, "not finite", transform=panel.transAxes, ha="center", color=SERIES[1].color)
    elif low == high:
        panel.text(0.5, 0.5, f"all {low:.3g}", transform=panel.transAxes, ha="center", color=SERIES[1].color)
        panel.set_xticks([])
    else:
        counts = torch.histc(values, bins=30, min=low, max=high)
        edges = torch.linspace(low, high, 31).tolist()
        panel.bar(edges[:-1], counts.tolist(), width=(high - low) / 30, align="edge", color=SERIES[0].color)
        panel.set_xticks([low, high], [f"{low:.2g}", f"{high:.2g}"], fontsize=8)


def _deviations(panel: Axes, rows: list[dict]) -> None:
    """Draw both deviations over the layers; where they are 0 or not finite there is no point, and words say so."""
    low, high = _SCALE
    labels = {"deviation": "values, forward", "gradient deviation": "gradients, backward"}
    for position, (name, label) in enumerate(labels.items()):
        drawn = [(row["layer"], row[name]) for row in rows if 0 < row[name] < math.inf]
        if drawn:
            panel.plot(*zip(*drawn, strict=True), **line_style(position, len(rows)), label=label)
            low, high = min(low, *(height for _, height in drawn)), max(high, *(height for _, height in drawn))
        found = [row[name] for row in rows]
        missing = {"0": found.count(0), "not finite": sum(not math.isfinite(one) for one in found)}
        if said := ", ".join(f"{what} in {count} of {len(rows)} layers" for what, count in missing.items() if count):
            style = {"transform": panel.transAxes, "color": SERIES[position].color, "fontweight": "bold"}
            panel.text(0.02, 0.06 + 0.12 * position, f"{label}: {said}", **style)
    panel.axhline(1, color=QUIET, linewidth=0.8)
    panel.set(yscale="log", xlabel="layer", ylabel="deviation", title="How large they are, layer by layer")
    panel.set(xlim=(0.5, len(rows) + 0.5), ylim=(low / 3, high * 3))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _summary(init: str, activation: str, rows: list[dict]) -> str:
    first, last = rows[0], rows[-1]
    return (
        f"{len(rows)} layers with {activation}, initialised by {init}: the deviation of the values goes from "
        f"{first['deviation']:.2g} in the first layer to {last['deviation']:.2g} in the last, that of the gradients on "
        f"its way back from {last['gradient deviation']:.2g} to {first['gradient deviation']:.2g}."
    )
