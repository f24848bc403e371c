"""What came of a sweep: one row a run, as a table and as a CSV file."""

import csv
import io

from labkit.durable import write_durably
from labkit.errors import DataError
from labkit.sweeps.plan import Sweep
from labkit.table import Table

NO_RESULT = ("status", "error", "seconds")
USUAL = ("test_accuracy", "val_accuracy")  # what a sweep is looked at for, where the notebook gives it


def table(sweep: Sweep) -> Table:
    """Return a row for each run: its parameters, its results, how it ended."""
    results = {run: sweep.recorded(run).result for run in sweep.runs}
    measured = list(dict.fromkeys(name for result in results.values() for name in result if name not in NO_RESULT))
    rows = []
    for run, parameters in sweep.runs.items():
        result = results[run]
        row = {"run": run, **parameters} | {f"{_free(name, parameters)}": result.get(name, "") for name in measured}
        row |= {"status": result.get("status", "unfinished"), "seconds": result.get("seconds", "")}
        rows.append(row | {"error": result.get("error", "")})
    if not any(row["error"] for row in rows):
        for row in rows:
            del row["error"]
    count = {status: sum(row["status"] == status for row in rows) for status in ("finished", "failed", "unfinished")}
    told = ", ".join(f"{number} {status}" for status, number in count.items() if number)
    return Table(rows, f"{len(rows)} runs of {sweep.notebook.name}: {told}")


def _free(name: str, parameters: dict) -> str:
    """Return the name of a result, told apart from a parameter of the same name."""
    return f"{name} (result)" if name in parameters else name


def main_result(sweep: Sweep, wanted: str = "") -> str:
    """Return the name of the result to compare runs by: the one that is wanted, a usual one, or the first number.

    Raises DataError where there is none of that name.
    """
    names = []
    for run in sweep.runs:
        for name, value in sweep.recorded(run).result.items():
            if name not in (*NO_RESULT, *names) and isinstance(value, int | float):
                names.append(name)
    if wanted and wanted not in names:
        raise DataError(f"No run has a result {wanted!r}. The results are: {', '.join(names) or 'none'}.")
    return wanted or next((name for name in (*USUAL, *names) if name in names), "")


def write_csv(sweep: Sweep) -> str:
    """Write the table as results.csv; return its path."""
    rows, text = table(sweep).rows, io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    path = sweep.folder / "results.csv"
    write_durably(path, text.getvalue().encode("utf-8"))
    return str(path)
