"""Measurements for the topic "Autograd": what is recorded, and where gradients are kept."""

import torch
from torch import Tensor

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of, graph_nodes


def leaf(number: float) -> Tensor:
    """Return one number as a tensor that asks for a gradient."""
    return torch.tensor(number, requires_grad=True)


def has_circle(node: torch.autograd.graph.Node, behind: tuple = ()) -> bool:
    """Tell whether some way along the graph comes back to a node that it has already passed."""
    following = [next_node for next_node, _ in node.next_functions if next_node is not None]
    return node in behind or any(has_circle(next_node, (*behind, node)) for next_node in following)


@claim(
    "C069",
    true="Yes. Five operations left five nodes, also where one tensor was used twice. Every way leads from the result "
    "towards the leaves and never back. Only `no_grad` and `inference_mode` switch the recorder off.",
    false="You may think of a loop in Python, which runs in circles. Each turn is recorded anew, as further nodes, so "
    "the recording has none. And without `requires_grad` nothing was recorded at all.",
    depends="It does depend on the mode: inside `no_grad` nothing is recorded. Outside, in the normal case that the "
    "sentence describes, not one of the five operations was missing.",
)
def every_operation_is_recorded() -> dict[str, bool]:
    """Send a number through five operations, use one result twice, and walk through the graph."""
    start = leaf(2.0)
    sine = start.sin()
    result = (sine * sine.exp() + sine).sqrt()
    recorded = ["AccumulateGrad", "AddBackward0", "ExpBackward0", "MulBackward0", "SinBackward0", "SqrtBackward0"]
    plain = start.detach()
    return {
        "each of five operations left a node": graph_nodes(result) == recorded,
        "no way through the graph leads back to where it began": not has_circle(result.grad_fn),
        "without `requires_grad` nothing is recorded": (plain.sin() * plain).grad_fn is None,
    }


@claim(
    "C070",
    true="Yes, and the None is no fault: the gradient went through the tensor in between and on to the leaf. Ask with "
    "`retain_grad()` *before* backward if you want to look at it.",
    false="A None in `.grad` looks like a broken graph. But the leaf behind it got the right gradient; autograd only "
    "did not keep the one on the way, which nobody had asked for.",
    depends="You may have seen a gradient on a tensor in between. Then somebody had called `retain_grad()`, and that "
    "exception stands in the sentence.",
)
def gradients_stay_on_leaves() -> dict[str, bool]:
    """Compute 2x, square it, and look for gradients with and without retain_grad."""
    start = leaf(3.0)
    silent = 2 * start
    (silent**2).backward()
    kept = 2 * start
    kept.retain_grad()
    (kept**2).backward()
    return {
        "the leaf keeps its gradient": start.grad is not None,
        "a tensor in between shows None": silent.grad is None,
        "after `retain_grad()` it shows its gradient": kept.grad is not None and kept.grad.item() == 12,
    }


@claim(
    "C071",
    true="Yes: dz/dy is 2y = 14; times w that is 28 for x, times x it is 42 for w. For b it would be 14, but b never "
    "asked for a gradient.",
    false="Follow the chain: y = 7, so dz/dy = 14, and y changes with x by w = 2 and with w by x = 3. If you expected "
    "14 for b: that is the derivative, but PyTorch computes it only where `requires_grad` is set.",
    depends="Nothing is left open here: the numbers are given, and the shape makes no difference, as the second "
    "calculation with tensors of shape (1,) shows.",
)
def a_chain_by_numbers() -> dict[str, bool]:
    """Compute the example with plain numbers and with tensors of one element."""

    def gradients(*shape: int) -> tuple:
        x, w, b = torch.full(shape, 3.0), torch.full(shape, 2.0), torch.full(shape, 1.0)
        y = w.requires_grad_() * x.requires_grad_() + b
        (y * y).backward()
        return x.grad.item(), w.grad.item(), b.grad

    x, w, b = gradients()
    return {
        "`x.grad` is 28": x == 28,
        "`w.grad` is 42": w == 42,
        "`b.grad` is None": b is None,
        "tensors of shape (1,) give the same": gradients(1) == (x, w, b),
    }


@claim(
    "C083",
    true="Yes. `grad_fn` is the way back, and a leaf is where ways back end. The derivative of x squared is 2x, and "
    "that is 6.",
    false="Perhaps you expected a `grad_fn` on x as well, since x asks for a gradient. x was made by you and not by an "
    "operation; there is nothing behind it to go back to.",
    depends="The name of the node depends on the operation, `x * x` would give `MulBackward0`. For this power it is as "
    "stated.",
)
def a_power_and_its_way_back() -> dict[str, bool]:
    """Square 3 and look at both ends."""
    x = leaf(3.0)
    y = x**2
    y.backward()
    return {
        "the result has the `grad_fn` PowBackward0": type(y.grad_fn).__name__ == "PowBackward0" and not y.is_leaf,
        "x is a leaf without a `grad_fn`": x.is_leaf and x.grad_fn is None,
        "the gradient is 6": x.grad.item() == 6,
    }


@claim(
    "C084",
    true="Yes. The last operation, the sum, comes first when you go backwards. b is a leaf that stands directly in "
    "it, so its accumulator is the second neighbour.",
    false="Two things are easily turned round: the order, since the graph is read from the result backwards, and the "
    "gradients, since x gets the value of w and w that of x.",
    depends="The names and neighbours follow from the line of code alone, and the gradients from its numbers. With "
    "another line they would be others; with this one there is nothing to depend on.",
)
def a_sum_and_its_neighbours() -> dict[str, bool]:
    """Compute x * w + b and read the first two layers of the graph."""
    x, w, b = leaf(2.0), leaf(3.0), leaf(1.0)
    y = x * w + b
    neighbours = [node for node, _ in y.grad_fn.next_functions]
    y.backward()
    return {
        "`grad_fn` is AddBackward0": type(y.grad_fn).__name__ == "AddBackward0",
        "before it stand MulBackward0 and an accumulator": [type(node).__name__ for node in neighbours]
        == ["MulBackward0", "AccumulateGrad"],
        "the accumulator belongs to b": getattr(neighbours[1], "variable", None) is b,
        "the gradients of x, w and b are 3, 2 and 1": [t.grad.item() for t in (x, w, b)] == [3, 2, 1],
    }


@claim(
    "C085",
    true="You *set* it on leaves only, and that may be what you had in mind. Results inherit it, and there it decides "
    "just as much: the operation after the result was recorded because of it.",
    false="Right. Set it on leaves; results take it over from what they are made of, and what comes after them is "
    "recorded for that reason. `detach()` is the way to be rid of it.",
    depends="Setting it and having it are two things. That you may only set it on leaves is right, but the sentence "
    "says that it *matters* only there.",
)
def results_inherit_it() -> dict[str, bool]:
    """Look at the flag of a result, at what is computed from the result alone, and try to take the flag away."""
    result = leaf(2.0) * 3
    after, after_detached = result + 1, result.detach() + 1
    return {
        "a result does not take it over": not result.requires_grad,
        "on a result it makes no difference to what is computed from it": after.requires_grad
        == after_detached.requires_grad,
        "on a result it can be switched off, as nothing hangs on it": not error_of(
            lambda: result.requires_grad_(False)
        ),
    }


@claim(
    "C086",
    true="The rule is right, all four cases came out so. But look at the reason: this product does require grad, and "
    "still no gradient was kept in it. The two have nothing to do with each other.",
    false="The reason is wrong, the rule is right: a product requires grad exactly if one of its factors does.",
    depends="Right. One rule says *what is recorded*: whatever comes from something that requires grad. Another says "
    "*what is kept*: gradients of leaves, and of those you called `retain_grad()` on.",
)
def the_rule_without_its_reason() -> dict[str, bool]:
    """Multiply in all four combinations of the flag, and look for a gradient in a product that requires grad."""
    pairs = [(x, w) for x in (False, True) for w in (False, True)]
    flags = [(torch.ones(1, requires_grad=x) * torch.ones(1, requires_grad=w)).requires_grad for x, w in pairs]
    product = leaf(2.0) * leaf(3.0)
    (product**2).backward()
    return {
        "a product requires grad if one of its factors does, and only then": flags == [x or w for x, w in pairs],
        "this flag decides about keeping gradients: a product with it keeps its own": product.grad is not None,
    }
