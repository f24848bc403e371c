"""What `torch.compile` makes of a function: how many graphs, where it breaks, when it compiles again."""

import logging
from collections.abc import Callable, Sequence

import torch
import torch._dynamo

from labkit.table import Table

BRANCH = "a branch on the value of a tensor"


class CountingBackend:
    """A backend for `torch.compile` that counts the graphs it is given and runs them as they are.

    It translates nothing, so it needs no compiler. graphs: the operations of each graph, by name.
    """

    def __init__(self) -> None:
        self.graphs: list[list[str]] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list) -> Callable:
        """Note a graph and return what runs it."""
        calls = (node for node in graph.graph.nodes if node.op.startswith("call_"))
        self.graphs.append([getattr(node.target, "__name__", str(node.target)) for node in calls])
        return graph.forward


def graphs_after(function: Callable, calls: Sequence[tuple], dynamic: bool | None = None) -> list[int]:
    """Compile a function, make the calls, and return how many graphs there were after each of them.

    calls: a tuple of arguments for each call. A number that grows means that something was compiled anew. dynamic: as
    for `torch.compile`; None lets it see which sizes change. What was compiled before in this process is forgotten.
    """
    torch._dynamo.reset()
    backend = CountingBackend()
    compiled, counts = torch.compile(function, backend=backend, dynamic=dynamic), []
    for arguments in calls:
        compiled(*arguments)
        counts.append(len(backend.graphs))
    torch._dynamo.reset()
    return counts


def graph_breaks(function: Callable, *arguments: object) -> Table:
    """Return a row for each place at which the graph of a function breaks: the line, and the reason.

    Between two graphs Python runs, as it always did: the result is right, and nothing is gained across the break.
    """
    torch._dynamo.reset()
    explained = torch._dynamo.explain(function)(*arguments)
    torch._dynamo.reset()
    rows = []
    for found in explained.break_reasons:
        place = found.user_stack[-1]
        reason = found.reason.strip().splitlines()[0]
        branch = reason.startswith("generic_jump")  # torch's name for an `if` in the bytecode of Python
        rows.append({"line": (place.line or "").strip(), "reason": BRANCH if branch else reason})
    return Table(rows, f"{explained.graph_count} graphs, {len(rows)} breaks")


def translated(function: Callable, *arguments: object) -> tuple[Callable | None, str]:
    """Return a function compiled by torch's own backend, after its first call; or None, and one sentence why not.

    Its backend needs a C++ compiler for a CPU, and Triton with a C compiler for a GPU.
    """
    torch._dynamo.reset()
    compiled = torch.compile(function)
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # else it says where it looks for a GPU
    try:
        compiled(*arguments)
    except Exception as error:  # whatever a compiler that is missing, too old or forbidden leads to
        last = str(error).strip().splitlines() or [type(error).__name__]
        return None, f"torch.compile cannot translate on this computer, so that part is left out: {last[0][:120]}"
    return compiled, ""
