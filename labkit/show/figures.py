"""Figures of numbers: learning curves, comparisons, schedules, gradients, the confusion matrix.

Each function is pure: plain numbers in, a `Picture` out.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from labkit.errors import DataError
from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style, line_style, new_figure

_WRITE_COUNTS_UP_TO = 20  # classes; in a larger matrix the numbers would run into each other


def curves(history: Sequence[Mapping[str, Any]]) -> Picture:
    """Draw loss and accuracy of training and validation by epoch, with the learning rate small underneath.

    history: the rows of `Run.history`; without validation only training is drawn. The best epoch is the one
    with the lowest validation loss. Raises DataError when the history has no row.
    """
    if not history:
        raise DataError("There is no epoch to draw: the history is empty. Train for at least one epoch first.")
    epochs = [row["epoch"] for row in history]
    with course_style():
        figure = new_figure(9.5, 4.4)
        panels = figure.subplot_mosaic([["loss", "accuracy"], ["rate", "rate"]], height_ratios=[4, 1])
        for name in ("loss", "accuracy"):
            _two_lines(panels[name], name, history, epochs)
        panels["accuracy"].yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
        rate = panels["rate"]
        rate.plot(epochs, [row["learning_rate"] for row in history], color=QUIET, marker=".")
        rate.set(xlabel="epoch", ylabel="learning\nrate", ylim=(0, None))
        rate.yaxis.label.set_size(8)
        rate.tick_params(labelsize=8)
        for panel in panels.values():
            panel.set_xlim(epochs[0] - 0.5, epochs[-1] + 0.5)
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    return Picture(figure, [dict(row) for row in history], _curves_summary(history))


def _two_lines(panel: Axes, name: str, history: Sequence[Mapping], epochs: list[int]) -> None:
    """Draw one quantity in training and, if there is one, in validation, and mark the best epoch."""
    label = {"loss": "training", "accuracy": "training (running)"}[name]
    panel.plot(epochs, [row[f"train_{name}"] for row in history], **line_style(0, len(epochs)), label=label)
    panel.set(title=name.capitalize(), xlabel="epoch")
    best = _best_epoch(history)
    if best is not None:
        values = [row[f"val_{name}"] for row in history]
        panel.plot(epochs, values, **line_style(1, len(epochs)), label="validation")
        panel.axvline(best["epoch"], color=QUIET, linewidth=1, linestyle=(0, (2, 3)))
        star = {"marker": "*", "markersize": 13, "color": SERIES[1].color, "markeredgecolor": INK}
        name_of_star = f"best epoch: {best['epoch']}"
        panel.plot([best["epoch"]], [best[f"val_{name}"]], linestyle="none", label=name_of_star, **star)
    panel.legend()


def _best_epoch(history: Sequence[Mapping]) -> Mapping | None:
    """Return the row with the lowest finite validation loss, or None without validation."""
    measured = [row for row in history if row["val_loss"] is not None and math.isfinite(row["val_loss"])]
    return min(measured, key=lambda row: row["val_loss"], default=None)


def _curves_summary(history: Sequence[Mapping]) -> str:
    last, best = history[-1], _best_epoch(history)
    summary = (
        f"After {len(history)} {'epoch' if len(history) == 1 else 'epochs'} the training loss is "
        f"{last['train_loss']:.3f}"
    )
    if best is None:
        return f"{summary}; there is no validation."
    return (
        f"{summary} and the validation loss {last['val_loss']:.3f}; the best epoch is {best['epoch']}, "
        f"with validation loss {best['val_loss']:.3f} and accuracy {100 * best['val_accuracy']:.1f} %."
    )


def comparison(
    lines: Mapping[str, Sequence[float]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x: Sequence[float] | None = None,
    references: Mapping[str, float] | None = None,
    log_x: bool = False,
    log_y: bool = False,
) -> Picture:
    """Draw several named lines over the same axis, for instance the loss with and without one line of code.

    lines: name -> values, all of one length. x: the shared positions (1, 2, 3, … if not given).
    references: name -> a constant to compare with, drawn as a thin level line.
    Raises DataError when there is no line or their lengths differ.
    """
    lengths = {len(values) for values in lines.values()}
    if len(lengths) != 1 or lengths == {0}:
        found = ", ".join(f"{name}: {len(values)}" for name, values in lines.items()) or "no line"
        raise DataError(f"Lines can be compared when they have equally many points; here: {found}.")
    positions = list(x) if x is not None else list(range(1, lengths.pop() + 1))
    with course_style():
        figure = new_figure(7.5, 3.9)
        panel = figure.subplots()
        for place, (name, values) in enumerate(lines.items()):
            panel.plot(positions, values, **line_style(place, len(positions)), label=name)
        for name, value in (references or {}).items():
            panel.axhline(value, color=QUIET, linewidth=1.2, linestyle=(0, (5, 3)), label=f"{name} ({value:.3g})")
        panel.set(title=title, xlabel=x_label, ylabel=y_label)
        if log_x:
            panel.set_xscale("log")
        if log_y:
            panel.set_yscale("log")
        if all(isinstance(position, int) for position in positions):
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside lower center", ncols=3)  # beside the lines, wherever they run
    data = [
        {"line": name, "x": position, "y": float(value)}
        for name, values in lines.items()
        for position, value in zip(positions, values, strict=True)
    ]
    ends = "; ".join(f"{name}: {_number(values[-1])}" for name, values in lines.items())
    return Picture(figure, data, f"{title}. {y_label} at {x_label} {_number(positions[-1])}: {ends}.")


def rates(schedules: Mapping[str, Sequence[float]]) -> Picture:
    """Draw the learning rate of each update for one or more named schedules."""
    picture = comparison(schedules, title="Learning rate by update", x_label="update", y_label="learning rate")
    sentences = []
    for name, values in schedules.items():
        top = max(range(len(values)), key=lambda update: values[update])
        sentences.append(
            f"{name} starts at {_number(values[0])}, is highest ({_number(values[top])}) at update {top + 1} "
            f"of {len(values)} and ends at {_number(values[-1])}"
        )
    return Picture(picture.figure, picture.data, "; ".join(sentences) + ".")


def gradient_norms(norms: Mapping[str, float]) -> Picture:
    """Draw the size of the gradient of each parameter, from the first layer (top) to the last.

    norms: parameter name -> Euclidean norm of its gradient; a norm of 0 means that nothing reaches it.
    """
    if not norms:
        raise DataError("There is no gradient to draw: call backward() first, then pass {name: norm}.")
    names, values = list(norms), [float(value) for value in norms.values()]
    with course_style():
        figure = new_figure(7.5, 0.9 + 0.3 * len(names))
        panel = figure.subplots()
        panel.barh(names, values, color=SERIES[2].color, edgecolor=INK, linewidth=0.6)
        for place, value in enumerate(values):
            panel.annotate(_number(value), (value, place), (4, 0), textcoords="offset points", va="center", fontsize=9)
        panel.invert_yaxis()
        panel.margins(x=0.15)
        panel.grid(visible=False, axis="y")
        panel.set(title="Gradient norm of each parameter", xlabel="norm")
    largest, smallest = max(norms, key=norms.get), min(norms, key=norms.get)
    summary = (
        f"Of {len(names)} parameters, {largest} has the largest gradient norm ({_number(norms[largest])}) "
        f"and {smallest} the smallest ({_number(norms[smallest])})."
    )
    data = [{"parameter": name, "norm": value} for name, value in zip(names, values, strict=True)]
    return Picture(figure, data, summary)


def confusion(matrix: torch.Tensor, classes: Sequence[str]) -> Picture:
    """Draw the confusion matrix: a row is a true class, a column what the model said.

    matrix: int64 (K, K) counts. Colour is the share of the row (its square root, so that rare mistakes show).
    Raises DataError when the matrix does not have one row and column a class.
    """
    count = len(classes)
    if tuple(matrix.shape) != (count, count):
        raise DataError(
            f"A confusion matrix of {count} classes has shape ({count}, {count}), this one has "
            f"{tuple(matrix.shape)}. Pass the classes that the predictions were made with."
        )
    shares = (matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)).sqrt()
    with course_style():
        side = 2.0 + 0.3 * min(count, _WRITE_COUNTS_UP_TO)
        figure = new_figure(side + 0.6, side)
        panel = figure.subplots()
        panel.imshow(shares.numpy(), cmap=matplotlib.colormaps["Blues"], vmin=0, vmax=1)
        if count <= _WRITE_COUNTS_UP_TO:
            _write_counts(panel, matrix, shares)
        panel.set_xticks(range(count), classes, rotation=0 if max(map(len, classes)) < 4 else 60)
        panel.set_yticks(range(count), classes)
        panel.grid(visible=False)
        panel.set(title="Confusion matrix", xlabel="predicted", ylabel="true")
    data = [
        {"truth": classes[row], "predicted": classes[column], "count": int(matrix[row, column])}
        for row, column in matrix.nonzero().tolist()
    ]
    return Picture(figure, data, _confusion_summary(matrix, data))


def _write_counts(panel: Axes, matrix: torch.Tensor, shares: torch.Tensor) -> None:
    """Write each count that is not zero into its cell, white on dark and dark on light."""
    for row, column in matrix.nonzero().tolist():
        color = "white" if shares[row, column] > 0.6 else INK
        panel.text(column, row, int(matrix[row, column]), ha="center", va="center", color=color, fontsize=8)


def _confusion_summary(matrix: torch.Tensor, data: list[dict]) -> str:
    """Say how many are right and which mistake is the most frequent."""
    summary = f"{int(matrix.trace())} of {int(matrix.sum())} are right"
    wrong = [cell for cell in data if cell["truth"] != cell["predicted"]]
    if not wrong:
        return f"{summary}."
    worst = max(wrong, key=lambda cell: cell["count"])
    often = "once" if worst["count"] == 1 else f"{worst['count']} times"
    return f"{summary}; the most frequent mistake is {worst['truth']} taken for {worst['predicted']} ({often})."


def _number(value: float) -> str:
    """Write a number with three digits that count."""
    return f"{float(value):.3g}"
