"""Several runs in one picture: which one learns faster, and which one gets further."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.ticker import MaxNLocator, PercentFormatter

from labkit.errors import DataError
from labkit.show.picture import Picture
from labkit.show.style import SERIES, course_style, line_style, new_figure

MOST = 2 * len(SERIES)  # the second four have hollow markers; more lines nobody can tell apart in grey


def runs_curves(histories: Mapping[str, Sequence[Mapping]]) -> Picture:
    """Draw the loss and the accuracy of runs by epoch, of validation where there is one, else of training.

    histories: name of the run -> the rows of its history. Raises DataError where there is nothing to draw, or more
    runs than can be told apart.
    """
    drawn = {_printable(name): history for name, history in histories.items() if history}
    if not drawn:
        raise DataError("There is no epoch to draw: these runs have ended none.")
    if len(drawn) > MOST:
        raise DataError(f"{len(drawn)} runs in one picture cannot be told apart. Choose at most {MOST}.")
    part = "val" if all(_measured(history, "val_loss") for history in drawn.values()) else "train"
    word = {"val": "Validation", "train": "Training"}[part]
    with course_style():
        figure = new_figure(9.5, 4.2 + 0.12 * len(drawn))
        panels = dict(zip(("loss", "accuracy"), figure.subplots(1, 2), strict=True))
        for quantity, panel in panels.items():
            for place, (name, history) in enumerate(drawn.items()):
                rows = _measured(history, f"{part}_{quantity}")
                style = line_style(place, len(rows)) | {"markersize": 6}
                if place >= len(SERIES):
                    style["markerfacecolor"] = "white"
                points = [row["epoch"] for row in rows], [row[f"{part}_{quantity}"] for row in rows]
                panel.plot(*points, **style, label=_label(name) if quantity == "loss" else None)
            panel.set(title=f"{word} {quantity}", xlabel="epoch")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panels["accuracy"].yaxis.set_major_formatter(PercentFormatter(1, symbol=" %"))
        figure.legend(loc="outside lower left", ncols=2)
    data = [{"run": name, **row} for name, history in drawn.items() for row in history]
    return Picture(figure, data, " ".join(_sentence(name, history, part) for name, history in drawn.items()))


def _printable(name: str) -> str:
    """Return a name in one line of a length that fits under a picture."""
    name = "".join(letter if letter.isprintable() else " " for letter in name)
    return name if len(name) <= 60 else f"{name[:40]}…{name[-19:]}"


def _label(name: str) -> str:
    """Return a name as matplotlib takes it literally: without formulas, and never hidden by an underscore in front."""
    return ("\u200b" if name.startswith("_") else "") + name.replace("$", r"\$")


def _measured(history: Sequence[Mapping], quantity: str) -> list[Mapping]:
    """Return the rows in which a quantity is a finite number."""
    return [row for row in history if row.get(quantity) is not None and math.isfinite(row[quantity])]


def _sentence(name: str, history: Sequence[Mapping], part: str) -> str:
    """Say how far a run got."""
    count = f"{len(history)} {'epoch' if len(history) == 1 else 'epochs'}"
    rows = _measured(history, f"{part}_loss")
    if not rows:
        return f"{name}: {count}, and no loss that is a number."
    best = min(rows, key=lambda row: row[f"{part}_loss"])
    word = {"val": "validation", "train": "training"}[part]
    accuracy = best.get(f"{part}_accuracy")
    with_accuracy = "" if accuracy is None else f" with accuracy {accuracy:.1%}".replace("%", " %")
    return f"{name}: {count}, lowest {word} loss {best[f'{part}_loss']:.3g} in epoch {best['epoch']}{with_accuracy}."
