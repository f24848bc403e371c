"""What a person sees while a run goes on: one line that rewrites itself, and one table row an epoch."""

import os
import sys
import time

from labkit import distributed

COLUMNS = (  # key of the row, heading, format
    ("epoch", "epoch", "{:d}"),
    ("train_loss", "train loss", "{:.4f}"),
    ("train_accuracy", "running acc.", "{:.2%}"),
    ("val_loss", "val loss", "{:.4f}"),
    ("val_accuracy", "val acc.", "{:.2%}"),
    ("learning_rate", "rate", "{:.1e}"),
    ("seconds", "seconds", "{:.1f}"),
)


class Progress:
    """Prints the table of a run as it grows. `*` marks the best validation loss so far.

    Of several processes that train together only the main one prints.
    """

    def __init__(self, epochs: int, updates_per_epoch: int):
        self.epochs, self.updates_per_epoch = epochs, updates_per_epoch
        self._columns: tuple = ()
        self._last_time, self._width = 0.0, 0
        # A log file or a notebook that nobody watches would keep every state of a line that rewrites itself.
        # Jupyter sets this variable for kernels behind a page; papermill and nbval have no page.
        self._live = sys.stdout.isatty() or "JPY_SESSION_NAME" in os.environ
        self._speaks = distributed.is_main()

    def line(self, epoch: int, update: int, loss: float) -> None:
        """Rewrite the line of the epoch in progress, at most twice a second."""
        now = time.monotonic()
        if not self._live or now - self._last_time < 0.5:
            return
        self._last_time = now
        text = f"epoch {epoch}/{self.epochs}  update {update}/{self.updates_per_epoch}  loss {loss:.4f}"
        self._print("\r" + text.ljust(self._width), end="")
        self._width = len(text)

    def row(self, row: dict, best: bool) -> None:
        """Print one finished epoch, under the heading if it is the first."""
        self._clear()
        if not self._columns:
            self._columns = tuple(column for column in COLUMNS if row[column[0]] is not None)
            self._print("  ".join(heading.rjust(12) for _, heading, _ in self._columns))
        cells = []
        for key, _, form in self._columns:
            mark = "*" if best and key == "val_loss" else ""
            cells.append((form.format(row[key]) + mark).rjust(12))
        self._print("  ".join(cells))

    def say(self, sentence: str) -> None:
        """Print a sentence on a line of its own."""
        self._clear()
        self._print(sentence)

    def _clear(self) -> None:
        if self._width:
            self._print("\r" + " " * self._width + "\r", end="")
            self._width = 0

    def _print(self, text: str, end: str = "\n") -> None:
        if self._speaks:
            print(text, end=end, flush=True)
