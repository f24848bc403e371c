"""Small tools that several demonstrations measure with."""

import warnings
from collections.abc import Callable

from torch import Tensor


def error_of(action: Callable[[], object]) -> str:
    """Run `action` and return the error that it raised, as "RuntimeError: mat1 and …"; "" when it ran through."""
    try:
        action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def warnings_of(action: Callable[[], object]) -> list[str]:
    """Run `action` and return the warnings that it gave, as "UserWarning: Using a target size …"."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [f"{warning.category.__name__}: {warning.message}" for warning in caught]


def graph_nodes(result: Tensor) -> list[str]:
    """Return the names of all nodes of the graph that ends in `result`, such as "AddmmBackward0", sorted."""
    seen, waiting = set(), [result.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return sorted(type(node).__name__ for node in seen)
