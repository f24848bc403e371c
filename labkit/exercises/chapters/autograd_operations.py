"""Chapter 02, fourth part: an operation of one's own."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
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
