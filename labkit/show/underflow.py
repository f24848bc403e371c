"""Gradients too small for float16: which become zero, and how a loss scale saves them.

A deep network with sigmoids makes it visible without any training: each sigmoid passes on at most a quarter of the
gradient, so the first layers get numbers that float16 does not have. Its smallest one above zero is 2**-24, about
6e-8; bfloat16 has the range of float32, with fewer digits.
"""

import functools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from torch import Tensor

from labkit import data
from labkit.errors import ConfigError
from labkit.models.init import deep, initialise
from labkit.randomness import frozen_randomness
from labkit.show.controls import Control
from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style, line_style, new_figure

SMALLEST, LARGEST = 2.0**-24, 65504.0  # of float16: the smallest number above zero, and the largest
_PICTURES, _PIXELS, _CLASSES = 256, 64, 10
_POWERS = (-18, 9)  # of ten: the drawn magnitudes


def underflow_picture(loss_scale: int = 1, activation: str = "sigmoid", depth: int = 12) -> Picture:
    """Draw how large the gradients of a deep network on digits are, and which share of them 16 bits lose.

    Left, the magnitudes of all weights' gradients in float32, times the loss scale: this is what float16 has to hold.
    Right, layer by layer, which share is zero or infinite after a real backward pass with 16-bit autocast, with the
    loss scale in float16, and without one in bfloat16. Raises ConfigError for a scale below 1 and as `deep` does.
    """
    if loss_scale < 1:
        raise ConfigError(f"loss_scale={loss_scale} must be at least 1.")
    magnitudes, rows = measured(loss_scale, activation, depth)
    with course_style():
        figure = new_figure(9.5, 4.0)
        histogram, layers = figure.subplots(1, 2, width_ratios=[1.3, 1])
        _draw_magnitudes(histogram, magnitudes * loss_scale, loss_scale)
        _draw_layers(layers, rows, loss_scale)
    return Picture(figure, [dict(row) for row in rows], _summary(rows, loss_scale, activation, depth))


def underflow() -> Control:
    """Return a control over the loss scale, the activation and the number of hidden layers."""
    return Control(
        underflow_picture,
        loss_scale=[2**power for power in range(0, 25, 4)],
        activation=["sigmoid", "tanh", "relu"],
        depth=[12, 4, 8, 16],
    )


@functools.lru_cache
def measured(loss_scale: int, activation: str, depth: int) -> tuple[Tensor, list[dict]]:
    """Return the magnitudes that are not zero in float32, and for each layer what 16 bits make of its gradient.

    The rows hold shares of those gradients that float32 has: zero in float16, not finite in float16, zero in bfloat16.
    """
    with frozen_randomness():  # layers draw their first weights from the global generator
        model = nn.Sequential(deep(depth, _PIXELS, activation), nn.Linear(_PIXELS, _CLASSES))
    initialise(model, "xavier")
    exact = _gradients(model, None, 1)
    halves, brains = _gradients(model, torch.float16, loss_scale), _gradients(model, torch.bfloat16, 1)
    rows = []
    for layer, (gradient, half, brain) in enumerate(zip(exact, halves, brains, strict=True), start=1):
        there = gradient != 0
        count = max(int(there.sum()), 1)
        rows.append(
            {
                "layer": layer,
                "gradients": int(there.sum()),
                "zero in float16": int((half[there] == 0).sum()) / count,
                "not finite in float16": int((~half[there].isfinite()).sum()) / count,
                "zero in bfloat16": int((brain[there] == 0).sum()) / count,
            }
        )
    everything = torch.cat([gradient.flatten() for gradient in exact])
    return everything[everything != 0].abs().double(), rows


def _gradients(model: nn.Module, precision: torch.dtype | None, loss_scale: int) -> list[Tensor]:
    """Return the gradient of each weight matrix, times the loss scale, from one backward pass."""
    inputs, targets = _batch()
    weights = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    with torch.autocast("cpu", dtype=precision, enabled=precision is not None):
        loss = F.cross_entropy(model(inputs), targets)
    return list(torch.autograd.grad(loss * loss_scale, weights))


@functools.lru_cache
def _batch() -> tuple[Tensor, Tensor]:
    inputs, targets = next(iter(data.loader(data.digits(), batch_size=_PICTURES)))
    return inputs.flatten(1), targets


def _draw_magnitudes(panel: Axes, scaled: Tensor, loss_scale: int) -> None:
    """Draw the histogram over powers of ten; what float16 turns to zero or infinity is hatched."""
    low, high = _POWERS
    bins = 3 * (high - low)
    counts = torch.histc(scaled.log10().clamp(low + 1e-9, high - 1e-9), bins=bins, min=low, max=high) / len(scaled)
    edges = [low + place / 3 for place in range(bins)]
    kept = [math.log10(SMALLEST / 2) <= edge + 1 / 6 <= math.log10(LARGEST) for edge in edges]
    for is_kept, style in ((True, {"color": SERIES[0].color}), (False, {"color": "white", "hatch": "/////"})):
        chosen = [place for place in range(bins) if kept[place] == is_kept]
        edge = {"edgecolor": "white" if is_kept else SERIES[1].color, "linewidth": 0.6}
        heights = [float(counts[place]) for place in chosen]
        label = "float16 keeps it" if is_kept else "float16 loses it"
        panel.bar([edges[place] for place in chosen], heights, width=1 / 3, align="edge", label=label, **style, **edge)
    for value, words, side, shift in (
        (SMALLEST, "smallest:\n6e-08", "left", 4),
        (LARGEST, "largest:\n65,504", "right", -4),
    ):
        place = math.log10(value)
        panel.axvline(place, color=INK, linewidth=1.2, linestyle=(0, (5, 3)))
        where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": side, "va": "top"}
        panel.annotate(words, (place, 0.98), (shift, 0), fontsize=8.5, **where)
    panel.set_xticks(range(low, high + 1, 3), [f"$10^{{{power}}}$" for power in range(low, high + 1, 3)])
    panel.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %", decimals=0))
    panel.set(xlim=_POWERS, ylim=(0, 1.55 * float(counts.max())), xlabel="magnitude of a gradient × loss scale")
    panel.set_title(f"Gradients with loss scale {_scale(loss_scale)}")
    panel.legend(loc="upper left", fontsize=8.5)


def _draw_layers(panel: Axes, rows: list[dict], loss_scale: int) -> None:
    """Draw the measured shares over the layers, from the first to the last."""
    layers = [row["layer"] for row in rows]
    labels = {
        "zero in float16": f"zero in float16, scale {_scale(loss_scale)}",
        "zero in bfloat16": "zero in bfloat16, no scale",
        "not finite in float16": f"infinite or NaN in float16, scale {_scale(loss_scale)}",
    }
    for position, (name, label) in enumerate(labels.items()):
        shares = [row[name] for row in rows]
        if any(shares) or position < 2:
            panel.plot(layers, shares, **line_style(position, len(layers)), label=label)
    panel.axhline(0, color=QUIET, linewidth=0.8)
    panel.set(title="Lost, as measured", xlabel="layer", ylim=(-0.03, 1.35))
    panel.set_yticks([0, 0.25, 0.5, 0.75, 1])
    panel.yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.legend(loc="upper right", fontsize=8.5)


def _scale(loss_scale: int) -> str:
    power = math.log2(loss_scale)
    return f"$2^{{{power:.0f}}}$" if power == int(power) and power > 0 else str(loss_scale)


def _summary(rows: list[dict], loss_scale: int, activation: str, depth: int) -> str:
    total = sum(row["gradients"] for row in rows)
    half, broken, brain = (
        sum(row[name] * row["gradients"] for row in rows) / max(total, 1)
        for name in ("zero in float16", "not finite in float16", "zero in bfloat16")
    )
    infinite = f"; {broken:.1%} are infinite or NaN, so the update would be skipped" if broken else ""
    return (
        f"{depth} hidden layers with {activation}, loss scale {loss_scale}: of {total:,} gradients {half:.1%} become "
        f"zero in float16{infinite}; in bfloat16, without a scale, {brain:.1%}."
    )
