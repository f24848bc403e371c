"""What can be seen of a training from outside: plain numbers, from which every figure and every answer is made."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Histogram:
    """The values that leave a layer on one batch: how often each comes, and what they have in common.

    counts: in bins of equal width from `low` to `high`. silent: share of the units that are 0 for every sample.
    finite: share of the values that are neither NaN nor infinite; the others are not counted.
    """

    low: float
    high: float
    counts: tuple[int, ...]
    mean: float
    std: float
    silent: float
    finite: float


@dataclass
class Observation:
    """One run of a case, with the fault or cured.

    epochs: rows with epoch, train_loss, val_loss, train_score, val_score, learning_rate. updates: rows with update,
    loss, learning_rate. gradients: layer -> norm of its gradient when the optimizer read it, update by update; None
    where there was none. ratios: layer -> how far its weights moved, as a share of their size, update by update.
    activations: layer -> (Histogram before training, Histogram after). batches: a look at the first batches, rows with
    part, name, shape, dtype, low, mean, std, high. measured: what the trained model is really worth (see
    `Case.measured`); NaN where the training broke off. error: what ended it, "" if nothing did.
    """

    case: str
    seed: int
    cured: bool
    code: str
    score: str
    chance: float
    epochs: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    gradients: dict[str, list[float | None]] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    activations: dict[str, tuple[Histogram, Histogram | None]] = field(default_factory=dict)
    batches: list[dict[str, Any]] = field(default_factory=list)
    measured: float = float("nan")
    error: str = ""

    @property
    def last(self) -> dict[str, Any]:
        """The row of the last epoch, empty if there was none."""
        return self.epochs[-1] if self.epochs else {}
