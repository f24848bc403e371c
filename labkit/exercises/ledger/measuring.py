"""Small tools that several demonstrations measure with."""

import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.autograd.trace import functions_behind


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
    nodes = [] if result.grad_fn is None else functions_behind(result)
    return sorted(type(node).__name__ for node in nodes)


def seconds_of(action: Callable[[], object]) -> tuple[float, float]:
    """Run `action` and return the seconds that passed and those in which a core was at work."""
    passed, worked = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - passed, time.process_time() - worked


def shortest_seconds(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the shortest of nine times that `action` took: the one that other programs disturbed least.

    clock: the time that counts; `time.thread_time` stands still while nothing is computed here.
    """
    times = []
    for _ in range(9):
        start = clock()
        action()
        times.append(clock() - start)
    return min(times)


def bytes_kept_for_backward(model: nn.Module, inputs: Tensor) -> int:
    """Count the bytes of all distinct storages that one forward pass keeps for a backward pass, weights left out."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(saved: Tensor) -> Tensor:
        if saved.untyped_storage().data_ptr() not in weights:
            kept[saved.untyped_storage().data_ptr()] = saved.untyped_storage().nbytes()
        return saved

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved):
        result = model(inputs)  # held until the count is done, so that no address is used twice
    del result
    return sum(kept.values())


class Observer(TorchDispatchMode):
    """Keeps a list of the operations that PyTorch carries out inside its block, each with its named arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, dict]] = []

    def __torch_dispatch__(
        self, function: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        self.operations.append((str(function), kwargs or {}))
        return function(*args, **(kwargs or {}))
