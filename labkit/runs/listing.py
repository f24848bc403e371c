"""Many runs side by side: the list of a folder, and what tells some of them apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import CheckpointError
from labkit.runs.reading import Recorded, is_run, read
from labkit.table import Table

NOT_COMPARED = ("name", "run_dir")  # settings that say where a run is kept, not what it does
SURROUNDINGS = ("parameters", "training_data", "device", "device_name", "threads", "machine")
NESTED = ("versions", "hardware", "git")


def runs_in(folder: str | Path) -> list[Recorded]:
    """Read every run in a folder, by name; for the folder of one run, that one.

    Raises CheckpointError where there is no such folder, or it cannot be read.
    """
    folder = Path(folder)
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"There are no runs to list in {folder}: {reason}. `labkit train` makes the folder runs with its first run."
        ) from error
    if (folder / "run.json").is_file():
        return [read(folder)]
    return [read(path) for path in inside if is_run(path)]


def listing(folder: str | Path = "runs") -> Table:
    """Return a row for each run in a folder: how it ended, how long it took, how good it is, and what is wrong."""
    runs = runs_in(folder)
    rows = [
        {
            "run": run.name,
            "status": run.status,
            "epochs": len(run.history),
            "best val accuracy": run.best.get("val_accuracy"),
            "test accuracy": run.result.get("test_accuracy"),
            "seconds": round(run.seconds, 1),
            "device": run.facts.get("device"),
        }
        for run in runs
    ]
    if any(run.problems or "error" in run.result for run in runs):
        for row, run in zip(rows, runs, strict=True):
            row["what is wrong"] = " ".join(run.problems) or run.result.get("error", "")
    return Table(rows, f"{len(rows)} {'run' if len(rows) == 1 else 'runs'} in {folder}")


@dataclass(frozen=True)
class Comparison:
    """Runs side by side. differences: what was done differently, and with what; results: what came of it."""

    differences: Table
    results: Table

    def to_dict(self) -> dict:
        """Return both tables as plain data."""
        return {"differences": self.differences.rows, "results": self.results.rows}

    def __str__(self) -> str:
        return f"{self.differences}\n\n{self.results}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.differences._repr_html_() + self.results._repr_html_()


def compare(runs: Sequence[Recorded]) -> Comparison:
    """Put runs side by side. Raises CheckpointError for fewer than two different ones."""
    if len(runs) < 2:
        raise CheckpointError("To compare runs, name two or more.")
    names = distinct_names(runs)
    described = [description(run) for run in runs]
    keys = dict.fromkeys(key for one in described for key in one)
    differences = [
        {"what": key} | {name: one.get(key) for name, one in zip(names, described, strict=True)}
        for key in keys
        if any(one.get(key) != described[0].get(key) for one in described)
    ]
    measured = [_results(run) for run in runs]
    results = [
        {"what": key} | {name: one[key] for name, one in zip(names, measured, strict=True)} for key in measured[0]
    ]
    caption = "What differs" if differences else "Settings and surroundings are the same in all of them."
    return Comparison(Table(differences, caption), Table(results, "What came of it"))


def distinct_names(runs: Sequence[Recorded]) -> list[str]:
    """Return a name for each run: that of its folder, or its path where two have the same.

    Raises CheckpointError for a run that is given twice.
    """
    if len({run.folder.resolve() for run in runs}) < len(runs):
        raise CheckpointError("A run is named twice: name each once.")
    names = [run.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.folder) for run in runs]


def description(run: Recorded) -> dict:
    """Return what a run did and with what, as one flat dict: its settings, and of its surroundings what matters."""
    settings = {key: value for key, value in run.settings.items() if key not in NOT_COMPARED}
    outside = {key: run.facts[key] for key in SURROUNDINGS if key in run.facts}  # the device that "auto" became, too
    if "model" in run.facts:
        outside["network"] = run.facts["model"]
    for group in NESTED:
        content = run.facts.get(group)
        if isinstance(content, dict):
            outside |= {f"{group} {key}": value for key, value in content.items()}
    return settings | outside


def _results(run: Recorded) -> dict:
    """Return the figures at the end of a run."""
    last = run.history[-1] if run.history else {}
    return {
        "status": run.status,
        "epochs": len(run.history),
        "train loss": last.get("train_loss"),
        "val loss": last.get("val_loss"),
        "val accuracy": last.get("val_accuracy"),
        "best epoch": run.best.get("epoch"),
        "best val loss": run.best.get("val_loss"),
        "best val accuracy": run.best.get("val_accuracy"),
        "test accuracy": run.result.get("test_accuracy"),
        "seconds": round(run.seconds, 1),
    }
