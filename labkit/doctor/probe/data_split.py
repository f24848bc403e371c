"""Whether a function that splits the samples gives the same parts each time it is asked, with the same global seeds."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from labkit import randomness
from labkit.doctor.copying import copied, is_users, names_outside
from labkit.doctor.program import Program

#: What mixes samples calls one of these. Other functions are not called: who knows what else they do.
MIXES = {"permutation", "randperm", "shuffle", "random_split", "sample", "choice", "permuted"}
FEWEST = 20  # places


@dataclass
class SplitEvidence:
    """A function without arguments that gives another split each time.

    name: among the pieces. places: how many it returned. moved: how many of them were others the second time.
    """

    name: str = ""
    places: int = 0
    moved: int = 0


def look_at_split(program: Program) -> SplitEvidence | None:
    """Ask each function that splits twice, with the same global random numbers; return the first that differs."""
    for name, function in program.context.items():
        if not _splits(function):
            continue
        first, again = _asked(function), _asked(function)
        if len(first) < FEWEST or len(set(first)) < len(first) or min(first) < 0:
            continue  # no split: a split names each sample once
        if moved := sum(one != other for one, other in zip(first, again, strict=False)):
            return SplitEvidence(name, len(first), moved)
    return None


def _splits(function: Any) -> bool:
    if not isinstance(function, FunctionType) or not is_users(function) or inspect.signature(function).parameters:
        return False
    return bool(names_outside(function.__code__) & MIXES)


def _asked(function: Callable) -> list[int]:
    with randomness.frozen_randomness(0):
        return list(_places(copied({"split": function})["split"]()))


def _places(thing: Any) -> Iterator[int]:
    """Yield the places of samples in what a function returned: numbers, subsets, loaders, and tuples of them."""
    if isinstance(thing, DataLoader):
        yield from _places(thing.dataset)
    elif isinstance(thing, Subset):
        yield from _places(thing.indices)
    elif isinstance(thing, Tensor | numpy.ndarray):
        if thing.dtype != object and thing.ndim == 1:
            yield from (int(place) for place in thing.tolist() if place == int(place))
    elif isinstance(thing, dict):
        yield from _places(list(thing.values()))
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from [part] if isinstance(part, int) else _places(part)
