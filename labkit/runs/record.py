"""The record of a run: a folder that tells later what was done, on what, with which result. Nothing is overwritten."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labkit.data.files import printable
from labkit.durable import write_durably
from labkit.errors import CheckpointError
from labkit.runs.alone import LOCK_FILE, Alone
from labkit.runs.curves import Curves
from labkit.runs.reading import never_began
from labkit.runs.surroundings import surroundings


class Record:
    """Writes a run's folder: run.json, history.jsonl (a line an epoch), result.json, TensorBoard events."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._curves: Curves | None = None
        self._alone: Alone | None = None

    @classmethod
    def create(cls, settings: dict, facts: dict) -> "Record":
        """Make the folder of a new run and write what is known before it starts.

        A folder in which no run ever began is used again. Raises CheckpointError when the folder is that of another
        run or cannot be written.
        """
        base, record = Path(os.path.expanduser(settings["run_dir"])), None
        try:
            base.mkdir(parents=True, exist_ok=True)
            folder, is_new = _folder(base, settings)
            alone = Alone(folder)
            if not never_began(folder) or not (is_new or alone.is_certain):  # another process was faster
                alone.release()
                raise FileExistsError(folder)
            record = cls(folder)
            record._alone = alone
            if not is_new:
                print(f"The run in {folder} was cut off before its first checkpoint, so it begins anew.")
            record._write("run.json", {"config": settings} | facts | surroundings())
        except CheckpointError:
            raise
        except (OSError, ValueError) as error:  # ValueError: a name with a letter that no file name can have
            if record is not None:
                record.discard()
            if isinstance(error, FileExistsError) and base.is_dir():
                raise CheckpointError(
                    f"A run named {settings['name']!r} exists in {base} and is not overwritten. "
                    "Choose another name, or resume that run."
                ) from error
            reason = getattr(error, "strerror", None) or error
            raise CheckpointError(
                f"The run folder in {base} cannot be written: {reason}. Choose another run_dir."
            ) from error
        return record

    def discard(self) -> None:
        """Take the folder of a run that could not begin away again, so that its name is free."""
        with suppress(OSError):
            self._close()
            for name in ("run.json", LOCK_FILE):
                (self.folder / name).unlink(missing_ok=True)
            self.folder.rmdir()  # only ever removes an empty folder

    @classmethod
    def reopen(cls, folder: Path, history: list[dict]) -> "Record":
        """Open the folder of a run that goes on, with its history set back to that of the checkpoint."""
        record = cls(folder)
        lines = "".join(json.dumps(row) + "\n" for row in history)
        with _sentence(folder):
            record._alone = Alone(folder)
            write_durably(folder / "history.jsonl", lines.encode("utf-8"))
        return record

    def add_epoch(self, row: dict) -> None:
        """Append one row to the history, and draw it in TensorBoard. Raises CheckpointError if the disk refuses."""
        with _sentence(self.folder):
            with open(self.folder / "history.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            if self._curves is None:
                self._curves = Curves(self.folder, first=row["epoch"])
            self._curves.add(row)

    def finish(self, result: dict) -> None:
        """Write or extend result.json, close the TensorBoard file. Raises CheckpointError if the disk refuses."""
        with _sentence(self.folder):
            known = self._result()
            known.pop("error", None)  # of an attempt that this one has made good
            self._write("result.json", known | result)
            self._close()

    def fail(self, error: BaseException) -> None:
        """Note why a run broke off. Says nothing if even that cannot be written: the error itself comes next."""
        with suppress(OSError):
            self._write("result.json", {"status": "failed", "error": f"{type(error).__name__}: {error}"})
        with suppress(OSError):
            self._close()

    def _result(self) -> dict:
        """Read result.json; what somebody has damaged by hand counts as nothing."""
        try:
            return dict(json.loads((self.folder / "result.json").read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return {}

    def _close(self) -> None:
        if self._alone is not None:
            self._alone.release()
            self._alone = None
        if self._curves is not None:
            self._curves.close()
            self._curves = None

    def _write(self, name: str, content: dict) -> None:
        text = json.dumps(content, indent=2) + "\n"
        write_durably(self.folder / name, text.encode("utf-8"))


def _folder(base: Path, settings: dict) -> tuple[Path, bool]:
    """Make the run's folder: under its given name, or under the first free one made from what it does and when.

    Also returns whether it is new; else nothing was ever trained in it.
    """
    if settings["name"]:
        folder = base / settings["name"]
        try:
            folder.mkdir()
        except FileExistsError:
            if not never_began(folder):
                raise
            return folder, False
        return folder, True
    data = printable(Path(settings["data"]).name).strip(". -").replace("\\", "").split(".")[0][:60] or "pictures"
    stem = f"{data}-{settings['model']}-seed{settings['seed']}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(1, 1000):
        folder = base / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir()
            return folder, True
        except FileExistsError:
            continue
    raise FileExistsError(str(base / stem))


@contextmanager
def _sentence(folder: Path) -> Iterator[None]:
    """Turn an error of the disk into one sentence."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"The record in {folder} cannot be written: {error.strerror or error}. The checkpoints there are unharmed: "
            "make room, then resume the run."
        ) from error
