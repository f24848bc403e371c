"""Training and validation beside each other: samples in both, samples that come again, other preparation."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from labkit.doctor.probe.data_order import shared_places
from labkit.doctor.probe.data_reading import Samples, has_places, prints


@dataclass
class PartsEvidence:
    """What was seen of the two parts.

    compared: validation samples; in_both: those of them that are in training too (None if chance could do it).
    read, different: training samples at different places, and how many different inputs they have. shift: median
    distance of the features' means, in deviations of training; ratio: deviation of validation ÷ training.
    """

    compared: int = 0
    in_both: int | None = None
    read: int = 0
    different: int = 0
    shift: float = 0.0
    ratio: float = 1.0
    shapes: tuple = ()


def look_at_parts(seen: dict[str, Samples | None], loaders: dict[str, Any]) -> PartsEvidence:
    """Compare the samples of the two parts."""
    found, train, val = PartsEvidence(), seen["train"], seen["val"]
    if train is None or train.inputs is None or not has_places(loaders["train"]):
        return found
    mine = prints(train.inputs)
    rich = _rich(train.inputs)
    found.read, found.different = len(mine), len(set(mine)) if rich else len(mine)
    if val is None or val.inputs is None or not has_places(loaders["val"]):
        return found
    found.compared = len(val.inputs)
    if rich:
        found.in_both = 0 if equal_by_chance(train.inputs, val.inputs) else _overlap(mine, val)
        if _phrases(train.inputs, mine, found.in_both / found.compared):
            found.in_both = 0
        found.in_both = max(found.in_both, min(shared_places(loaders["train"], loaders["val"]), found.compared))
    if train.inputs.shape[1:] != val.inputs.shape[1:]:
        found.shapes = tuple(train.inputs.shape[1:]), tuple(val.inputs.shape[1:])
    elif train.inputs.is_floating_point() and val.inputs.is_floating_point():
        _distance(train.inputs, val.inputs, found)
    return found


def _overlap(mine: list[int], val: Samples) -> int:
    known = set(mine)
    return sum(row in known for row in prints(val.inputs))


def equal_by_chance(train: Tensor, val: Tensor, most: int = 200) -> bool:
    """Say whether equal rows are no copies: then as many validation rows differ from a training row in one place."""
    if train.shape[1:] != val.shape[1:]:
        return False
    mine, other = train.flatten(1)[:, :200], val.flatten(1)[:most, :200]
    differ = torch.stack([(row != mine).sum(1) for row in other])
    equal, almost = int((differ == 0).any(1).sum()), int((differ == 1).any(1).sum())
    return 2 * almost > equal


def _phrases(inputs: Tensor, mine: list[int], share: float) -> bool:
    """Say whether equal rows are phrases of a language: tokens, and training repeats its own nearly as often."""
    if inputs.is_floating_point() or inputs.dim() != 2 or share > 0.5:
        return False
    return sum(count for count in Counter(mine).values() if count > 1) > 0.5 * share * len(mine)


def _rich(inputs: Tensor) -> bool:
    """Say whether equal rows cannot come by chance: the columns together have far more states than there are rows."""
    rows = inputs.flatten(1)[:300, :64]
    states = torch.tensor([float(len(column.unique())) for column in rows.unique(dim=0).T])
    return bool(states.log2().sum() > 4 * torch.tensor(float(len(inputs))).log2())


def _distance(train: Tensor, val: Tensor, found: PartsEvidence) -> None:
    if not (train.isfinite().all() and val.isfinite().all()) or min(len(train), len(val)) < 20:
        return
    mine, other = train.double().flatten(1), val.double().flatten(1)
    spread = mine.std(0)
    kept = spread > 0.05 * spread.mean()
    if kept.any():
        found.shift = ((other.mean(0) - mine.mean(0)).abs()[kept] / spread[kept]).median().item()
    found.ratio = (other.std() / mine.std().clamp(min=1e-12)).item()
