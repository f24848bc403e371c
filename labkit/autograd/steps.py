"""Forward and backward, one operation at a time, with the numbers that really pass.

The backward pass is torch's own, run once with a hook on every node. Its gradients are handed to us instead of being
added to `.grad`, so that the model and its gradients stay as they were.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from labkit.autograd.trace import (
    CHECKPOINTED,
    LARGEST,
    Names,
    Node,
    cannot_go_back,
    functions_behind,
    is_leaf,
    saved_tensors,
    trace,
)
from labkit.errors import LabkitError
from labkit.randomness import frozen_randomness

#: Operations that treat each element for itself, so that each element has a slope of its own.
ELEMENT_WISE = {
    "Abs",
    "Add",
    "Clamp",
    "ClampMin",
    "Cos",
    "Div",
    "Elu",
    "Exp",
    "Gelu",
    "LeakyRelu",
    "Log",
    "Mul",
    "Neg",
    "Pow",
    "Relu",
    "Rsub",
    "Sigmoid",
    "Silu",
    "Sin",
    "Softplus",
    "Sqrt",
    "Sub",
    "Tanh",
}


_WALKING = RLock()  # one walk at a time: hooks do not know whose backward pass calls them


@dataclass(frozen=True)
class Step:
    """What happens at one node.

    direction: "forward" or "backward". Forward, `value` is the result (of several the first), None where torch kept it
    nowhere. Backward,
    `upstream` is what arrives for each result, `local` the slope by each input (element-wise operations only),
    `handed_on` what goes on to each input. At a leaf, `accumulated` is its gradient after this backward pass, with what
    was in `.grad` before.
    """

    direction: str
    node: Node
    value: torch.Tensor | None = None
    upstream: tuple[torch.Tensor | None, ...] = ()
    local: tuple[torch.Tensor | None, ...] = ()
    handed_on: tuple[torch.Tensor | None, ...] = ()
    accumulated: torch.Tensor | None = None


class Watch(TorchFunctionMode):
    """Keeps recorded results, also those that no operation needs for its gradient and torch therefore lets go."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[Any, torch.Tensor] = {}

    def __torch_function__(self, function: Any, types: Any, arguments: tuple = (), options: dict | None = None) -> Any:
        """Call the function as usual and keep a copy of its result (of several the first), safe from later changes."""
        result = function(*arguments, **(options or {}))
        if len(self.values) >= LARGEST:  # not even looked at, see LARGEST
            return result
        for one in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(one, torch.Tensor) and one.grad_fn is not None and one.output_nr == 0:
                self.values.setdefault(one.grad_fn, one.detach().clone())
        return result


@contextmanager
def watch() -> Iterator[Watch]:
    """Keep the first 2,000 results of operations in this block, so that `steps` can show each of them."""
    with Watch() as watching:
        yield watching


def steps(loss: torch.Tensor, names: Names = None, watched: Watch | None = None) -> list[Step]:
    """Return every step of the forward pass that made `loss`, then every step of the backward pass from it.

    loss: one number. names: see `trace`. watched: what `watch()` gave when the loss was computed. Model, gradients,
    random numbers and the graph are as before. Hooks of your own run, as in any backward pass, except those that wait
    for a new `.grad`. Raises LabkitError for more than one number, for a graph that `backward` has freed or cannot go
    through, for a checkpointed one, and for one of more than 2,000 nodes, with a summary of it.
    """
    graph = trace(loss, names)
    if loss.numel() != 1:
        raise LabkitError(f"backward starts at one number, and this has shape {tuple(loss.shape)}. Sum it up.")
    if loss.is_complex():
        raise LabkitError("backward starts at a real number, and this one is complex. Take its `.real` or `.abs()`.")
    if not graph.nodes:
        raise LabkitError(f"This graph is too large to walk through: {graph.summary}")
    if any(node.operation == "CheckpointFunction" or CHECKPOINTED in node.saved.values() for node in graph.nodes):
        raise LabkitError(
            "A part of this graph is checkpointed: a walk would compute it anew and so change the model, its batch "
            "statistics for one. Compute the loss without checkpoint to walk through it."
        )
    if watched is not None and not isinstance(watched, Watch):
        raise LabkitError("`watched` is what `with watch() as watched:` gave when the loss was computed.")
    functions = functions_behind(loss)
    values = _values(loss, functions, watched)
    forward = [Step("forward", node, values.get(functions[node.number])) for node in graph.nodes]
    with _WALKING:
        return forward + _backward(loss, graph.nodes, functions)


def _values(loss: torch.Tensor, functions: list[Any], watched: Watch | None) -> dict[Any, torch.Tensor]:
    """Return a copy of each node's result, where it can be had: a leaf, the loss, a saved tensor, a watched result."""
    found = dict(watched.values) if watched else {}
    for function in functions:
        if is_leaf(function):
            found[function] = function.variable.detach().clone()
            continue
        for _, kept in saved_tensors(function):
            if isinstance(kept, torch.Tensor) and kept.grad_fn is not None and kept.output_nr == 0:
                found.setdefault(kept.grad_fn, kept.detach().clone())
    found.setdefault(functions[-1], loss.detach().clone())
    return found


def _backward(loss: torch.Tensor, nodes: tuple[Node, ...], functions: list[Any]) -> list[Step]:
    slopes = [_slopes(node, functions[node.number]) for node in nodes]
    passed: list[tuple[Node, tuple, tuple]] = []  # in the order in which torch went
    leaves = {node.number: functions[node.number].variable for node in nodes if node.leaf}
    leaves = {number: leaf for number, leaf in leaves.items() if leaf.requires_grad}  # it may be frozen since
    if not leaves:
        raise LabkitError("No leaf behind this loss asks for a gradient, so there is nothing to walk to.")
    hooks = [
        functions[node.number].register_hook(
            lambda handed_on, upstream, node=node: passed.append((node, _plain(upstream), _plain(handed_on)))
        )
        for node in nodes
        if not node.leaf
    ]
    try:
        with frozen_randomness():
            gradients = torch.autograd.grad(loss, list(leaves.values()), retain_graph=True, allow_unused=True)
    except RuntimeError as error:
        if "backward through the graph a second time" in str(error):
            raise LabkitError("backward() has freed this graph. Compute the loss again and walk before it.") from None
        raise cannot_go_back(error) from error
    finally:
        for hook in hooks:
            hook.remove()
    arrived = dict(zip(leaves, gradients, strict=True))
    missing = Counter(parent for node, _, _ in passed for parent in node.parents)
    result = []
    for node, upstream, handed_on in passed:
        result.append(Step("backward", node, None, upstream, slopes[node.number], handed_on))
        for parent in node.parents:
            missing[parent] -= 1
            if missing[parent] == 0 and arrived.get(parent) is not None:
                result.append(_at_leaf(nodes[parent], leaves[parent], arrived[parent]))
    if not passed:  # the loss is a leaf itself
        result = [_at_leaf(nodes[number], leaves[number], gradient) for number, gradient in arrived.items()]
    return result


def _slopes(node: Node, function: Any) -> tuple[torch.Tensor | None, ...]:
    """Return the slope of each element by each input: what the node makes of an upstream of ones.

    An input that broadcasting stretched has no slope of its own for each element of the result, and gets None.
    """
    if node.operation not in ELEMENT_WISE or len(function._input_metadata) != 1 or not callable(function):
        return ()
    (result,) = function._input_metadata
    ones = torch.ones(tuple(result.shape), dtype=result.dtype, device=result.device)
    try:
        with torch.no_grad():
            slopes = function(ones)
    except RuntimeError:  # what it had saved is freed or changed in place; the backward pass itself will say so
        return ()
    slopes = slopes if isinstance(slopes, tuple) else (slopes,)
    is_stretched = [parent is None or _shape(parent, place) != ones.shape for parent, place in function.next_functions]
    return tuple(None if stretched else slope for slope, stretched in zip(slopes, is_stretched, strict=True))


def _shape(function: Any, place: int) -> torch.Size:
    return torch.Size(function._input_metadata[place].shape)


def _at_leaf(node: Node, leaf: torch.Tensor, gradient: torch.Tensor) -> Step:
    before = leaf.grad
    accumulated = gradient.detach().clone() if before is None else before.detach() + gradient
    return Step("backward", node, None, (gradient.detach(),), accumulated=accumulated)


def _plain(gradients: tuple) -> tuple[torch.Tensor | None, ...]:
    return tuple(None if one is None else one.detach().clone() for one in gradients)
