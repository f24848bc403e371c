"""Samples that no epoch draws: how many, and whether they are of another kind than those that are drawn."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from labkit.doctor.probe.data_reading import Samples, has_places, is_class, order_of, root, size, spread_out

EPOCHS = 4
FEWEST = 30


@dataclass
class LeftOutEvidence:
    """What the sampler leaves out.

    samples, drawn: in the data set, and how many different ones come in EPOCHS epochs. differs: by how many standard
    errors the left out differ from the others in `feature`. others_length: length of the data that the sampler was made
    for, if those are not the loader's; 0 otherwise.
    """

    samples: int = 0
    drawn: int = 0
    feature: str = ""
    differs: float = 0.0
    others_length: int = 0


def look_at_left_out(samples: Samples | None, loaders: dict[str, Any]) -> LeftOutEvidence | None:
    """Compare what the training sampler draws with what it leaves out and validation does not use either."""
    loader = loaders["train"]
    if samples is None or not has_places(loader) or loader.batch_sampler is None:
        return None
    orders = [order_of(loader, seed) for seed in range(EPOCHS)]
    if not all(orders):
        return None
    drawn = {place for order in orders for batch in order for place in batch}
    found = LeftOutEvidence(size(loader), len(drawn), others_length=_made_for_others(loader))
    places = spread_out(size(loader), 2000)[: len(samples)]  # as they were read
    used = drawn | _of_validation(loader, loaders["val"])
    inside = torch.tensor([place in drawn for place in places])
    outside = torch.tensor([place not in used for place in places])
    if min(int(inside.sum()), int(outside.sum())) >= FEWEST:
        for name, values in features(samples).items():
            distance = _standard_errors(values[inside], values[outside])
            if distance > found.differs:
                found.feature, found.differs = name, distance
    return found


def features(samples: Samples) -> dict[str, Tensor]:
    """Return some numbers of each sample: by what name a person would call them."""
    named = {}
    if samples.inputs is not None:
        rows = samples.inputs.double().flatten(1) if samples.inputs.dim() > 1 else samples.inputs.double()[:, None]
        named = {"the numbers that are not zero": (rows != 0).double().mean(1), "the mean input": rows.mean(1)}
        named["the deviation of the input"] = rows.std(1) if rows.shape[1] > 1 else rows[:, 0]
    if is_class(samples.targets):
        labels = samples.targets.flatten()
        named |= {f"the share of class {int(label)}": (labels == label).double() for label in labels.unique()[:20]}
    return named


def _standard_errors(first: Tensor, second: Tensor) -> float:
    error = (first.var() / len(first) + second.var() / len(second)).sqrt().item()
    return abs(first.mean() - second.mean()).item() / error if error > 1e-12 else 0.0


def _of_validation(train: Any, val: Any) -> set[int]:
    """Return the places of the same data set that validation draws."""
    if val is None or not has_places(val) or root(val.dataset, [])[0] is not root(train.dataset, [])[0]:
        return set()
    if val.dataset is not train.dataset:  # subsets know their places themselves
        return set()
    return {place for batch in order_of(val) or [] for place in batch}


def _made_for_others(loader: Any) -> int:
    """Return the length of a sampler's own data, if they are shorter than the loader's."""
    sampler = loader.batch_sampler.sampler if isinstance(loader.batch_sampler, BatchSampler) else loader.sampler
    if not isinstance(sampler, RandomSampler | SequentialSampler) or sampler.data_source is loader.dataset:
        return 0
    length = len(sampler.data_source)
    return length if length < size(loader) else 0
