"""The picture of a training in the clinic: loss, score, gradients, movements and activations, side by side."""

import math
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from labkit.doctor.clinic import Observation
from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style, line_style, new_figure

MOST_LAYERS = 4
SMALLEST = 1e-8  # what is drawn for 0 on a logarithmic axis


def clinic_figure(seen: Observation, beside: Observation | None = None) -> Picture:
    """Draw what was seen of a run; of a second one, its loss and score are drawn beside the first's.

    beside: the cured run, say. Layers are drawn from input to output, at most four of them.
    """
    shown = _some(list(seen.activations))
    with course_style():
        figure = new_figure(9.5, 6.4)
        columns = max(len(shown), 1)
        above, below = figure.subfigures(2, 1, height_ratios=[1, 0.8])
        loss, score, gradients, ratios = above.subplots(1, 4)
        _by_epoch(loss, "Loss", "loss", seen, beside)
        _by_epoch(score, seen.score.capitalize(), "score", seen, beside)
        score.axhline(seen.chance, color=QUIET, linewidth=1, linestyle=(0, (2, 3)))
        _by_update(gradients, "Gradient norm", seen.gradients)
        _by_update(ratios, "Update / weight", seen.ratios)
        for panel, layer in zip(below.subplots(1, columns, squeeze=False)[0], shown, strict=False):
            _activations(panel, layer, seen)
        _legends(above, below, score, gradients)
    return Picture(figure, _rows(seen), _summary(seen))


def _by_epoch(panel: Axes, title: str, name: str, seen: Observation, beside: Observation | None) -> None:
    for run, words, quiet in ((seen, "", False), (beside, "cured: ", True)):
        if run is None:
            continue
        epochs = [row["epoch"] for row in run.epochs]
        for place, part in enumerate(("train", "val")):
            look = line_style(place + (2 if quiet else 0), len(epochs))
            label = words + {"train": "training", "val": "validation"}[part]
            panel.plot(epochs, [row[f"{part}_{name}"] for row in run.epochs], label=label, **look)
    values = [row[f"{part}_{name}"] for row in seen.epochs for part in ("train", "val")]
    if not any(map(math.isfinite, values)):
        panel.text(0.5, 0.5, "no number" if seen.epochs else "no epoch", transform=panel.transAxes, ha="center")
    if name == "score":
        panel.set_ylim(min([0.0, *filter(math.isfinite, values)]) - 0.03, 1.03)
    panel.set(title=title, xlabel="epoch")
    panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def _by_update(panel: Axes, title: str, columns: dict[str, list[float | None]]) -> None:
    for place, layer in enumerate(_some(list(columns))):
        values = [SMALLEST if value is None else max(value, SMALLEST) for value in columns[layer]]
        look = line_style(place, len(values)) | {"linewidth": 1.2}
        panel.plot(range(1, len(values) + 1), values, label=layer, **look)
    finite = [value for value in chain(*columns.values()) if value and math.isfinite(value) and value > SMALLEST]
    panel.set(title=title, xlabel="update", yscale="log")
    panel.set_ylim(0.5 * min([*finite, 1e-3]), 2 * max([*finite, 1e-2]))
    if any(not any(value and math.isfinite(value) for value in column) for column in columns.values()):
        panel.set_ylim(bottom=SMALLEST / 2)
        panel.text(0.04, 0.07, "0", transform=panel.transAxes, fontweight="bold")
    panel.xaxis.set_major_locator(MaxNLocator(3, integer=True))


def _activations(panel: Axes, layer: str, seen: Observation) -> None:
    """Draw how the values of a layer are spread before training (filled) and after it (outline)."""
    for number, histogram in enumerate(seen.activations[layer]):
        if histogram is None or not sum(histogram.counts):
            continue
        width = (histogram.high - histogram.low) / len(histogram.counts)
        edges = [histogram.low + width * place for place in range(len(histogram.counts) + 1)]
        shares = [count / sum(histogram.counts) for count in histogram.counts]
        if number == 0:
            panel.stairs(shares, edges, fill=True, color="#cfd6e0", label="before training")
        else:
            panel.stairs(shares, edges, color=SERIES[1].color, linewidth=1.6, label="after training")
    after = seen.activations[layer][1]
    if after is not None and after.finite < 1:
        panel.text(0.5, 0.6, f"{1 - after.finite:.0%} are no numbers", transform=panel.transAxes, ha="center")
    elif after is not None and after.silent:
        panel.text(
            0.97,
            0.9,
            f"{after.silent:.0%} of the units\nare always 0",
            transform=panel.transAxes,
            ha="right",
            va="top",
            fontsize=8,
            color=INK,
        )
    panel.set_title(layer, fontsize=9)
    panel.set(yscale="log", ylim=(1e-4, 1.5))
    panel.xaxis.set_major_locator(MaxNLocator(3))


def _legends(above, below, score: Axes, gradients: Axes) -> None:
    for place, panel in (("upper left", score), ("upper right", gradients)):
        handles, labels = panel.get_legend_handles_labels()
        if handles:
            above.legend(handles, labels, loc=f"outside {place}", ncols=2, fontsize=8)
    handles, labels = below.axes[0].get_legend_handles_labels()
    if handles:
        below.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8)
        below.suptitle("Values that leave a layer (share, logarithmic)", fontsize=10, x=0.01, ha="left")


def _some(layers: list[str]) -> list[str]:
    """Return at most four layers: the first, the last, and some between them."""
    if len(layers) <= MOST_LAYERS:
        return layers
    step = (len(layers) - 1) / (MOST_LAYERS - 1)
    return [layers[round(step * place)] for place in range(MOST_LAYERS)]


def _rows(seen: Observation) -> list[dict]:
    rows = [{"kind": "epoch", **row} for row in seen.epochs]
    for kind, columns in (("gradient", seen.gradients), ("ratio", seen.ratios)):
        rows += [
            {"kind": kind, "layer": layer, "update": update, "value": value}
            for layer, values in columns.items()
            for update, value in enumerate(values, start=1)
        ]
    return rows


def _summary(seen: Observation) -> str:
    who = f"{seen.case}{', cured' if seen.cured else ''}"
    if not seen.epochs:
        return f"{who}: no epoch was finished. {seen.error}".strip()
    last = seen.last
    text = (
        f"{who}: after {last['epoch']} epochs the training loss is {last['train_loss']:.3g} and the {seen.score} "
        f"{last['train_score']:.2f} on training and {last['val_score']:.2f} on validation data."
    )
    return f"{text} It ended with {seen.error}" if seen.error else text
