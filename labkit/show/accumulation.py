"""A large batch in small pieces: what one picture counts in the gradient, and how far off the gradient is.

A micro-batch's loss is the mean over its pictures. Dividing each by k, the number of micro-batches, makes every
*batch* count alike, so a picture in a small batch counts more than one in a large batch. Weighting each by its share
of the pictures makes every *picture* count alike: the gradient of the large batch.
"""

import copy
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F
from matplotlib.axes import Axes
from torch import Tensor

from labkit import data, models
from labkit.errors import ConfigError
from labkit.measuring import Batch
from labkit.show.controls import Control
from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style, new_figure
from labkit.training import update

PICTURES = 64  # of the large batch
ROUNDING = 1e-6  # a relative difference below this is what float32 leaves when numbers are added in another order
_WAYS = {"share": "weighted by the share of pictures", "loss / k": "the usual loss / k"}


def accumulation_picture(batches: int = 4, unevenness: float = 0.5) -> Picture:
    """Draw what each picture counts, and how far the accumulated gradient is from that of the large batch.

    batches: how many micro-batches the 64 pictures are split into. unevenness: 0 makes them equal; the nearer to 1, the
    larger the first is beside the last. All gradients are those of an MLP on digits, in float32.
    Raises ConfigError for numbers outside 1 to 64 and 0 to below 1.
    """
    sizes = micro_batch_sizes(batches, unevenness)
    differences = gradient_differences(tuple(sizes))
    rows = [
        {"batch": number, "pictures": size, "counts with share": 1.0, "counts with loss / k": PICTURES / batches / size}
        for number, size in enumerate(sizes, start=1)
    ]
    with course_style():
        figure = new_figure(9.5, 3.6)
        counts, gradients = figure.subplots(1, 2, width_ratios=[1.5, 1])
        _draw_counts(counts, rows)
        _draw_differences(gradients, differences)
    return Picture(figure, rows, _summary(sizes, differences))


def accumulation() -> Control:
    """Return a control over the number of micro-batches and how uneven they are."""
    return Control(accumulation_picture, batches=[2, 3, 4, 8, 16], unevenness=[0.0, 0.25, 0.5, 0.75, 0.9])


def micro_batch_sizes(batches: int, unevenness: float) -> list[int]:
    """Split the large batch: sizes that fall evenly from the first to the last, each at least 1."""
    if not 1 <= batches <= PICTURES or not 0 <= unevenness < 1:
        raise ConfigError(
            f"batches={batches} must be from 1 to {PICTURES}, and unevenness={unevenness} from 0 to below 1."
        )
    places = torch.linspace(1 + unevenness, 1 - unevenness, batches, dtype=torch.float64)
    ends = (places.cumsum(0) / places.sum() * (PICTURES - batches)).round().long()  # one each, and a share of the rest
    return sorted((1 + ends.diff(prepend=ends.new_zeros(1))).tolist(), reverse=True)


@functools.lru_cache
def gradient_differences(sizes: tuple[int, ...]) -> dict[str, float]:
    """Return, for both ways, the length of the difference to the large batch's gradient, relative to that gradient."""
    inputs, targets = _large_batch()
    window = list(zip(inputs.split(sizes), targets.split(sizes), strict=True))
    model = models.build("mlp", (1, 8, 8), 10)
    whole = _gradient_of_update(model, [(inputs, targets)])
    found = {"share": _gradient_of_update(model, window), "loss / k": _gradient_of_usual_way(model, window)}
    return {way: ((gradient - whole).norm() / whole.norm()).item() for way, gradient in found.items()}


@functools.lru_cache
def _large_batch() -> Batch:
    loader = data.loader(data.digits(), batch_size=PICTURES, shuffle=True)
    return next(iter(loader))


def _gradient_of_update(model: nn.Module, window: list[Batch]) -> Tensor:
    """Return the gradient that `training.update` makes of a window, as one vector."""
    model = copy.deepcopy(model)
    update(model, window, F.cross_entropy, torch.optim.SGD(model.parameters()), torch.amp.GradScaler(enabled=False))
    return nn.utils.parameters_to_vector([parameter.grad for parameter in model.parameters()])


def _gradient_of_usual_way(model: nn.Module, window: list[Batch]) -> Tensor:
    """Return the gradient of the loop that many tutorials show."""
    model = copy.deepcopy(model)
    for inputs, targets in window:
        (F.cross_entropy(model(inputs), targets) / len(window)).backward()
    return nn.utils.parameters_to_vector([parameter.grad for parameter in model.parameters()])


def _draw_counts(panel: Axes, rows: list[dict]) -> None:
    """Draw a bar for each micro-batch: as wide as it has pictures, as high as one of them counts."""
    start = 0
    for row in rows:
        panel.bar(
            start,
            row["counts with loss / k"],
            width=row["pictures"],
            align="edge",
            color=SERIES[2].color,
            edgecolor="white",
            linewidth=1.5,
            label=_WAYS["loss / k"] if start == 0 else None,
        )
        if len(rows) <= 8:
            middle = start + row["pictures"] / 2
            panel.annotate(row["pictures"], (middle, 0), (0, 3), textcoords="offset points", ha="center", fontsize=9)
        start += row["pictures"]
    panel.axhline(1, color=SERIES[1].color, linestyle=SERIES[1].dashes, label=_WAYS["share"])
    panel.grid(visible=False, axis="x")
    panel.set(title="What one picture counts", xlabel=f"the {PICTURES} pictures, batch by batch", xlim=(0, PICTURES))
    panel.set_ylim(0, 1.35 * max(1.0, *(row["counts with loss / k"] for row in rows)))
    panel.legend(loc="upper left")


def _draw_differences(panel: Axes, differences: dict[str, float]) -> None:
    """Draw both relative differences on a logarithmic scale; below the dashed line there is rounding only."""
    lowest = 1e-9
    for place, (way, color) in enumerate({"share": SERIES[1].color, "loss / k": SERIES[2].color}.items()):
        value = differences[way]
        panel.bar(place, max(value, lowest), color=color, edgecolor=INK, linewidth=0.6, width=0.6)
        text = f"{value:.1e}" if value < ROUNDING else f"{value:.0%}"
        panel.annotate(text, (place, max(value, lowest)), (0, 4), textcoords="offset points", ha="center")
    panel.axhline(ROUNDING, color=QUIET, linewidth=1.2, linestyle=(0, (5, 3)))
    panel.annotate("rounding", (-0.45, ROUNDING), (0, 4), textcoords="offset points", color=QUIET)
    panel.set_xticks(range(2), ["by share", "loss / k"])
    panel.grid(visible=False, axis="x")
    panel.set(yscale="log", ylim=(lowest, 30), xlim=(-0.5, 1.5), title="Difference to the large batch")


def _summary(sizes: list[int], differences: dict[str, float]) -> str:
    found = [
        f"{_WAYS[way]}: {value:.1%}" if value > ROUNDING else f"{_WAYS[way]}: only rounding"
        for way, value in differences.items()
    ]
    pieces = ", ".join(map(str, sizes))
    return f"{PICTURES} pictures in micro-batches of {pieces}: how far the gradient is off, {'; '.join(found)}."
