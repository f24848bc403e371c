"""One run of a sweep: `python -m labkit.sweeps.one_run FOLDER` executes its notebook and writes what came of it.

It is a process of its own and holds its folder while it lives. So a sweep that was killed can be started again at once:
a run that is still at work is waited for, and not made twice.
"""

import ast
import json
import shutil
import sys
import time
from pathlib import Path

import nbformat
import papermill
from filelock import FileLock
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.exceptions import PapermillExecutionError

from labkit.durable import write_durably
from labkit.runs.alone import LOCK_FILE
from labkit.runs.listing import runs_in
from labkit.runs.reading import read
from labkit.sweeps.plan import NOTEBOOK, declared_in

RESULTS = "results"  # the tag of a cell whose value, a dict, is the result of the notebook
RECORDS = "records"  # where the notebook's own trainings keep theirs, if it has the parameter run_dir


def execute(folder: Path) -> None:
    """Execute the notebook of a run, unless that has been done."""
    with FileLock(folder / LOCK_FILE):
        if read(folder).result:
            return
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        notebook, parameters = Path(facts["notebook"]), dict(facts["config"])
        if "run_dir" in declared_in(notebook):
            shutil.rmtree(folder / RECORDS, ignore_errors=True)  # of a run that was cut off
            parameters.setdefault("run_dir", str(folder / RECORDS))
        started = time.perf_counter()
        try:
            papermill.execute_notebook(
                notebook, folder / NOTEBOOK, parameters, cwd=notebook.parent, kernel_name="python3", progress_bar=False
            )
            outcome = {"status": "finished"} | results_of(folder)
        except PapermillExecutionError as error:
            outcome = {"status": "failed", "error": f"{error.ename}: {error.evalue}, in cell {error.cell_index + 1}"}
        except (DeadKernelError, CellTimeoutError) as error:
            outcome = {"status": "failed", "error": f"{type(error).__name__}: {error}"}
        outcome["seconds"] = round(time.perf_counter() - started, 1)
        write_durably(folder / "result.json", (json.dumps(outcome, indent=2) + "\n").encode("utf-8"))


def results_of(folder: Path) -> dict:
    """Return the results of an executed notebook: those of its last training, then those of the cell `results`.

    The history of that training becomes the history of the run, for `labkit runs plot`.
    """
    found = {}
    for record in runs_in(folder / RECORDS) if (folder / RECORDS).is_dir() else ():
        if record.best:
            found |= {name: record.best[name] for name in ("val_loss", "val_accuracy") if name in record.best}
        if record.result.get("test_accuracy") is not None:
            found["test_accuracy"] = record.result["test_accuracy"]
        if (record.folder / "history.jsonl").is_file():
            shutil.copyfile(record.folder / "history.jsonl", folder / "history.jsonl")
    for cell in nbformat.read(folder / NOTEBOOK, as_version=4).cells:
        if RESULTS in cell.metadata.get("tags", []):
            for output in cell.get("outputs", []):
                found |= _plain_dict(output.get("data", {}).get("text/plain", ""))
    return found


def _plain_dict(text: str) -> dict:
    """Return the dict of names and plain values that a text shows; an empty one for another text."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {}
    entries = value.items() if isinstance(value, dict) else ()
    return {name: entry for name, entry in entries if isinstance(name, str) and isinstance(entry, int | float | str)}


if __name__ == "__main__":
    execute(Path(sys.argv[1]))
