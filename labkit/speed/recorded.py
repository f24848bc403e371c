"""Recorded figures of a device: a JSON file with device, date and versions, and what draws beside one's own."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil  # comes along with ipykernel
import torch

from labkit import devices
from labkit.data.profiling import cores
from labkit.durable import write_durably
from labkit.errors import DataError
from labkit.runs.surroundings import surroundings
from labkit.speed.clock import Comparison
from labkit.speed.measurements import MEASUREMENTS, find, measure
from labkit.table import Table

FOLDER = Path(__file__).parent / "recorded_devices"
SCHEMA = 1
BUSY = 0.5  # programs for each core that want to compute, in the last minute: figures are then worth less


@dataclass(frozen=True)
class Record:
    """What was measured on a device, and when.

    figures: measurement -> way -> {"milliseconds", "times as fast", "first call"}, the last in milliseconds, too.
    notes: what could not be measured, in sentences. busy: whether other programs ran at the same time.
    """

    device: str
    kind: str  # cpu, cuda, mps
    date: str
    versions: dict[str, str]
    quick: bool
    figures: dict[str, dict[str, dict[str, float]]]
    notes: tuple[str, ...] = ()
    busy: bool = False

    @property
    def label(self) -> str:
        """The device, the day and the version of torch, as a picture names them."""
        shared = ", shared with other programs" if self.busy else ""
        return f"{self.device}{shared}, {self.date}, torch {self.versions['torch'].partition('+')[0]}"

    def table(self) -> Table:
        """Return a row for each way of each measurement."""
        rows = [
            {"measurement": name, "way": way, **figures}
            for name, ways in self.figures.items()
            for way, figures in ways.items()
        ]
        return Table(rows, f"{'A quick look at' if self.quick else 'Recorded on'} {self.label}")


def record(device: torch.device | str = "auto", quick: bool = False, names: Sequence[str] = (), told=print) -> Record:
    """Make all measurements, or those named, on a device of this computer, and return what came of them.

    told: is called with each measurement's name before it begins, since some take a while.
    """
    device, names = devices.choose(str(device)), [find(name).name for name in names or MEASUREMENTS]
    busy = psutil.getloadavg()[0] > BUSY * cores()
    figures, notes = {}, []
    for name in names:
        told(name)
        found = measure(name, device, quick)
        if found is not None:
            figures[name] = figures_of(found)
            notes += found.notes
    around = surroundings()
    versions = {name: around["versions"][name] for name in ("labkit", "python", "torch")}
    if device.type == "cpu":
        threads = torch.get_num_threads()
        used = f"{threads} {'thread' if threads == 1 else 'threads'} on {around['hardware']['cores']} cores"
        words = f"{around['hardware']['cpu']}, {used}"
    else:
        words = devices.describe(device)
        versions["cuda"] = str(torch.version.cuda)
    return Record(words, device.type, time.strftime("%Y-%m-%d"), versions, quick, figures, tuple(notes), busy)


def figures_of(found: Comparison) -> dict[str, dict[str, float]]:
    """Return the figures of a comparison as a record keeps them."""
    return {
        row["way"]: {
            "milliseconds": round(row["milliseconds"], 5),
            "times as fast": round(row["times as fast"], 3),
            "first call": round(1000 * found.first_calls[row["way"]], 3),
        }
        for row in found.rows
    }


def save(kept: Record, path: Path) -> None:
    """Write a record as JSON. Raises DataError where the file cannot be written."""
    text = json.dumps({"schema": SCHEMA} | asdict(kept), indent=1, ensure_ascii=False) + "\n"
    try:
        write_durably(path, text.encode("utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error


def read(path: str | Path) -> Record:
    """Return the record in a file. Raises DataError for a file that is not there, or is no whole record."""
    try:
        facts = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise DataError(f"{path} is no JSON file: {error}.") from error
    if not isinstance(facts, dict) or facts.pop("schema", None) != SCHEMA:
        raise DataError(f"{path} is no record of this version. `labkit record-device --out {path}` makes a new one.")
    try:
        kept = Record(**facts | {"notes": tuple(facts.get("notes", ()))})
        numbers = [one for ways in kept.figures.values() for way in ways.values() for one in way.values()]
        whole = bool(kept.label) and all(isinstance(one, int | float) and math.isfinite(one) for one in numbers)
    except (TypeError, AttributeError, KeyError) as error:
        raise DataError(f"{path} is no whole record: {error}.") from error
    if not whole:
        raise DataError(f"{path} is no whole record: not all of its figures are numbers.")
    return kept


def records(*more: str | Path) -> list[Record]:
    """Return the records that come with the course, then those in the files named."""
    return [read(path) for path in [*sorted(FOLDER.glob("*.json")), *more]]
