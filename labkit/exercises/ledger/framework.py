"""Measurements for the topic "Framework and dynamic graph": the graph, what it costs, and what it tells."""

import contextlib
import io
import traceback
from collections.abc import Callable

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of, graph_nodes, shortest_seconds, warnings_of


class Repeated(nn.Module):
    """Applies one layer as often as it is told, and tanh wherever the values have become positive in sum."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        nn.init.ones_(self.layer.weight)

    def forward(self, inputs: Tensor, times: int) -> Tensor:
        """Return one number from inputs of shape (batch, 3)."""
        for _ in range(times):
            inputs = self.layer(inputs)
            if inputs.sum() > 0:
                inputs = torch.tanh(inputs)
        return inputs.sum()


@claim(
    "C001",
    true="The graph is a recording of what the Python code did. The same module left a longer recording when its loop "
    "ran longer, and a node for `tanh` only where the branch was taken.",
    false="You may think of the model as a drawing that exists before any data. Nothing is drawn before: the nodes "
    "come into being line by line while `forward` runs, so the number of nodes followed the loop.",
    depends="`torch.compile` and export do make a plan beforehand, but on request and on top. What you get without "
    "asking is the recording, and it was different for each of these inputs.",
)
def the_graph_is_recorded_while_python_runs() -> dict[str, bool]:
    """Compare the graphs that one module leaves for two numbers of iterations and for two signs of the data."""
    module, positive = Repeated(), torch.ones(2, 3)
    once, thrice = graph_nodes(module(positive, 1)), graph_nodes(module(positive, 3))
    not_taken = graph_nodes(module(-10 * positive, 1))
    return {
        "more iterations of the loop leave more nodes in the graph": len(thrice) > len(once),
        "`TanhBackward0` is in the graph only where the branch was taken": "TanhBackward0" in once
        and "TanhBackward0" not in not_taken,
    }


def halved_until_small(value: Tensor) -> Tensor:
    """Halve a number until it is at most 1; give back a negative number with its sign turned."""
    if value < 0:
        return -value
    while value > 1:
        value = value / 2
    return value


@claim(
    "C002",
    true="Python decides and PyTorch records. For 12 the `while` ran four times, so the gradient is 1/16; for 3 it "
    "ran twice, so it is 1/4. Only `torch.compile` and export look at your `if` with other eyes.",
    false="You may know frameworks in which a loop must be an operator of its own. Here the loop is Python's, and the "
    "measurement finds the right value and the right gradient for every path through it.",
    depends="You may think of `torch.compile`, which splits the graph at such a branch. The model as it stands has no "
    "such limit: loop and branch followed the data, and the gradients followed them.",
)
def loops_and_branches_work_in_forward() -> dict[str, bool]:
    """Send numbers through a function with a data-dependent `while` and `if`, and compare value and gradient."""

    def value_and_gradient(number: float) -> tuple[float, float]:
        start = torch.tensor(number, requires_grad=True)
        result = halved_until_small(start)
        result.backward()
        return result.item(), start.grad.item()

    return {
        "a `while` that the data ends gives the right value and gradient": value_and_gradient(12.0) == (0.75, 1 / 16)
        and value_and_gradient(3.0) == (0.75, 1 / 4),
        "an `if` on the data gives the value and gradient of the branch it took": value_and_gradient(-5.0) == (5.0, -1),
    }


class Talking(nn.Module):
    """A small network; with `talks` it prints a shape in the middle of forward."""

    def __init__(self, talks: bool) -> None:
        super().__init__()
        self.talks, self.first, self.second = talks, nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return values of shape (batch, 2) from inputs of shape (batch, 4)."""
        hidden = self.first(inputs)
        if self.talks:
            print("hidden:", tuple(hidden.shape))
        return self.second(hidden)


@claim(
    "C003",
    true="`forward` is a Python function and nothing else, so `print` runs inside it like everywhere. It wrote the "
    "shape, and result and gradients stayed what they were.",
    false="You may expect that values do not exist yet while `forward` is written down. They do: it is being "
    "executed, and the `print` showed the true shape.",
    depends="You may fear for speed or for compiled models, where a `print` does break the graph. For the question "
    "asked, seeing shapes and values, nothing had to be switched on.",
)
def print_works_in_forward() -> dict[str, bool]:
    """Run the same network with and without a print inside, and compare all that comes out."""
    silent, talking = Talking(talks=False), Talking(talks=True)
    talking.load_state_dict(silent.state_dict())
    inputs, written = torch.randn(3, 4), io.StringIO()
    with contextlib.redirect_stdout(written):
        said = talking(inputs)
    kept = silent(inputs)
    said.sum().backward()
    kept.sum().backward()
    pairs = zip(silent.parameters(), talking.parameters(), strict=True)
    return {
        "a `print` inside `forward` shows the shape": written.getvalue() == "hidden: (3, 8)\n",
        "the result is the same with and without it": torch.equal(said, kept),
        "so are the gradients": all(torch.equal(one.grad, other.grad) for one, other in pairs),
    }


@claim(
    "C004",
    true="You think of a network with large layers, and there you are right. The same additions done one by one took "
    "a great many times as long: the price is paid for each operation, however small it is.",
    false="You may have met a loop over single elements that crawled. With large operations the price disappears: it "
    "was less than a tenth of the time that one product of matrices took.",
    depends="The price is a few millionths of a second for each operation. Divided by the work of a large operation "
    "it is nothing; divided by one addition it is nearly everything. So the number of operations decides.",
)
def the_cost_is_paid_per_operation() -> dict[str, bool]:
    """Time recorded operations that do next to nothing: all their time is cost. Compare it with large operations."""
    one, many, matrix = (torch.ones(size, requires_grad=True) for size in (1, 500, (600, 600)))
    one_by_one = shortest_seconds(lambda: [one + one for _ in range(500)])
    return {
        "it goes unnoticed in one large operation (it is less than a tenth of a product of 600×600 matrices)": (
            10 * one_by_one / 500 < shortest_seconds(lambda: matrix @ matrix)
        ),
        "it goes unnoticed in many small ones (500 additions one by one take less than 10 times the time of one "
        "operation for all)": one_by_one < 10 * shortest_seconds(lambda: many + many),
    }


def wave(values: Tensor) -> Tensor:
    """Do seven element-wise operations, one after the other."""
    return torch.sin(values).mul(2).add(1).relu().exp().sub(3).tanh()


@claim(
    "C005",
    true="The function was handed over as it stood, and all seven operations reached the compiler as one piece, which "
    "it may fuse into one pass over memory. How much that wins is for you to time, with the first call left out.",
    false="You may have seen a first call that took half a minute: that is the compilation, paid first and again "
    "for some new shapes. The code did not change, the numbers are equal, and the compiler got one piece.",
    depends="How much is won does depend: on a compiler being there, on the kind of operations, on branches that "
    "split the graph. That your code may stay as it is, and still gives its gradients, was measured and holds.",
)
def compile_takes_the_code_as_it_is() -> dict[str, bool]:
    """Compile a chain of operations with a backend that writes down what it is given, and compare the results.

    The backend runs the graph unchanged: making machine code takes longer than a demonstration may.
    """
    pieces = []

    def writing_down(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable:
        pieces.append([node for node in graph.graph.nodes if node.op.startswith("call")])
        return graph.forward

    values = torch.linspace(-2, 2, 50, requires_grad=True)
    copied = values.detach().clone().requires_grad_()
    compiled = torch.compile(wave, backend=writing_down)
    result, expected = compiled(values), wave(copied)
    result.sum().backward()
    expected.sum().backward()
    return {
        "the unchanged function gives the same numbers when compiled": torch.equal(result, expected),
        "gradients pass through it": torch.equal(values.grad, copied.grad),
        "its seven operations reach the compiler in one piece, to be fused": [len(piece) for piece in pieces] == [7],
    }


def forward_with_a_wrong_shape() -> Tensor:
    """Fail at once: the inner sizes of the product differ."""
    return torch.ones(2, 3) @ torch.ones(2, 3)


def forward_that_spoils_a_saved_value() -> Tensor:
    """Run through, and leave a graph that fails later: exp needs its result again in backward."""
    raised = torch.exp(torch.ones(3, requires_grad=True))
    raised += 1
    return raised.sum()


def functions_in_traceback(action: Callable[[], object]) -> list[str]:
    """Return the names of the functions that the traceback of a failing `action` passes through."""
    try:
        action()
    except RuntimeError as error:
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return []


@claim(
    "C006",
    true="For a fault that shows in the forward pass you are right. But the fault with the overwritten value was "
    "reported at `backward()`, and the line that had overwritten it was nowhere in the traceback.",
    false="You may have been sent to `backward()` by a fault that was made elsewhere. Most faults are of the other "
    "kind: a wrong shape is reported in the very line that multiplies.",
    depends="PyTorch can only report when it notices. In the forward pass that is at once; a value that is spoilt for "
    "`backward` is noticed in `backward`. `torch.autograd.set_detect_anomaly(True)` then names the forward line.",
)
def tracebacks_name_the_line_of_forward_errors() -> dict[str, bool]:
    """Make one fault that shows in forward and one that shows in backward, and read both tracebacks."""
    guilty = {"shape": "forward_with_a_wrong_shape", "spoilt": "forward_that_spoils_a_saved_value"}
    spoilt = forward_that_spoils_a_saved_value()

    def with_anomaly_mode() -> str:
        with torch.autograd.set_detect_anomaly(True):
            return error_of(forward_that_spoils_a_saved_value().backward)

    in_forward, in_backward = map(functions_in_traceback, (forward_with_a_wrong_shape, spoilt.backward))
    told = " ".join(warnings_of(with_anomaly_mode))
    return {
        "the traceback of an error in forward leads to the guilty line": guilty["shape"] in in_forward,
        "so does that of an error which backward finds": guilty["spoilt"] in in_backward,
        "in anomaly mode a warning names the forward line of such an error": guilty["spoilt"] in told,
    }
