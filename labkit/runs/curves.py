"""The curves of a run for TensorBoard: `tensorboard --logdir runs` draws them while the run goes on."""

import time
from contextlib import suppress
from pathlib import Path

DRAWN = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "learning_rate", "gradient_norm")


class Curves:
    """Writes a point a curve and epoch into an event file beside the record.

    rows: what a run that goes on has behind it. It is written anew and the files from before are removed, so that an
    epoch is drawn once, whatever the clock did: TensorBoard reads event files in the order of the times in their names.
    """

    def __init__(self, folder: Path, rows: list[dict] | tuple = ()):
        from torch.utils.tensorboard import SummaryWriter  # takes a while, so only where a run is recorded

        for file in folder.glob("events.out.tfevents.*"):
            with suppress(PermissionError):  # Windows keeps what a running TensorBoard reads; purge_step hides it there
                file.unlink()
        self._events = SummaryWriter(str(folder), purge_step=1)
        moment = time.time() - sum(row["seconds"] for row in rows)
        for row in rows:
            moment += row["seconds"]
            self.add(row, moment)

    def add(self, row: dict, moment: float | None = None) -> None:
        """Draw a row of the history, at a time other than now if `moment` says so. It is on the disk at once."""
        for name in DRAWN:
            if row.get(name) is not None:
                self._events.add_scalar(name, row[name], row["epoch"], walltime=moment)
        self._events.flush()

    def close(self) -> None:
        """Close the file."""
        self._events.close()
