"""Chapter 02, third part: an operation of one's own, and second derivatives."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.exercises.chapters.tensors_making import normal
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind


def forward_and_backward(answer: Any, x: Tensor) -> Any:
    """Apply an autograd.Function to a leaf, send different gradients back, and return its value and its gradient."""
    if not (inspect.isclass(answer) and issubclass(answer, torch.autograd.Function)):
        raise WrongKind("This exercise asks for a class derived from torch.autograd.Function. Give `check` the class.")
    leaf = x.detach().clone().requires_grad_()
    result = answer.apply(leaf)
    if not isinstance(result, Tensor):
        return result
    result.backward(2 + x.sin())
    return {"value": result.detach(), "gradient": leaf.grad}


def _swish(slope: Callable[[Tensor, Tensor], Tensor]) -> type[torch.autograd.Function]:
    """Return a Swish with another backward: from x and the upstream gradient to the gradient."""

    class Swish(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Tensor) -> Tensor:
            context.save_for_backward(x)
            return x * torch.sigmoid(x)

        @staticmethod
        def backward(context: Any, upstream: Tensor) -> Tensor:
            (x,) = context.saved_tensors
            return slope(x, upstream)

    return Swish


def _true_slope(x: Tensor) -> Tensor:
    sigmoid = torch.sigmoid(x)
    return sigmoid + x * sigmoid * (1 - sigmoid)


SWISH = Exercise(
    name="Swish",
    prompt="Write an operation of your own: forward `x * sigmoid(x)`, backward its derivative. It is to keep one "
    "tensor for the backward pass, `x`. (The derivative of sigmoid(x) is sigmoid(x) · (1 - sigmoid(x)).)",
    stub="""class Swish(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return ...  # your turn: keep what backward needs, return the value

    @staticmethod
    def backward(context, upstream):
        return ...  # your turn: what arrives, times the slope""",
    solved="""class Swish(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(context, upstream):
        (x,) = context.saved_tensors
        sigmoid = torch.sigmoid(x)
        return upstream * (sigmoid + x * sigmoid * (1 - sigmoid))""",
    hints=(
        "`context.save_for_backward(x)` keeps a tensor, `context.saved_tensors` gives back a tuple.",
        "A product of two things that both depend on x: the product rule has two terms.",
        "The slope is s + x · s · (1 - s), with s = sigmoid(x). And what arrives from above is multiplied to it.",
    ),
    cases=lambda generator: [(normal(generator, 5),), (2 * normal(generator, 2, 3),), (normal(generator, 1) - 1,)],
    run=forward_and_backward,
    praise="It keeps one tensor; the same formula written with torch's operations keeps two.",
    misconceptions=(
        Misconception(
            "what arrives is ignored",
            _swish(lambda x, upstream: _true_slope(x)),
            "That is the slope. The chain rule wants *what arrives times the slope*: without it, everything that comes "
            "after your operation is forgotten.",
        ),
        Misconception(
            "added instead of multiplied",
            _swish(lambda x, upstream: upstream + _true_slope(x)),
            "Along a path gradients are *multiplied*; they are added only where paths meet.",
        ),
        Misconception(
            "half of the product rule",
            _swish(lambda x, upstream: upstream * torch.sigmoid(x)),
            "You treated sigmoid(x) as a constant factor. It depends on x as well: the product rule has two terms.",
        ),
        Misconception(
            "the slope of sigmoid alone",
            _swish(lambda x, upstream: upstream * torch.sigmoid(x) * (1 - torch.sigmoid(x))),
            "That is the derivative of sigmoid(x). The function is *x times* sigmoid(x).",
        ),
        Misconception(
            "the value instead of the slope",
            _swish(lambda x, upstream: upstream * x * torch.sigmoid(x)),
            "Backward multiplies by the derivative. You multiplied by the function itself.",
        ),
    ),
)


def quartic(generator: torch.Generator, *shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a loss with mixed second derivatives, its weight, and a vector."""
    weight = normal(generator, *shape).requires_grad_()
    loss = (weight**4).sum() + weight.sum() ** 2 + (weight * weight.roll(1)).sum()
    return loss, weight, normal(generator, *shape)


def _gradient(loss: Tensor, weight: Tensor, create_graph: bool = True) -> Tensor:
    return torch.autograd.grad(loss, weight, create_graph=create_graph)[0]


def _no_graph_of_the_gradient(loss: Tensor, weight: Tensor, vector: Tensor) -> Tensor:
    return torch.autograd.grad(_gradient(loss, weight, create_graph=False), weight, grad_outputs=vector)[0]


HESSIAN_TIMES = Exercise(
    name="hessian_times",
    prompt="How does the gradient change when the weight moves along `vector`? That is the matrix of second "
    "derivatives times the vector. Return it without making the matrix: two calls of `torch.autograd.grad`.",
    stub='''def hessian_times(loss, weight, vector):
    """Return the second derivatives of loss by weight, times vector: in the shape of weight."""
    return ...  # your turn''',
    solved='''def hessian_times(loss, weight, vector):
    """Return the second derivatives of loss by weight, times vector: in the shape of weight."""
    (slope,) = torch.autograd.grad(loss, weight, create_graph=True)
    (product,) = torch.autograd.grad(slope, weight, grad_outputs=vector)
    return product''',
    hints=(
        "The gradient is a function of the weight. To differentiate it, it must have a graph itself.",
        "`create_graph=True` gives it one. Then (gradient · vector) is one number that can be differentiated.",
        "`torch.autograd.grad(gradient, weight, grad_outputs=vector)` does the product and the derivative in one.",
    ),
    cases=lambda generator: [quartic(generator, 3), quartic(generator, 2, 2), quartic(generator, 5)],
    praise="The cost of about two backward passes, for a matrix that never exists.",
    misconceptions=(
        Misconception(
            "a gradient without a graph",
            _no_graph_of_the_gradient,
            "The first gradient is a plain tensor: nobody recorded how it was computed. `create_graph=True` records "
            "the backward pass itself.",
        ),
        Misconception(
            "the gradient times the vector",
            lambda loss, weight, vector: (_gradient(loss, weight) * vector).detach(),
            "That is the *first* derivative, weighted. Differentiate it once more.",
        ),
        Misconception(
            "the vector comes too late",
            lambda loss, weight, vector: _gradient(_gradient(loss, weight).sum(), weight, False) * vector,
            "You summed the gradient, differentiated, and multiplied afterwards: H · (1, 1, …), times the vector by "
            "elements. The vector must be in before the second derivative: it says along which direction.",
        ),
        Misconception(
            "the vector is missing",
            lambda loss, weight, vector: _gradient(_gradient(loss, weight).sum(), weight, False),
            "`.sum()` stands for a vector of ones. Yours is another one.",
        ),
    ),
)


EXERCISES = [SWISH, HESSIAN_TIMES]
