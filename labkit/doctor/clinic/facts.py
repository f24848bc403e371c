"""What can be read from an Observation: each function returns a number, or None where there is none."""

import math
from itertools import pairwise
from statistics import median

from labkit.doctor.clinic.observation import Observation


def update_size(seen: Observation) -> float | None:
    """Return the median share of its size by which a layer's weights move at an update."""
    values = [value for ratios in seen.ratios.values() for value in ratios if math.isfinite(value)]
    return median(values) if values else None


def still_layers(seen: Observation) -> list[str]:
    """Return the layers whose weights never moved."""
    return [layer for layer, ratios in seen.ratios.items() if all(value == 0 for value in ratios)]


def untouched_layers(seen: Observation) -> list[str]:
    """Return the layers that never had a gradient other than 0."""
    return [layer for layer, norms in seen.gradients.items() if not any(norms)]


def first_to_last(seen: Observation) -> float | None:
    """Return the gradient norm of the first layer as a share of the last one's, the median over all updates."""
    columns = list(seen.gradients.values())
    if len(columns) < 2:
        return None
    pairs = zip(columns[0], columns[-1], strict=False)
    shares = [first / last for first, last in pairs if first is not None and last and math.isfinite(first / last)]
    return median(shares) if shares else None


def silent_share(seen: Observation) -> float | None:
    """Return the largest share of a layer's units that are 0 for all samples after training."""
    shares = [after.silent for _, after in seen.activations.values() if after is not None]
    return max(shares, default=None)


def has_broken_numbers(seen: Observation) -> bool:
    """Say whether NaN or infinity came up in a loss, a gradient or the data."""
    losses = [row["loss"] for row in seen.updates]
    gradients = [norm for norms in seen.gradients.values() for norm in norms if norm is not None]
    data = [row[key] for row in seen.batches for key in ("low", "high")]
    return not all(map(math.isfinite, [*losses, *gradients, *data]))


def input_size(seen: Observation) -> float | None:
    """Return the largest absolute value among the inputs of the first training batch."""
    rows = [row for row in seen.batches if (row["part"], row["name"]) == ("train", "inputs")]
    return max(abs(rows[0]["low"]), abs(rows[0]["high"])) if rows else None


def preparation_gap(seen: Observation) -> float | None:
    """Return by how many standard deviations the means of training and validation inputs differ."""
    rows = {row["part"]: row for row in seen.batches if row["name"] == "inputs"}
    if len(rows) < 2 or not rows["train"]["std"]:
        return None
    return abs(rows["train"]["mean"] - rows["val"]["mean"]) / rows["train"]["std"]


def score_gap(seen: Observation) -> float | None:
    """Return the last score on training data minus that on validation data."""
    return seen.last["train_score"] - seen.last["val_score"] if seen.epochs else None


def training_score(seen: Observation) -> float | None:
    """Return the last score on training data."""
    return seen.last.get("train_score")


def rate_change(seen: Observation) -> float | None:
    """Return the last learning rate as a share of the first."""
    if not seen.updates or not seen.updates[0]["learning_rate"]:
        return None
    return seen.updates[-1]["learning_rate"] / seen.updates[0]["learning_rate"]


def loss_fall(seen: Observation) -> float | None:
    """Return the mean loss of the last ten updates as a share of that of the first two."""
    losses = [row["loss"] for row in seen.updates]
    if len(losses) < 12 or not all(map(math.isfinite, losses)) or not sum(losses[:2]):
        return None
    return (sum(losses[-10:]) / 10) / (sum(losses[:2]) / 2)


def loss_swing(seen: Observation) -> float | None:
    """Return the largest jump upwards of the loss from update to update, as a share of the first loss."""
    losses = [row["loss"] for row in seen.updates]
    if len(losses) < 2 or not all(map(math.isfinite, losses)) or not losses[0]:
        return None
    return max(after - before for before, after in pairwise(losses)) / abs(losses[0])


def gradient_growth(seen: Observation) -> float | None:
    """Return how many times larger the largest gradient norm of the last ten updates is than that of the first ten."""
    columns = [[norm for norm in norms if norm is not None] for norms in seen.gradients.values()]
    begin = max((max(column[:10]) for column in columns if column), default=0.0)
    end = max((max(column[-10:]) for column in columns if column), default=0.0)
    return end / begin if begin and math.isfinite(end) else None
