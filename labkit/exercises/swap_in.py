"""The learner's own parts in the place of torch's, in a real small training: equal numbers, time and memory.

    from labkit.exercises import swap_in
    swap_in.side_by_side(linear=Linear, conv2d=Conv2d, optimizer=SGD)

A small network learns handwritten digits, once with torch's parts, then once with each part of the learner's, then with
all that are right. Whatever was skipped is torch's. How far apart equal trainings may end is measured, not guessed: the
same training in float64 shows what rounding alone does in float32.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

import torch

from labkit.errors import LabkitError
from labkit.exercises.parts import PARTS
from labkit.exercises.results import NOT_ATTEMPTED, RIGHT, Result, error_line
from labkit.exercises.small_training import train
from labkit.table import Table

UPDATES = 20
_LEAST_ROUNDING = 1e-6  # of a weight of size 1, in float32
_ROUNDINGS = 30  # so many times as far as rounding alone led is still "equal"; a wrong part ends hundreds away


@dataclass(frozen=True, repr=False)
class Comparison:
    """What came of a swap. table: one row a part; results: what its check said, by part; is_right: all are equal."""

    table: Table
    results: dict[str, Result]
    is_right: bool
    notes: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return "\n\n".join([str(self.table), *self._explained(lambda result: result.plain)])

    def _repr_markdown_(self) -> str:
        return "\n\n".join([self.table._repr_html_(), *self._explained(lambda result: result.markdown)])

    def _explained(self, text: Callable[[Result], str]) -> list[str]:
        wrong = {name: one for name, one in self.results.items() if one.outcome not in (RIGHT, NOT_ATTEMPTED)}
        return [f"`{name}`: {text(result)}" for name, result in wrong.items()] + self.notes


def side_by_side(*, updates: int = UPDATES, **own: Any) -> Comparison:
    """Check the learner's own parts and train with them beside torch's.

    own: the parts by name, see `PARTS`: linear, conv2d, batch_norm, dropout (classes of modules), loss, batches,
    training_step (functions), optimizer (a class). A part that is `...` or None, or not attempted, is torch's.
    Raises LabkitError for a name that is no part; what goes wrong inside a part is in the comparison.
    """
    if unknown := set(own) - set(PARTS):
        raise LabkitError(f"There is no part {min(unknown)!r} to swap; the parts are {', '.join(PARTS)}.")
    if not isinstance(updates, int) or updates < 1:
        raise LabkitError(f"updates={updates!r} must be a whole number of at least 1.")
    results = {name: PARTS[name].judge(... if part is None else part) for name, part in own.items()}
    swapped = {name: own[name] for name, result in results.items() if result.outcome != NOT_ATTEMPTED}
    rounding = max(train({}, updates).distance(train({}, updates, torch.float64)), _LEAST_ROUNDING)
    rows, notes, equal = [], [], []
    for name, part in swapped.items():
        row, is_equal = _compared(name, results[name], {name: part}, rounding, updates)
        rows.append(row)
        if is_equal:
            equal.append(name)
        if results[name].is_right and not is_equal:
            notes.append(f"`{name}` passes its check, but the training with it ends elsewhere: {row['training']}.")
    is_right = bool(equal) and len(equal) == len(swapped)
    if len(equal) > 1:
        together = {name: swapped[name] for name in equal}
        row, is_equal = _compared("all that are equal", None, together, rounding, updates)
        rows.append(row)
        is_right = is_right and is_equal
    skipped = [name for name in PARTS if name not in swapped]
    caption = (
        f"{updates} updates of a small network on digits, yours beside torch's; rounding alone moves a weight by "
        f"{rounding:.0e}. " + (f"torch's own: {', '.join(skipped)}." if skipped else "Everything is yours.")
    )
    return Comparison(Table(rows, caption), results, is_right, notes)


def _compared(
    name: str, result: Result | None, parts: dict[str, Any], rounding: float, updates: int
) -> tuple[dict[str, Any], bool]:
    """Train with some parts of the learner's; return the row of the table, and whether the numbers are equal."""
    verdict = "right" if result is None or result.is_right else result.misconception or result.outcome
    row = {"yours": name, "check": verdict, "training": "", "largest difference": "", "time": "", "memory": ""}
    try:
        trained = train(parts, updates)
        made = len(trained.losses)
        beside = train({}, made if trained.is_cut_short else updates)  # anew: a machine is not always equally fast
        expected = train({}, made, masks=trained.masks) if "dropout" in parts else beside
        distance = expected.distance(trained)
    except (Exception, SystemExit) as error:
        return row | {"training": shorten(error_line(error), 80, placeholder=" …")}, False
    is_equal = distance <= _ROUNDINGS * rounding
    return row | {
        "training": ("equal" if is_equal else _apart(trained.losses, expected.losses))
        + (f" after {made} of {updates} updates, for want of time" if trained.is_cut_short else ""),
        "largest difference": f"{distance:.0e}",
        "time": f"{trained.seconds / beside.seconds:.1f}×",
        "memory": f"{trained.kept / beside.kept:.1f}×",
    }, is_equal and verdict == "right"


def _apart(losses: list[float], expected: list[float]) -> str:
    """Say how a training ended elsewhere than torch's."""
    if len(losses) != len(expected):
        return f"{len(losses)} updates instead of {len(expected)}"
    got, wanted = f"{losses[-1]:.3g}", f"{expected[-1]:.3g}"
    return "the weights end elsewhere" if got == wanted else f"loss {got} instead of {wanted}"
