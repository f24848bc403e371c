"""Measurements for the topic "Autograd": `torch.autograd.grad` beside `backward`, and derivatives of derivatives."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


def small_loss() -> tuple[nn.Linear, Tensor]:
    """Return a layer and a loss computed with it."""
    layer = nn.Linear(3, 1)
    return layer, layer(torch.randn(4, 3)).square().mean()


@claim(
    "C092",
    true="They look related, and they are: as siblings. Among the names that the code of `backward` uses, `grad` does "
    "not occur; it calls the engine itself, just as `grad` does.",
    false="Right. One engine, two doors: `backward` adds to `.grad` of the leaves, `grad` returns a tuple for the "
    "inputs that you name.",
    depends="Both compute the same numbers, that much is right. But neither is made of the other, in no part that was "
    "looked at.",
)
def siblings_over_one_engine() -> dict[str, bool]:
    """Read the names that the code of both uses, and look at what each leaves behind."""
    names = {function: function.__code__.co_names for function in (torch.autograd.backward, torch.autograd.grad)}
    layer, loss = small_loss()
    torch.autograd.grad(loss, layer.parameters())
    return {
        "`backward` calls `grad`": "grad" in names[torch.autograd.backward],
        "only `grad` calls the engine": "_engine_run_backward" in names[torch.autograd.grad]
        and "_engine_run_backward" not in names[torch.autograd.backward],
        "`grad` fills `.grad`, as `backward` must": any(weight.grad is not None for weight in layer.parameters()),
    }


@claim(
    "C093",
    true="The numbers are the same, and the rest is not. `grad` handed them to you and filled no `.grad`, so an "
    "optimizer would find nothing; and with `retain_graph=True` the graph stayed, where backward had freed it.",
    false="Right. To do what backward does, you would add each returned gradient to the `.grad` of its weight, and "
    "leave `retain_graph` out.",
    depends="They agree in the numbers, and you may mean that. In what they *do* they differ at each of the three "
    "points below.",
)
def the_same_numbers_in_other_places() -> dict[str, bool]:
    """Call each on a loss of its own, and compare what it returns, fills and leaves."""
    layer, loss = small_loss()
    returned = torch.autograd.grad(loss, layer.parameters(), retain_graph=True)
    filled_by_grad = layer.weight.grad is not None
    other, other_loss = small_loss()
    returned_by_backward = other_loss.backward()
    return {
        "both return the same kind of thing": type(returned) is type(returned_by_backward),
        "both fill `.grad`": filled_by_grad == (other.weight.grad is not None),
        "both leave the graph in the same state": error_of(loss.backward) == error_of(other_loss.backward),
    }


@claim(
    "C097",
    true="The shapes and the loss are fine, so it looks complete. But nobody asked for a gradient: `torch.randn` makes "
    "a plain tensor, no operation was recorded, and backward has nowhere to go.",
    false="Right. In a program the logits come from a model, whose weights ask for gradients. Alone they must be made "
    "with `requires_grad=True`.",
    depends="It does run with other logits, such as a model's. With those that stand there it does not.",
)
def nothing_asks_for_a_gradient() -> dict[str, bool]:
    """Run the lines as they stand."""
    logits, targets = torch.randn(2, 3), torch.ones(2, 3)
    loss = nn.BCEWithLogitsLoss(reduction="none")(logits, targets)
    return {
        "the loss was recorded": loss.grad_fn is not None,
        "its backward pass runs": not error_of(lambda: loss.mean().backward()),
    }


@claim(
    "C098",
    true="`loss` is still there, and `sum()` even adds a new node, so it looks possible. But the way on from there "
    "goes through nodes whose saved values the first call has freed.",
    false="Right. Compute the loss anew, or write `retain_graph=True` into the first call. `create_graph=True` in the "
    "second comes too late: it concerns what the second call keeps.",
    depends="It would work if the first call had kept the graph. As the sentence has it, it did not, and both "
    "attempts were refused.",
)
def the_first_call_frees_for_both() -> dict[str, bool]:
    """Call grad after backward, on a sum made after it and on one made before it."""
    logits = torch.randn(2, 3, requires_grad=True)
    loss = functional.binary_cross_entropy_with_logits(logits, torch.ones(2, 3), reduction="none")
    sum_before = loss.sum()
    loss.mean().backward()

    def refused(total: Tensor) -> bool:
        return error_of(lambda: torch.autograd.grad(total, logits, create_graph=True)) != ""

    return {
        "it runs when `loss.sum()` is computed afterwards": not refused(loss.sum()),
        "it runs when `loss.sum()` was computed beforehand": not refused(sum_before),
    }


def cubes(start: Tensor) -> Tensor:
    """Return the sum of cubes, with the gradient 3x² and the second derivatives 6x."""
    return (start**3).sum()


@claim(
    "C100",
    true="Yes. The backward pass itself is recorded then, and so has a graph that can be walked. Gradient penalties "
    "and Hessian-vector products are made of this.",
    false="You may have tried it on a gradient from `.grad` after a plain `backward()`. That one has no graph. The one "
    "made with `create_graph=True` has, and its derivative came out as 6x.",
    depends="A derivative of a straight line has nothing left to differentiate, so the second call may complain. The "
    "gradient of anything curved can be differentiated once more.",
)
def a_gradient_has_a_gradient() -> dict[str, bool]:
    """Differentiate a sum of cubes twice, with and without the graph of the first derivative."""
    start = torch.tensor([1.0, 2.0], requires_grad=True)
    (first,) = torch.autograd.grad(cubes(start), start, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), start)
    (plain,) = torch.autograd.grad(cubes(start), start)
    return {
        "the gradient made with it has a graph of its own": first.grad_fn is not None and plain.grad_fn is None,
        "the second derivative of x³ comes out as 6x": second.tolist() == [6, 12],
    }


class Cubed(torch.autograd.Function):
    """The cube of a number with a gradient written by hand: `factor` times its square. Right for a factor of 3."""

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, values: Tensor, factor: float) -> Tensor:
        """Return the cubes of the values."""
        context.save_for_backward(values)
        context.factor = factor
        return values**3

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, upstream: Tensor) -> tuple[Tensor, None]:
        """Return the gradient by the values; the factor has none."""
        (values,) = context.saved_tensors
        return upstream * context.factor * values**2, None


@claim(
    "C105",
    true="Yes: `gradcheck` passed the right gradient and found the wrong one. Give it float64.",
    false="Differences are not exact, and that may be your doubt. In float64 they are exact enough to tell a right "
    "gradient from a wrong one; in float32 even the right one was turned down, so the dtype matters.",
    depends="It does depend on the dtype, and on points where a function has a kink. With float64 and a smooth "
    "function it decides.",
)
def finite_differences_tell_right_from_wrong() -> dict[str, bool]:
    """Check a right and a wrong gradient in float64, and the right one in float32."""

    def passes(factor: float, dtype: torch.dtype) -> bool:
        values = torch.tensor([1.3, -2.7], dtype=dtype, requires_grad=True)
        return torch.autograd.gradcheck(Cubed.apply, (values, factor), raise_exception=False)

    return {
        "a right gradient passes": passes(3.0, torch.float64),
        "a wrong gradient is found": not passes(2.5, torch.float64),
        "rounding is in the way only in float32": not passes(3.0, torch.float32),
    }


@claim(
    "C106",
    true="The line itself is right, and it fails all the same if `gradients` came from a plain call: they carry no "
    "graph, so there is nothing to differentiate once more.",
    false="It works, and gave exactly the Hessian times v, once the first gradients had been computed with "
    "`create_graph=True`.",
    depends="Right: it hangs on how `gradients` was made. `torch.func.jvp(torch.func.grad(f), (w,), (v,))` has no such "
    "trap, as it makes both derivatives itself.",
)
def a_product_with_the_hessian() -> dict[str, bool]:
    """Multiply the Hessian of a sum of cubes, which is diagonal with 6x, by a vector."""
    start, vector = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, -1.0])

    def product(create_graph: bool) -> list[float]:
        gradients = torch.autograd.grad(cubes(start), start, create_graph=create_graph)
        return torch.autograd.grad(gradients, start, grad_outputs=vector, retain_graph=True)[0].tolist()

    return {
        "for gradients made with `create_graph=True` it is the product": product(create_graph=True) == [6, -12],
        "for gradients made without, it runs": not error_of(lambda: product(create_graph=False)),
    }
