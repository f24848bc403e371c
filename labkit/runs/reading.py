"""Read the folder of a run, whatever state it is in: finished, running, half-written, damaged by hand."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import CheckpointError
from labkit.runs.alone import LOCK_FILE, is_held

CHECKPOINT = "last.pt"
BEFORE_THE_START = {
    LOCK_FILE,
    "run.json",
    "run.json.tmp",
    "last.pt.tmp",
}  # written before the first checkpoint is whole
FILES = ("run.json", "history.jsonl", "result.json", CHECKPOINT, "best.pt")


@dataclass(frozen=True)
class Recorded:
    """What the folder of a run tells.

    facts: run.json; history: a row an epoch; result: result.json; each is empty where there is nothing to read, and
    then `problems` says why, one sentence each.
    """

    folder: Path
    facts: dict
    history: list[dict]
    result: dict
    problems: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name

    @property
    def settings(self) -> dict:
        """The settings of the run."""
        return self.facts.get("config", {})

    @property
    def status(self) -> str:
        """How it ended: "finished", "stopped early", "interrupted", "failed"; or "running", "unfinished", "damaged"."""
        if is_held(self.folder):
            return "running"
        if self.problems:
            return "damaged"
        return str(self.result.get("status", "unfinished"))

    @property
    def best(self) -> dict:
        """The row with the lowest validation loss, or the empty dict where nothing was validated."""
        rows = [row for row in self.history if row.get("val_loss") is not None and math.isfinite(row["val_loss"])]
        return min(rows, key=lambda row: row["val_loss"], default={})

    @property
    def seconds(self) -> float:
        """The time that its epochs took together."""
        return math.fsum(row.get("seconds") or 0.0 for row in self.history)


def find(run: str | Path, folder: str | Path = "runs") -> Path:
    """Return the folder of a run from its path, or from its name in `folder`.

    Raises CheckpointError where there is none; a bare name never leads out of `folder`.
    """
    candidates = [Path(run)]
    if Path(run).name == str(run):  # a name, and not the way to some other folder
        candidates.insert(0, Path(folder) / run)
    for candidate in candidates:
        if is_run(candidate):
            return candidate
    raise CheckpointError(f"There is no run {str(run)!r}, neither there nor in {folder}. `labkit runs` lists them.")


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of a run: it holds one of a run's files, or nothing at all yet."""
    try:
        return folder.is_dir() and (any((folder / name).exists() for name in FILES) or not any(folder.iterdir()))
    except PermissionError:
        return True  # it may be one, and whoever reads it will say what is in the way
    except (OSError, ValueError):  # ValueError: a name that no folder can have
        return False


def never_began(folder: Path) -> bool:
    """Return whether a run's folder is empty, or that of a run which was cut off before its first checkpoint."""
    return folder.is_dir() and {file.name for file in folder.iterdir()} <= BEFORE_THE_START


def read(folder: Path) -> Recorded:
    """Read a run's folder. Nothing in it is executed, and nothing that is wrong with it raises an error."""
    facts, history, result, problems = {}, [], {}, []
    try:
        facts = _facts(folder)
    except CheckpointError as error:
        problems.append(str(error))
    try:
        _read_rows(folder, history)
    except CheckpointError as error:
        problems.append(str(error))
    try:
        result = _json(folder, "result.json", needed=False)
    except CheckpointError as error:
        problems.append(str(error))
    return Recorded(folder, facts, history, result, tuple(problems))


def _facts(folder: Path) -> dict:
    facts = _json(folder, "run.json", needed=True)
    if not isinstance(facts.get("config"), dict):
        raise CheckpointError("run.json has no settings.")
    return facts


def _json(folder: Path, name: str, needed: bool) -> dict:
    """Return the object in a file, or an empty one where it may be missing. Raises CheckpointError."""
    text = _text(folder / name, needed)
    if text is None:
        return {}
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name} is cut off or damaged.") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{name} holds something else than it should.")
    return content


def _read_rows(folder: Path, rows: list[dict]) -> None:
    """Append the epochs of the history up to the first that cannot be read, then raise CheckpointError for that."""
    text = _text(folder / "history.jsonl", needed=False) or ""
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not _is_row(row, number):
            raise CheckpointError(f"history.jsonl is cut off or damaged in line {number}.")
        rows.append(row)


def _is_row(row: object, number: int) -> bool:
    """Return whether this is the row of epoch `number`: an object whose values are numbers, or null."""
    return (
        isinstance(row, dict)
        and row.get("epoch") == number
        and all(value is None or (isinstance(value, int | float) and _fits(value)) for value in row.values())
    )


def _fits(value: int | float) -> bool:
    return isinstance(value, float) or abs(value) < 2**63


def _text(file: Path, needed: bool) -> str | None:
    """Return the text of a file; None where it is missing and may be."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if needed:
            raise CheckpointError(f"{file.name} is missing.") from error
        return None
    except ValueError as error:
        raise CheckpointError(f"{file.name} is cut off or damaged.") from error
    except OSError as error:
        raise CheckpointError(f"{file.name} cannot be read: {error.strerror or error}.") from error
