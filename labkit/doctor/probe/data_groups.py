"""Relatives in training and validation: visits of one patient, pictures of one scene, windows that overlap.

Of independent samples the nearest neighbours of one lie at distances that grow little by little. Relatives are nearer
by far: after the last of them the distance jumps.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from labkit.doctor.probe.data_reading import Samples, prints

MOST_TRAIN, MOST_VAL = 1500, 300
FEWEST = 40
NARROWEST, WIDEST = 4, 10_000  # numbers in an input
MOST_RELATIVES = 20


@dataclass
class GroupsEvidence:
    """How near validation samples are to training samples.

    jump: the largest ratio of a neighbour's distance to that of the one before, the median over validation samples.
    relatives: how many training samples come before that jump. limit: a distance between that of relatives and others.
    compared, overlapping: validation samples, and those of them that are a training sample moved on by `step` places.
    """

    compared: int = 0
    jump: float = 1.0
    relatives: int = 0
    limit: float = 0.0
    overlapping: int = 0
    step: int = 0


def look_at_groups(seen: dict[str, Samples | None]) -> GroupsEvidence | None:
    """Compare each validation sample with the training samples."""
    train, val = seen["train"], seen["val"]
    if train is None or val is None or train.inputs is None or val.inputs is None or min(len(train), len(val)) < FEWEST:
        return None
    x, z = train.inputs[:MOST_TRAIN], val.inputs[:MOST_VAL]
    if x.shape[1:] != z.shape[1:] or not x.is_floating_point() or not NARROWEST <= x[0].numel() <= WIDEST:
        return None
    found = GroupsEvidence(len(z))
    _windows(x, z, found)
    rows, others = in_units(x, x), in_units(x, z)
    if not rows.isfinite().all() or not others.isfinite().all():
        return None
    most = min(MOST_RELATIVES, len(rows) // 20)
    near = torch.cdist(others, rows).sort(1).values[:, : most + 1]
    if most < 1 or near[:, 0].median() < 1e-6:  # copies: that is another finding
        return found
    ratio = (near[:, 1:] / near[:, :-1].clamp(min=1e-9)).max(1)
    found.jump, found.relatives = ratio.values.median().item(), int(ratio.indices.median()) + 1
    place = ratio.indices[:, None]
    before, after = near.gather(1, place).median(), near.gather(1, place + 1).median()
    found.limit = (before * after).sqrt().item()
    return found


def in_units(train: Tensor, inputs: Tensor) -> Tensor:
    """Return inputs as rows, (n, numbers), each number in deviations of training."""
    rows = train.double().flatten(1)
    return (inputs.double().flatten(1) - rows.mean(0)) / rows.std(0).clamp(min=1e-6)


def families(rows: Tensor, limit: float) -> Tensor:
    """Return a number for each row that is equal for rows that are linked by steps shorter than the limit."""
    linked = torch.cdist(rows, rows) < limit
    family = torch.arange(len(rows))
    for _ in range(len(rows)):
        smallest = torch.where(linked, family, len(rows)).amin(1)
        if torch.equal(smallest, family):
            break
        family = smallest
    return family


def _windows(train: Tensor, val: Tensor, found: GroupsEvidence) -> None:
    """Look whether windows of validation are those of training moved on along the first axis."""
    length = train.shape[1]
    if train.dim() > 3 or length < 6:
        return
    for step in range(1, length // 2 + 1):
        begins, ends = set(prints(train[:, :-step])), set(prints(train[:, step:]))
        pairs = list(zip(prints(val[:, step:]), prints(val[:, :-step]), strict=True))
        overlapping = sum(first in begins or last in ends for first, last in pairs)
        by_chance = sum(last in begins or first in ends for first, last in pairs)  # the same places, nothing moved on
        if overlapping > max(found.overlapping, 2 * by_chance) and len(begins) > len(train) // 2:
            found.overlapping, found.step = overlapping, step
        if step == 8 and not found.overlapping:
            return
