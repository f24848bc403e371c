"""How an answer is run, one function a kind of answer: `run(answer, *inputs)` returns all that may be judged.

What is returned is compared with what the same run of the solution returns, so a run decides what counts: the result
alone, or also what became of the input, which storage it uses, which weights moved.
"""

import inspect
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from labkit.errors import LabkitError
from labkit.randomness import generator


class WrongKind(LabkitError):
    """The answer is not of the kind that can be checked: a value instead of a function, or the other way round."""


def value(answer: Any) -> Any:
    """Return a value as it is."""
    if inspect.isroutine(answer):
        raise WrongKind("This exercise asks for a value. Give `check` the value itself, not a function.")
    return answer


def call(answer: Any, *inputs: Any) -> Any:
    """Call a function and return its result."""
    need_function(answer)
    return answer(*inputs)


def in_place(answer: Any, first: torch.Tensor, *others: Any) -> Any:
    """Call a function that changes its first input, and return that input. What the function returns is not judged.

    The `return ...` of the stub may stay, below lines that change the input.
    """
    need_function(answer)
    before = first.clone()
    result = answer(first, *others)
    return ... if result is ... and torch.equal(first, before) else first


def view_of(answer: Any, first: torch.Tensor, *others: Any) -> Any:
    """Call a function; return its result and whether it lies in the storage of the first input."""
    need_function(answer)
    result = answer(first, *others)
    shares = isinstance(result, torch.Tensor)
    shares = shares and result.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
    return {"result": result, "shares memory with the input": shares}


def module(answer: Any, *inputs: Any) -> Any:
    """Build a module class and call the module: its output, its parameters by shape, and whether gradients arrive.

    Parameters of one shape get equal values in every answer, so that the order of creation does not count.
    """
    need_module(answer)
    built = answer()
    _fill(built)
    output = built(*inputs)
    is_tensor = isinstance(output, torch.Tensor)
    if is_tensor and output.requires_grad:
        output.sum().backward()
    parameters = list(built.parameters())
    return {
        "number of parameters": sum(parameter.numel() for parameter in parameters),
        "shapes of the parameters": sorted(tuple(parameter.shape) for parameter in parameters),
        "parameters with a gradient": sum(parameter.grad is not None for parameter in parameters),
        "output": output.detach() if is_tensor else output,
    }


def _fill(built: nn.Module) -> None:
    """Set each parameter to values that depend on its shape, and on how many of that shape came before it."""
    seen: Counter[tuple] = Counter()
    for parameter in built.parameters():
        shape = tuple(parameter.shape)
        values = torch.randn(shape, generator=generator(0, f"fill {shape}", index=seen[shape]))
        parameter.data.copy_(values / max(1, math.prod(shape[1:])) ** 0.5)
        seen[shape] += 1


def training_step(answer: Any, model: nn.Module, optimizer: torch.optim.Optimizer, *batch: torch.Tensor) -> Any:
    """Call `answer(model, optimizer, *batch)` twice: what it returns, the weights after it, the mode of the model."""
    need_function(answer)
    returned = [answer(model, optimizer, *batch) for _ in range(2)]  # a forgotten zero_grad shows in the second step
    if any(one is ... for one in returned):
        return ...
    return {
        "returned": [one.detach() if isinstance(one, torch.Tensor) else one for one in returned],
        **{f"weight {name} after two steps": weight.detach().clone() for name, weight in model.named_parameters()},
        "training mode": model.training,
    }


def need_function(answer: Any) -> None:
    """Raise WrongKind for what cannot be called."""
    if not isinstance(answer, Callable):
        raise WrongKind("This exercise asks for a function. Give `check` the function itself, without calling it.")


def need_module(answer: Any) -> None:
    """Raise WrongKind for anything but a class of modules."""
    if not (inspect.isclass(answer) and issubclass(answer, nn.Module)):
        raise WrongKind("This must be a class derived from nn.Module. Give the class, without brackets behind it.")
