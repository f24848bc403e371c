"""The graph that torch recorded for a loss, as plain data: its operations, what they saved, and where recording stops.

torch keeps the graph as nodes that know only their parents: `loss.grad_fn` and, from there, `next_functions`. Looking
at it computes and changes nothing.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from labkit.errors import LabkitError
from labkit.table import Table

#: Nodes that are looked at. Of a larger graph only those nearest to the loss are counted: nobody reads more, and torch
#: (2.14) overflows the stack when it frees a graph of some 40,000 nodes in a row that Python has had in its hands.
LARGEST = 2_000

Names = nn.Module | Mapping[str, torch.Tensor] | None

#: What is written for a saved tensor that a checkpoint threw away.
CHECKPOINTED = "computed anew by a checkpoint"


@dataclass(frozen=True)
class Node:
    """One recorded operation, or a leaf, at which gradients are added up.

    number: its place in the order of the forward pass. operation: "Addmm" for torch's AddmmBackward0, "leaf" for a
    leaf. results: dtype and shape of each result. saved: what it keeps for the backward pass, by name. parents: the
    number of the node that made each input, None where recording stops. stops: why it stops there. leaf: its name.
    """

    number: int
    operation: str
    results: tuple[str, ...]
    saved: dict[str, str]
    parents: tuple[int | None, ...]
    stops: tuple[str, ...] = ()
    leaf: str = ""


@dataclass(frozen=True)
class Graph:
    """A recorded graph: its nodes in the order of the forward pass, and how often each operation occurs.

    A graph of more than 2,000 nodes has no nodes here, only the counts of those nearest to the loss.
    """

    nodes: tuple[Node, ...]
    operations: dict[str, int]

    @property
    def leaves(self) -> list[Node]:
        """The leaves, in the order in which the forward pass used them."""
        return [node for node in self.nodes if node.leaf]

    @property
    def summary(self) -> str:
        """One sentence about the graph."""
        most = ", ".join(f"{count} {name}" for name, count in Counter(self.operations).most_common(6))
        most += ", …" if len(self.operations) > 6 else ""
        if self.nodes:
            return f"{len(self.nodes)} node{'s' if len(self.nodes) > 1 else ''}: {most}."
        return f"more than {LARGEST:,} nodes; nearest to the loss are {most}."

    def table(self) -> Table:
        """Return a row for each node."""
        rows = [
            {
                "node": node.number,
                "operation": node.leaf or node.operation,
                "result": ", ".join(node.results),
                "made from": ", ".join("·" if parent is None else str(parent) for parent in node.parents),
                "saved": ", ".join(f"{name} {what}" for name, what in node.saved.items()),
                "recording stops at": ", ".join(node.stops),
            }
            for node in self.nodes
        ]
        return Table(rows, self.summary)


def trace(loss: torch.Tensor, names: Names = None) -> Graph:
    """Return the graph behind a tensor. names: a module, or tensors by name, whose names the leaves then get.

    Nothing is computed, so what a hook packed away (a checkpoint, say) stays packed. Raises LabkitError when nothing
    was recorded for this tensor, for names that are neither, and for nested tensors, which have no one shape.
    """
    functions = functions_behind(loss)
    operations = dict(Counter(_operation(function) for function in functions).most_common())
    if len(functions) > LARGEST:
        return Graph((), operations)
    known = _known(names)
    if any(result.is_nested_tensor for function in functions for result in function._input_metadata):
        raise LabkitError("This graph holds nested tensors, which have no one shape. Pad them to one tensor before.")
    number = {function: place for place, function in enumerate(functions)}
    return Graph(tuple(_node(function, number, known) for function in functions), operations)


def functions_behind(loss: torch.Tensor) -> list[Any]:
    """Return torch's own nodes behind a tensor in the order of the forward pass, a leaf right before its first use.

    Of a graph of more than 2,000 nodes some more than that, those nearest to the tensor. Raises LabkitError.
    """
    start = _start(loss)
    seen, waiting = {start}, deque([start])
    while waiting and len(seen) <= LARGEST:
        for parent, _ in waiting.popleft().next_functions:
            if parent is not None and parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    in_order: dict[Any, None] = {}
    for function in sorted((one for one in seen if not is_leaf(one)), key=lambda one: one._sequence_nr()):
        in_order.update(dict.fromkeys(one for one, _ in function.next_functions if one is not None and is_leaf(one)))
        in_order[function] = None
    return list(in_order or seen)


def is_leaf(function: Any) -> bool:
    """Tell whether a node of torch is the end of the graph, where a gradient is added to a tensor's `.grad`."""
    return hasattr(function, "variable")


def cannot_go_back(error: RuntimeError) -> LabkitError:
    """Return torch's reason why a backward pass failed as one sentence."""
    reason = str(error).splitlines()[0].split(". ")[0].rstrip(".")
    return LabkitError(f"torch cannot go back through this graph: {reason}.")


def _start(loss: torch.Tensor) -> Any:
    if not isinstance(loss, torch.Tensor):
        raise LabkitError(f"A graph belongs to a tensor, and this is a {type(loss).__name__}.")
    if loss.grad_fn is not None:
        return loss.grad_fn
    if loss.requires_grad:
        return torch.autograd.graph.get_gradient_edge(loss).node
    raise LabkitError(
        "There is no graph behind this tensor: nothing that it was made from requires a gradient, or it was made under "
        "no_grad, or cut off with detach() or item()."
    )


def _operation(function: Any) -> str:
    """Return "Addmm" for AddmmBackward0, and "leaf" for AccumulateGrad."""
    return "leaf" if is_leaf(function) else function.name().rpartition("Backward")[0] or function.name()


def _known(names: Names) -> dict[tuple, str]:
    """Return the names of tensors by identity and by memory; a module gives those of its parameters and buffers."""
    if isinstance(names, nn.Module):
        named = [*names.named_parameters(), *names.named_buffers()]
    elif isinstance(names, Mapping) and all(isinstance(one, torch.Tensor) for one in names.values()):
        named = list(names.items())
    elif names is None:
        named = []
    else:
        raise LabkitError('Names come from a module, or from tensors by name, such as {"weight": weight}.')
    if not all(isinstance(name, str) for name, _ in named):
        raise LabkitError("The names of tensors are texts.")
    named.reverse()  # of two names for one tensor the first one stays
    return {_memory(tensor): name for name, tensor in named} | {_identity(tensor): name for name, tensor in named}


def _identity(tensor: torch.Tensor) -> tuple:
    return ("is", id(tensor))


def _memory(tensor: torch.Tensor) -> tuple:
    """Return where the values of a tensor are. Sparse, empty and meta tensors have no such place: only identity."""
    try:
        place = tensor.data_ptr()
    except (RuntimeError, ValueError):  # sparse, inside torch.func, or a lazy parameter
        place = 0
    return (place, tensor.numel()) if place else _identity(tensor)  # not the shape: a layer saves a transposed weight


def _node(function: Any, number: Mapping[Any, int], known: Mapping[tuple, str]) -> Node:
    results = tuple(_described(one) for one in function._input_metadata)
    if is_leaf(function):
        leaf = function.variable
        name = known.get(_identity(leaf)) or known.get(_memory(leaf)) or f"leaf {number[function]}"
        return Node(number[function], "leaf", results, {}, (), leaf=name)
    parents = tuple(None if parent is None else number[parent] for parent, _ in function.next_functions)
    saved = dict(saved_tensors(function))
    return Node(
        number[function],
        _operation(function),
        results,
        {name: _described(kept) if isinstance(kept, torch.Tensor) else kept for name, kept in saved.items()},
        parents,
        _why_it_stops(saved, known) if None in parents else (),
    )


def saved_tensors(function: Any) -> Iterator[tuple[str, torch.Tensor | str]]:
    """Give what a node keeps for the backward pass, by name; a sentence instead where it cannot be had."""
    if hasattr(function, "saved_tensors"):  # a torch.autograd.Function written in Python
        try:
            if packed := _packed(function._raw_saved_tensors):
                yield "saved", packed
                return
            yield from ((f"saved {place}", kept) for place, kept in enumerate(function.saved_tensors))
        except RuntimeError as error:
            yield "saved", _why_gone(error)
        return
    for attribute in dir(function):
        if attribute.startswith("_saved_"):
            name = attribute.removeprefix("_saved_")
            try:
                kept = _packed(getattr(function, f"_raw{attribute}", None)) or getattr(function, attribute)
            except RuntimeError as error:
                yield name, _why_gone(error)
                continue
            if isinstance(kept, torch.Tensor) or (isinstance(kept, str) and hasattr(function, f"_raw{attribute}")):
                yield name, kept


def _packed(saved: Any) -> str:
    """Say who packed a saved tensor (or several) away, if a hook did; to unpack it would run code that is not ours."""
    first = saved[0] if isinstance(saved, tuple) and saved else saved
    hook = getattr(first, "unpack_hook", None)
    if hook is None:
        return ""
    return CHECKPOINTED if getattr(hook, "__module__", "") == "torch.utils.checkpoint" else "packed by a hook"


def _why_gone(error: RuntimeError) -> str:
    return "changed in place since" if "inplace" in str(error) else "freed by backward"


def _why_it_stops(saved: Mapping[str, torch.Tensor | str], known: Mapping[tuple, str]) -> tuple[str, ...]:
    """Return why an operation has inputs without a graph, as far as what it saved can tell."""
    constants = [kept for kept in saved.values() if isinstance(kept, torch.Tensor) and not kept.requires_grad]
    named = [f"{known[_memory(kept)]} (needs no gradient)" for kept in constants if _memory(kept) in known]
    return tuple(named) or ("a constant, data, or a tensor that was detached",)


def _described(tensor: Any) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
