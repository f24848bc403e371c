"""Batches and outputs as people nest them: tensors in tuples, lists and dicts."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor


def leaves(thing: Any) -> Iterator[Any]:
    """Yield what is inside nested tuples, lists and dicts."""
    if isinstance(thing, dict):
        for part in thing.values():
            yield from leaves(part)
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from leaves(part)
    else:
        yield thing


def detached(thing: Any) -> Any:
    """Return the same nested structure with copies of its tensors, without their graphs."""
    return mapped(thing, lambda tensor: tensor.detach().clone())


def mapped(thing: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the same nested structure of dicts, lists and tuples with every tensor changed."""
    if isinstance(thing, Tensor):
        return change(thing)
    if isinstance(thing, dict):
        return {name: mapped(part, change) for name, part in thing.items()}
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return type(thing)(*(mapped(part, change) for part in thing))
    if isinstance(thing, list | tuple):
        return type(thing)(mapped(part, change) for part in thing)
    return thing
