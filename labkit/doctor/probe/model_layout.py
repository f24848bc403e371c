"""How the inputs lie in memory: were their axes once in another order, and only renamed by view or reshape?

Neighbours in a picture, and moments that follow each other, are alike. Numbers whose axes were renamed are not: what
was a neighbour lies somewhere else. So each order in which the numbers may have been written is tried.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, permutations
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from labkit.doctor.nested import leaves
from labkit.doctor.probe.data_reading import Samples, has_places, loaders_of, read, root
from labkit.doctor.probe.model_runs import recorded_inputs
from labkit.doctor.program import Program
from labkit.doctor.records import Recording

NUMBERS = 200_000  # as many are compared, of samples from all of the data
MOST_NUMBERS = 4_000_000
PLANES, SERIES = nn.Conv2d, (nn.RNNBase, nn.Conv1d, nn.MultiheadAttention)


@dataclass
class LayoutEvidence:
    """What was seen of the order of the inputs' numbers.

    shape: of the inputs, samples first. orders: their axes in the order in which the numbers seem to be written, so
    that `x.reshape([shape[axis] for axis in order])` has the true axes; several where these are as likely, the
    simplest first. of_all: whether that holds for the data set as a whole, and not sample by sample. before, after:
    how alike neighbours are (correlation), as it is and at best.
    """

    shape: tuple[int, ...] = ()
    orders: list[tuple[int, ...]] = field(default_factory=list)
    of_all: bool = False
    before: float = 0.0
    after: float = 0.0


def look_at_layout(program: Program, recording: Recording) -> LayoutEvidence:
    """Compare neighbours in the recorded inputs, and in the samples of the data set as they lie beside each other."""
    seen = LayoutEvidence()
    given = [_only(inputs) for inputs in recorded_inputs(recording)]
    first = given[0] if given else None
    axes = None if first is None else _neighbours(program.model, first)
    if axes is None:
        return seen
    same = [tensor for tensor in given if tensor is not None and tensor.shape[1:] == first.shape[1:]]
    _try(torch.cat(same), axes, False, seen)
    if not seen.orders and seen.before < 0.3:
        with suppress(Exception):  # whatever the user's data raise
            for samples in stores(program):
                fits = samples.inputs is not None and samples.inputs.shape[1:] == first.shape[1:]
                if fits and not seen.orders:
                    _try(samples.inputs, axes, True, seen)
    return seen


def _only(inputs: tuple) -> Tensor | None:
    tensors = [leaf for leaf in leaves(inputs) if isinstance(leaf, Tensor)]
    return tensors[0] if len(tensors) == 1 and tensors[0].is_floating_point() and len(tensors[0]) else None


def _neighbours(model: nn.Module, inputs: Tensor) -> tuple[int, ...] | None:
    """Return the axes along which neighbours should be alike, None where nothing is known of them."""
    modules = list(model.modules())
    if inputs.dim() == 4 and any(isinstance(module, PLANES) for module in modules):
        return 2, 3
    if inputs.dim() != 3 or min(inputs.shape[1:]) < 2:
        return None
    first = next((module for module in modules if isinstance(module, SERIES)), None)
    if isinstance(first, nn.Conv1d):
        return (2,)
    return (1,) if first is not None and first.batch_first else None


def _try(inputs: Tensor, axes: tuple[int, ...], of_all: bool, seen: LayoutEvidence) -> None:
    """Find the order of axes in which neighbours are most alike."""
    shape = tuple(inputs.shape)
    if inputs.numel() > MOST_NUMBERS or min(shape[axis] for axis in axes) < 3 or not inputs.isfinite().all():
        return
    inputs = inputs.contiguous()
    few = torch.linspace(0, len(inputs) - 1, min(len(inputs), max(8, NUMBERS * len(inputs) // inputs.numel()))).long()
    identity = tuple(range(inputs.dim()))
    orders: dict[tuple[int, ...], tuple[int, ...]] = {}
    for order in permutations(identity):
        if order == identity or (order[0] != 0) == of_all:
            orders.setdefault(_steps(shape, order), order)
    found = {order: _alike(inputs.as_strided(shape, steps)[few].double(), axes) for steps, order in orders.items()}
    seen.shape, seen.before = shape, found.pop(identity)
    after = max(found.values(), default=0.0)
    if after > max(0.1, 1.5 * seen.before + 0.05):
        seen.after, seen.of_all = after, of_all
        seen.orders = sorted((order for order, alike in found.items() if alike > 0.95 * after), key=_turns)


def _turns(order: tuple[int, ...]) -> int:
    """Return how many pairs of axes change places: the fewer, the more likely."""
    return sum(one > other for one, other in combinations(order, 2))


def _steps(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """Return how far a step along each axis leads in memory, if the axes are written in some order."""
    steps = [0] * len(shape)
    for place, axis in enumerate(order):
        steps[axis] = math.prod(shape[later] for later in order[place + 1 :])
    return tuple(steps)


def _alike(x: Tensor, axes: tuple[int, ...]) -> float:
    """Return how alike neighbours along some axes are, and the channels of a picture: the mean of correlations."""
    channel = ({*range(1, x.dim())} - {*axes}).pop()
    centred = x - x.mean([axis for axis in range(x.dim()) if axis != channel], keepdim=True)
    found = [
        _correlation(centred.narrow(axis, 0, x.shape[axis] - 1), centred.narrow(axis, 1, x.shape[axis] - 1), None)
        for axis in axes
    ]
    if x.dim() == 4 and x.shape[1] > 1:
        planes = (x - x.mean(axes, keepdim=True)).flatten(2)
        found.append(_correlation(planes[:, 1:], planes[:, :-1], 2).abs())
    return torch.stack([each.mean() for each in found]).mean().item()


def _correlation(one: Tensor, other: Tensor, axis: int | None) -> Tensor:
    both = (one * other).sum(axis)
    return both / (one.square().sum(axis) * other.square().sum(axis)).sqrt().clamp(min=1e-12)


def stores(program: Program) -> Iterator[Samples]:
    """Yield the samples in the order in which they lie in the store: of the data set, and of both parts together."""
    loaders = loaders_of(program)
    train, val = loaders["train"], loaders["val"]
    if not has_places(train):
        return
    whole = root(train.dataset, [])[0]
    first = _whole(whole)
    yield first
    if val is not None and has_places(val) and root(val.dataset, [])[0] is not whole:
        second = _whole(root(val.dataset, [])[0])
        yield Samples(torch.cat([first.inputs, second.inputs]), torch.cat([first.targets, second.targets]))


def _whole(dataset: Any) -> Samples:
    samples = read(SimpleNamespace(dataset=dataset), list(range(len(dataset))), seconds=0.5)
    return samples if len(samples) == len(dataset) else Samples()
