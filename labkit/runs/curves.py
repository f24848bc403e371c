"""The curves of a run for TensorBoard: `tensorboard --logdir runs` draws them while the run goes on."""

import time
from pathlib import Path

DRAWN = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "learning_rate", "gradient_norm")
PREFIX = "events.out.tfevents."


class Curves:
    """Writes a point a curve and epoch into a new event file beside the record.

    first: the epoch that comes next. What older files hold of it and of later ones no longer counts: TensorBoard is
    told so by the event that opens the file, and reads files by the numbers in their names. These are times, but never
    lower than one that is there: so it does not matter when the clock was set back.
    """

    def __init__(self, folder: Path, first: int):
        # Takes a while, so only where a run is recorded.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        self._file = open(folder / f"{PREFIX}{_number(folder):010}", "xb")  # noqa: SIM115  `close` closes it
        self._records = RecordWriter(self._file)
        self._write(file_version="brain.Event:2")
        self._write(step=first, session_log=SessionLog(status=SessionLog.START))

    def add(self, row: dict) -> None:
        """Draw a row of the history. It is in the file at once."""
        values = [{"tag": name, "simple_value": row[name]} for name in DRAWN if row.get(name) is not None]
        self._write(step=row["epoch"], summary=self._summary(value=values))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, **content) -> None:
        self._records.write(self._event(wall_time=time.time(), **content).SerializeToString())
        self._file.flush()


def _number(folder: Path) -> int:
    """Return the time in seconds, or a later number where a file has that or a later one already."""
    there = [file.name.removeprefix(PREFIX).partition(".")[0] for file in folder.glob(f"{PREFIX}*")]
    return max([int(time.time()), *(int(number) + 1 for number in there if number.isdecimal())])
