"""Splits in which what belongs together stays together, and tables of how the classes are spread."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import numpy
import torch
from torch import Tensor

from labkit import randomness
from labkit.errors import DataError
from labkit.table import Table

TRIES = 20  # orders in which groups are gone through; the best of them counts


class Labelled(Protocol):
    """What can be split: an ImageSet, a FolderDataset, or a data set of your own with these three."""

    labels: Tensor  # int64 (N,)
    classes: tuple[str, ...]

    def select(self, indices: Tensor) -> Any:
        """Return the samples at `indices` as a new data set."""


Data = TypeVar("Data", bound=Labelled)


def split_by_group(
    data: Data, groups: Sequence[Hashable] | Tensor, fraction: float, seed: int = 0
) -> tuple[Data, Data]:
    """Return (the rest, a held-out share of about `fraction`), so that no group has samples in both.

    groups: one name or number for each sample, such as the patient, the camera or the film that it comes from.
    Whole groups are chosen so that size and class shares of the held-out part come as near to `fraction` as several
    tries reach. The order within both parts is the original one. Raises DataError for a single group, and for a
    fraction that is none.
    """
    _need_labels(data, "split_by_group")
    if not isinstance(groups, Iterable):
        raise DataError(f"groups must be one name or number for each sample, got {groups!r}.")
    groups = groups.tolist() if isinstance(groups, Tensor) else list(groups)
    if not all(isinstance(group, Hashable) for group in groups):
        raise DataError(f"groups must be one name or number for each sample, got several in one: {groups[0]!r}.")
    if not isinstance(fraction, int | float) or isinstance(fraction, bool) or not 0 < fraction < 1:
        raise DataError(f"split_by_group: fraction must lie between 0 and 1, got {fraction!r}.")
    if len(groups) != len(data.labels):
        raise DataError(f"groups has {len(groups)} entries for {len(data.labels)} samples; it needs one for each.")
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    if len(numbers) < 2:
        raise DataError("All samples belong to one group, so there is nothing to split.")
    group_of = torch.tensor([numbers[group] for group in groups])
    # What a group brings: a share of each class, and of all samples together.
    counts = torch.zeros(len(numbers), len(data.classes) + 1, dtype=torch.float64)
    counts.index_put_((group_of, data.labels), torch.ones((), dtype=torch.float64), accumulate=True)
    counts[:, -1] = counts.sum(dim=1)
    shares = counts[:, counts.sum(dim=0) > 0]
    held_out = torch.from_numpy(_choose((shares / shares.sum(dim=0)).numpy(), fraction, seed))[group_of]
    return data.select(~held_out), data.select(held_out)


def _need_labels(data: Any, where: str) -> None:
    if not (hasattr(data, "labels") and hasattr(data, "classes")):
        raise DataError(f"{where}: give an ImageSet, or a data set with labels and classes; got {type(data).__name__}.")


def _choose(shares: numpy.ndarray, fraction: float, seed: int) -> numpy.ndarray:
    """Choose groups whose shares (M, K) sum to about `fraction` in every column, at least one and not all: bool (M,).

    Each try begins with no group chosen, and takes in or out one group at a time as long as that helps.
    """
    count = len(shares)
    best, chosen = float("inf"), numpy.zeros(count, bool)
    for attempt in range(min(TRIES, 1 + 10_000 // count)):
        order = torch.randperm(count, generator=randomness.generator(seed, "groups", index=attempt)).tolist()
        taken, distance = numpy.zeros(count, bool), numpy.full(shares.shape[1], -fraction)
        moved = True
        while moved:
            moved = False
            for group in order:
                after = distance - shares[group] if taken[group] else distance + shares[group]
                leaves_some = taken[group] or taken.sum() < count - 1
                if leaves_some and after @ after < distance @ distance - 1e-12:
                    taken[group], distance, moved = not taken[group], after, True
        if not taken.any():  # every group is larger than twice the share: one of them it must be
            smallest = min(order, key=lambda group: shares[group] @ shares[group])
            taken[smallest], distance = True, distance + shares[smallest]
        if distance @ distance < best:
            best, chosen = distance @ distance, taken
    return chosen


def class_balance(**parts: Labelled) -> Table:
    """Return how many samples each class has in each part, and which share of the part that is.

    Example: class_balance(train=splits.train, val=splits.val).
    """
    if not parts:
        raise DataError("class_balance needs at least one part by name, such as train=splits.train.")
    for part, data in parts.items():
        _need_labels(data, f"class_balance, {part}")
    names = next(iter(parts.values())).classes
    rows = [{"class": name} for name in names]
    sentences = []
    for part, data in parts.items():
        if data.classes != names:
            raise DataError(f"The part {part} has other classes than the first part, so they cannot be compared.")
        counts = torch.bincount(data.labels, minlength=len(names)).tolist()
        for row, count in zip(rows, counts, strict=True):
            row.update({part: count, f"share of {part}": count / max(1, sum(counts))})
        most, fewest = max(counts), min(counts)
        if most == fewest:
            sentences.append(f"{part}: {most:,} in each class")
            continue
        ratio = f"{most / fewest:.1f} times as many as" if fewest else "while nothing is in"
        sentences.append(f"{part}: {most:,} in {names[counts.index(most)]}, {ratio} {names[counts.index(fewest)]}")
    return Table(rows, "; ".join(sentences) + ".")
