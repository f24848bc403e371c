"""The loss of a model with two weights, drawn as a landscape, and the way that an optimizer takes through it.

The model says how wide the petal of an iris is from how long it is: width = weight · length + bias. The lengths are
taken as they were measured, in cm, so the landscape is a narrow valley: steep across, nearly flat along.
"""

import functools

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from labkit.errors import ConfigError
from labkit.show.controls import Control
from labkit.show.picture import Picture
from labkit.show.style import INK, QUIET, SERIES, course_style, new_figure

START = (-0.9, -1.2)  # weight and bias before the first update
OPTIMIZERS = ("sgd", "nesterov", "adam")
WEIGHTS, BIASES = (-1.4, 1.6), (-1.8, 1.4)  # the part of the landscape that is drawn
_TOO_FAR = 1e6  # a loss above this is as good as infinite; the path ends there
_FAR = 3  # times the first loss: what climbs higher is outside the landscape, and not drawn in it


def loss_surface_picture(
    learning_rate: float = 0.01, momentum: float = 0.0, optimizer: str = "sgd", updates: int = 50
) -> Picture:
    """Draw the way of one of torch's optimizers down the valley, and the loss on the way.

    optimizer: "sgd" (with the momentum), "nesterov" (the same, looking ahead) or "adam" (which has averages of its own
    and leaves the momentum alone). Every update uses all flowers. Raises ConfigError for settings that mean nothing.
    """
    rows, settings = path(learning_rate, momentum, optimizer, updates), _settings(learning_rate, momentum, optimizer)
    with course_style():
        figure = new_figure(9.5, 4.2)
        landscape, losses = figure.subplots(1, 2, width_ratios=[1.25, 1])
        _draw_landscape(landscape, rows, settings)
        _draw_losses(losses, rows)
    return Picture(figure, rows, _summary(rows, settings, updates))


def loss_surface() -> Control:
    """Return a control over optimizer, learning rate, momentum and number of updates."""
    return Control(
        loss_surface_picture,
        optimizer=OPTIMIZERS,
        learning_rate=[0.003, 0.01, 0.03, 0.05, 0.054, 0.06, 0.1, 0.3, 1.0],
        momentum=[0.0, 0.5, 0.9, 0.95, 0.99],
        updates=[50, 100, 200],
    )


def path(learning_rate: float, momentum: float, optimizer: str, updates: int) -> list[dict]:
    """Take the updates; return weight, bias and loss before the first and after each. It ends where the loss explodes.

    Raises ConfigError for an unknown optimizer, a momentum outside 0 to below 1, and no rate or update.
    """
    if optimizer not in OPTIMIZERS or not 0 <= momentum < 1 or learning_rate <= 0 or updates < 1:
        raise ConfigError(
            f"optimizer={optimizer!r}, momentum={momentum}, learning_rate={learning_rate}, updates={updates}: "
            f"choose one of {', '.join(OPTIMIZERS)}, a momentum from 0 to below 1, a rate above 0, and updates."
        )
    length, width = flowers()
    weights = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    if optimizer == "adam":
        steps = torch.optim.Adam([weights], lr=learning_rate)
    else:
        nesterov = optimizer == "nesterov" and momentum > 0
        steps = torch.optim.SGD([weights], lr=learning_rate, momentum=momentum, nesterov=nesterov)
    rows = []
    for update in range(updates + 1):
        loss = F.mse_loss(weights[0] * length + weights[1], width)
        rows.append({"update": update, "weight": weights[0].item(), "bias": weights[1].item(), "loss": loss.item()})
        if update == updates or not loss < _TOO_FAR:
            break
        steps.zero_grad()
        loss.backward()
        steps.step()
    return rows


@functools.lru_cache
def flowers() -> tuple[Tensor, Tensor]:
    """Return length and width of the petals of 150 irises in cm: float64 (150,) each. They come with scikit-learn."""
    from sklearn.datasets import load_iris  # takes a second to import, so only when asked for

    petals = torch.from_numpy(load_iris().data)[:, 2:]
    return petals[:, 0], petals[:, 1]


@functools.lru_cache
def valley() -> dict[str, float]:
    """Return the lowest point, its loss, and the largest rate with which plain SGD does not diverge.

    The loss is quadratic, so its curvature (the Hessian) is the same everywhere. A step across the valley multiplies
    the distance by 1 - rate · curvature, and that stays below 1 in size while the rate is below 2 / curvature.
    """
    length, width = flowers()
    inputs = torch.stack([length, torch.ones_like(length)], dim=1)
    weight, bias = torch.linalg.lstsq(inputs, width[:, None]).solution.flatten().tolist()
    curvatures = torch.linalg.eigvalsh(2 * inputs.T @ inputs / len(inputs)).tolist()
    loss = F.mse_loss(weight * length + bias, width).item()
    return {
        "weight": weight,
        "bias": bias,
        "loss": loss,
        "largest rate": 2 / max(curvatures),
        "steep to flat": max(curvatures) / min(curvatures),
    }


def _draw_landscape(panel: Axes, rows: list[dict], title: str) -> None:
    """Draw lines of equal loss, the lowest point, and the path on top."""
    length, width = flowers()
    weights, biases = (torch.linspace(*ends, 81, dtype=torch.float64) for ends in (WEIGHTS, BIASES))
    outputs = weights[None, :, None] * length + biases[:, None, None]
    heights = ((outputs - width) ** 2).mean(dim=2)
    levels = [valley()["loss"] * 2.0**power for power in range(1, 14)]
    panel.contour(weights, biases, heights, levels, colors="#b5b5b5", linewidths=1)
    panel.grid(visible=False)
    spots = [(row["weight"], row["bias"]) for row in rows if row["loss"] <= _FAR * rows[0]["loss"]]
    panel.plot(*zip(*spots, strict=True), color=SERIES[0].color, marker="o", markersize=3.5, linewidth=1.1)
    panel.plot(*spots[0], **_sign("s", 8, SERIES[1].color), label="start")
    panel.plot(valley()["weight"], valley()["bias"], **_sign("*", 15, "white"), label="lowest point")
    panel.set(xlim=WEIGHTS, ylim=BIASES, xlabel="weight", ylabel="bias", title=title)
    panel.legend(loc="upper left")


def _sign(marker: str, size: float, color: str) -> dict:
    return {"marker": marker, "markersize": size, "color": color, "markeredgecolor": INK, "linestyle": "", "zorder": 5}


def _draw_losses(panel: Axes, rows: list[dict]) -> None:
    """Draw the loss after each update, on a logarithmic scale, beside the lowest that there is."""
    panel.plot([row["update"] for row in rows], [row["loss"] for row in rows], color=SERIES[0].color)
    lowest = valley()["loss"]
    panel.axhline(lowest, color=QUIET, linewidth=1.2, linestyle=(0, (5, 3)))
    panel.set(yscale="log", xlabel="update", title=f"Loss (dashed: the lowest, {lowest:.3f})")
    panel.set_ylim(lowest / 2, max(50.0, *(2 * row["loss"] for row in rows)))
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))


def _settings(learning_rate: float, momentum: float, optimizer: str) -> str:
    with_momentum = "" if optimizer == "adam" else f", momentum {momentum:g}"
    return f"{optimizer}, learning rate {learning_rate:g}{with_momentum}"


def _summary(rows: list[dict], settings: str, updates: int) -> str:
    first, last, lowest = rows[0]["loss"], rows[-1]["loss"], valley()["loss"]
    if not last < first:
        return (
            f"{settings}: it diverges, from loss {first:.3g} to {last:.3g} in {rows[-1]['update']} updates. "
            f"Without momentum, SGD diverges here above a rate of {valley()['largest rate']:.4f}."
        )
    far = max(row["update"] for row in rows if row["loss"] > 1.1 * lowest)  # the last update that ended far from it
    reached = f"within a tenth of it from update {far + 1} on" if far < updates else "not within a tenth of it yet"
    return f"{settings}: loss {last:.4f} after {updates} updates (the lowest possible is {lowest:.4f}), {reached}."
