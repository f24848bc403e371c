"""Was a run repeated? Its history and its weights are compared with the recorded ones, bit for bit."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from labkit.data.files import printable
from labkit.errors import CheckpointError
from labkit.runs import checkpoint
from labkit.runs.listing import description
from labkit.runs.reading import Recorded, read

COMPLETE = ("finished", "stopped early")
NOT_REPEATED = ("seconds",)  # of a row: what a clock says is never the same twice
WEIGHTS = {"last.pt": ("model", "average"), "best.pt": ("epoch", "weights")}


@dataclass(frozen=True)
class Reproduction:
    """What became of a repetition. history, weights: the first difference, or "" where every bit is the same.

    surroundings: what was other than in the record, one entry each, such as "versions torch: 2.9.1 then, 2.14.1 now".
    """

    epochs: int
    history: str
    weights: str
    surroundings: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether history and weights are the same bit for bit."""
        return not self.history and not self.weights

    def to_dict(self) -> dict:
        """Return all of it as plain data."""
        return {"equal": self.is_equal} | asdict(self)

    def __str__(self) -> str:
        epochs = f"all {self.epochs} epochs" if self.epochs != 1 else "its epoch"
        history = self.history or f"the same, bit for bit, in {epochs} (but for the seconds)"
        weights = self.weights or f"the same, bit for bit ({' and '.join(WEIGHTS)})"
        return f"history: {history}\nweights: {weights}\n{self._explanation()}"

    def _explanation(self) -> str:
        if self.surroundings:
            effect = "it changed nothing" if self.is_equal else "that can change results"
            return f"Other than in the record ({effect}): {'; '.join(self.surroundings)}."
        if self.is_equal:
            return "Versions and hardware are those of the record. With others the last digits may differ."
        return (
            "Versions and hardware are those of the record. On a GPU sums may be made in another order each time, "
            "which changes last digits; on a CPU, with code and data unchanged, that does not happen."
        )


def settings_for_again(folder: Path) -> dict:
    """Return the settings with which a recorded run is repeated: its own, and a new folder beside it, NAME-again.

    Raises CheckpointError for a run that has not ended, or whose record or weights are damaged.
    """
    folder = folder.resolve()
    recorded = read(folder)
    if recorded.problems:
        raise CheckpointError(f"The record in {folder} cannot be repeated: {' '.join(recorded.problems)}")
    if recorded.status not in COMPLETE:
        raise CheckpointError(
            f"The run in {folder} has no end to compare with: it is {recorded.status} after {len(recorded.history)} "
            f"epochs. To end it: labkit train --resume {folder}"
        )
    for name in _weights_of(folder):
        checkpoint.read(folder / name)
    names = [f"{folder.name}-again", *(f"{folder.name}-again-{number}" for number in range(2, 1000))]
    free = next((name for name in names if not (folder.parent / name).exists()), names[0])
    return recorded.settings | {"run_dir": str(folder.parent), "name": free}


def compare_runs(folder: Path, again: Path) -> Reproduction:
    """Compare a run with its repetition. Raises CheckpointError where weights cannot be read."""
    first, second = read(folder), read(again)
    return Reproduction(len(second.history), _history(first, second), _weights(folder, again), _changed(first, second))


def _history(first: Recorded, second: Recorded) -> str:
    """Name the first epoch and figure that differ."""
    for one, two in zip(first.history, second.history, strict=False):
        for key in dict.fromkeys([*one, *two]):
            if key not in NOT_REPEATED and json.dumps(one.get(key)) != json.dumps(two.get(key)):  # NaN equals NaN there
                return f"differs first in epoch {one['epoch']}: {key} {one.get(key)} then, {two.get(key)} now"
    if len(first.history) != len(second.history):
        return f"{len(first.history)} epochs then, {len(second.history)} now"
    return ""


def _weights(folder: Path, again: Path) -> str:
    """Name the first entry of the checkpoints that differs."""
    if _weights_of(folder) != _weights_of(again):
        return f"files then: {', '.join(_weights_of(folder))}; now: {', '.join(_weights_of(again))}"
    for name in _weights_of(folder):
        one, two = checkpoint.read(folder / name), checkpoint.read(again / name)
        for key in WEIGHTS[name]:
            where = _first_difference(one.get(key), two.get(key), key)
            if where:
                return f"{name} differs first in {where}"
    return ""


def _weights_of(folder: Path) -> list[str]:
    """Return the checkpoints to compare; a run in which no loss was finite has no best one."""
    return [name for name in WEIGHTS if name == "last.pt" or (folder / name).exists()]


def _first_difference(one: object, two: object, where: str) -> str:
    """Compare nested plain data; return the place of the first difference, or ""."""
    if isinstance(one, dict) and isinstance(two, dict) and list(one) == list(two):
        return next(filter(None, (_first_difference(one[key], two[key], f"{where} {key}") for key in one)), "")
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        same = one.dtype == two.dtype and one.shape == two.shape and _bytes(one).equal(_bytes(two))
    else:
        same = type(one) is type(two) and one == two
    return "" if same else where


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _changed(first: Recorded, second: Recorded) -> tuple[str, ...]:
    """Return what the two records tell differently about their surroundings."""
    then, now = description(first), description(second)
    return tuple(
        printable(f"{key}: {then.get(key)} then, {now.get(key)} now")
        for key in dict.fromkeys([*then, *now])
        if then.get(key) != now.get(key)
    )
