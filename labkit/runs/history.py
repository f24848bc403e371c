"""What the rows of a history tell: which epochs were the best, and for how long nothing has got better."""

import math


def best_epochs(history: list[dict], count: int) -> list[int]:
    """Return the numbers of the `count` epochs with the lowest validation loss, the best first; a NaN is never good."""
    rows = [row for row in history if row["val_loss"] is not None and math.isfinite(row["val_loss"])]
    return [row["epoch"] for row in sorted(rows, key=lambda row: row["val_loss"])][:count]


def epochs_without_progress(history: list[dict], min_delta: float = 0.0) -> int:
    """Return for how many epochs the validation loss has not come down by more than `min_delta`."""
    bar, epochs = math.inf, 0
    for row in history:
        bar, epochs = (row["val_loss"], 0) if row["val_loss"] < bar - min_delta else (bar, epochs + 1)
    return epochs
