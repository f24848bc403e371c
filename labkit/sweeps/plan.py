"""What a sweep keeps on the disk: its plan, and a folder for each run. From these it goes on after any end."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import nbformat

import labkit
from labkit.course.chosen import declarations
from labkit.durable import write_durably
from labkit.errors import CheckpointError, ConfigError
from labkit.runs.reading import Recorded, read

PLAN = "sweep.json"
NOTEBOOK = "notebook.ipynb"


@dataclass(frozen=True)
class Sweep:
    """A notebook, the folder for all that comes of it, and the parameters of each run by the run's name."""

    notebook: Path
    folder: Path
    runs: dict[str, dict]

    def recorded(self, run: str) -> Recorded:
        """Return what is known of a run."""
        return read(self.folder / run)

    def waiting(self) -> list[str]:
        """Return the runs that have neither finished nor failed."""
        return [run for run in self.runs if self.recorded(run).result.get("status") not in ("finished", "failed")]


def declared_in(notebook: Path) -> dict[str, type]:
    """Return name -> type of the parameters of a notebook. Raises ConfigError where it declares none."""
    for cell in _cells(notebook):
        if "parameters" in cell.metadata.get("tags", []):
            return declarations(cell.source)
    raise ConfigError(f"{notebook} has no cell with the tag `parameters`, so there is nothing to vary.")


def check_settings(notebook: Path, runs: list[dict]) -> None:
    """Raise ConfigError for a value that a run would refuse, if the notebook hands its parameters to a Config."""
    if not any("Config(" in cell.source for cell in _cells(notebook) if cell.cell_type == "code"):
        return
    from labkit.training import Config  # only now: it comes with torch

    known = Config().to_dict()
    for parameters in runs:
        Config(**{name: value for name, value in parameters.items() if name in known})


def begin(notebook: Path, folder: Path, runs: list[dict]) -> Sweep:
    """Write the plan of a sweep, or go on with the same one.

    Raises CheckpointError where the folder holds something else, or cannot be written.
    """
    width = max(3, len(str(len(runs))))
    named = {f"run-{number:0{width}}": parameters for number, parameters in enumerate(runs, start=1)}
    plan = {"notebook": str(notebook.resolve()), "fingerprint": _fingerprint(notebook), "runs": named}
    folder = folder.resolve()
    try:
        if (folder / PLAN).exists():
            _refuse_another(folder, plan)
        elif folder.exists() and any(folder.iterdir()):
            raise CheckpointError(f"{folder} is not empty and holds no sweep. Choose another folder with --out.")
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_durably(folder / PLAN, _json(plan))
        for run, parameters in named.items():
            (folder / run).mkdir(exist_ok=True)
            record = {"config": parameters, "notebook": plan["notebook"], "labkit": labkit.__version__}
            if not (folder / run / "run.json").exists():
                write_durably(folder / run / "run.json", _json(record))
    except OSError as error:
        raise CheckpointError(f"The sweep in {folder} cannot be written: {error.strerror or error}.") from error
    return Sweep(Path(plan["notebook"]), folder, named)


def _refuse_another(folder: Path, plan: dict) -> None:
    """Raise CheckpointError unless the plan in the folder is this one."""
    try:
        there = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{PLAN} in {folder} is damaged. Choose another folder with --out.") from error
    for part, what in (("notebook", "of another notebook"), ("runs", "with other parameters")):
        if there.get(part) != plan[part]:
            raise CheckpointError(f"{folder} holds a sweep {what}. Choose another folder with --out.")
    if there.get("fingerprint") != plan["fingerprint"]:
        raise CheckpointError(
            f"The notebook has changed since the sweep in {folder} began, and its results would not belong together. "
            "Choose another folder with --out."
        )


def _fingerprint(notebook: Path) -> str:
    """Return a SHA-256 of the code, which does not change when the outputs do."""
    code = [cell.source for cell in _cells(notebook) if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()


def _cells(notebook: Path) -> list:
    try:
        return nbformat.read(notebook, as_version=4).cells
    except OSError as error:
        raise ConfigError(f"The notebook {notebook} cannot be read: {error.strerror or error}.") from error
    except (ValueError, AttributeError) as error:  # nbformat.reader.NotJSONError is one
        raise ConfigError(f"{notebook} is no notebook (.ipynb).") from error


def _json(content: dict) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode("utf-8")
