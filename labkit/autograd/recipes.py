"""What `torch.autograd.grad` is good for, each use in a form that works.

`backward` adds to `.grad`, which is what an optimizer reads; `grad` returns the gradients and leaves `.grad` alone. So
these recipes can be used in the middle of a training without a trace, and `assign` hands a result to the optimizer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from labkit.autograd.trace import cannot_go_back
from labkit.errors import LabkitError
from labkit.table import Table

Gradients = dict[str, torch.Tensor]


def _derivatives(output: torch.Tensor, inputs: Sequence[torch.Tensor], **options: Any) -> tuple[torch.Tensor, ...]:
    """Return what `torch.autograd.grad` returns; what it cannot do is one sentence."""
    if not isinstance(output, torch.Tensor):
        raise LabkitError(f"Only a tensor has a graph to differentiate, and this is a {type(output).__name__}.")
    try:
        return torch.autograd.grad(output, inputs, **options)
    except RuntimeError as error:
        raise cannot_go_back(error) from error


def gradients(loss: torch.Tensor, model: nn.Module, only: str = "", create_graph: bool = False) -> Gradients:
    """Return the gradient of a loss by each parameter that learns, by name. The graph stays, `.grad` is untouched.

    only: the beginning of the names that are wanted, such as "head.". One that the loss does not use gets zeros.
    Raises LabkitError when no parameter of this name learns.
    """
    wanted = {name: one for name, one in model.named_parameters() if one.requires_grad and name.startswith(only)}
    if not wanted:
        known = ", ".join(name for name, _ in model.named_parameters())
        raise LabkitError(f"No parameter that learns has a name beginning with {only!r}. The parameters are: {known}.")
    found = _derivatives(
        loss, list(wanted.values()), retain_graph=True, create_graph=create_graph, materialize_grads=True
    )
    return dict(zip(wanted, found, strict=True))


def assign(model: nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Write gradients into `.grad` for the optimizer to read; parameters that are not named get None.

    Raises LabkitError, and writes nothing, for a name or a shape that is none of the model's.
    """
    _need_shapes(values, dict(model.named_parameters()), "gradient")
    for name, parameter in model.named_parameters():
        parameter.grad = values[name].detach().clone() if name in values else None


def _need_shapes(values: Mapping[str, torch.Tensor], models: Mapping[str, torch.Tensor], what: str) -> None:
    for name, value in values.items():
        if name not in models:
            raise LabkitError(f"There is no parameter {name!r} for this {what}. The names are: {', '.join(models)}.")
        if value.shape != models[name].shape:
            shapes = f"{tuple(value.shape)} is not {tuple(models[name].shape)}"
            raise LabkitError(f"The {what} for {name!r} has another shape than the parameter: {shapes}.")


def clipped(values: Mapping[str, torch.Tensor], largest: float) -> tuple[Gradients, torch.Tensor]:
    """Return gradients scaled down to the joint norm `largest` if they are longer, and the norm that they had."""
    if not values or largest < 0:
        raise LabkitError("To clip, there must be gradients, and a largest norm that is not negative.")
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one) for one in values.values()]))
    scale = (largest / (norm + 1e-6)).clamp(max=1.0)  # the same small number as in torch.nn.utils.clip_grad_norm_
    return {name: one * scale for name, one in values.items()}, norm


def masked(values: Mapping[str, torch.Tensor], masks: Mapping[str, torch.Tensor]) -> Gradients:
    """Return gradients that are zero wherever a mask is False; parameters without a mask keep theirs whole.

    Raises LabkitError for a mask that belongs to no gradient, has another shape, or is not of True and False.
    """
    for name, mask in masks.items():
        if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
            raise LabkitError(f"The mask {name!r} must be a tensor of True and False.")
        if name not in values or values[name].shape != mask.shape:
            shape = tuple(values[name].shape) if name in values else "no gradient"
            raise LabkitError(f"The mask {name!r} has shape {tuple(mask.shape)}; for that name there is {shape}.")
    return {name: one.where(masks[name], 0) if name in masks else one for name, one in values.items()}


def weighted(losses: Sequence[torch.Tensor], weights: Sequence[float], model: nn.Module) -> Gradients:
    """Return the weighted sum of the gradients of several losses of one graph, which is the gradient of their sum."""
    if not losses or len(losses) != len(weights):
        raise LabkitError(f"Each loss needs a weight; there are {len(losses)} losses and {len(weights)} weights.")
    each = [gradients(loss, model) for loss in losses]
    return {name: sum(w * one[name] for w, one in zip(weights, each, strict=True)) for name in each[0]}


class _Reversal(torch.autograd.Function):
    """Forward nothing happens; backward the gradient changes its sign."""

    generate_vmap_rule = True  # this and `setup_context` let it into torch.func, as for gradients of each sample

    @staticmethod
    def forward(values: torch.Tensor, strength: float) -> torch.Tensor:
        return values.view_as(values)

    @staticmethod
    def setup_context(context: torch.autograd.function.FunctionCtx, inputs: tuple, output: torch.Tensor) -> None:
        context.strength = inputs[1]

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, upstream: torch.Tensor) -> tuple[torch.Tensor, None]:
        return -context.strength * upstream, None


class ReverseGradient(nn.Module):
    """A layer that passes values on and turns gradients round: what comes before it learns to hinder what follows.

    strength: factor of the reversed gradient. Source: Ganin and Lempitsky, arXiv 1409.7495.
    """

    def __init__(self, strength: float = 1.0) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values as they are."""
        return _Reversal.apply(values, self.strength)


def hessian_vector_product(loss: torch.Tensor, model: nn.Module, vector: Mapping[str, torch.Tensor]) -> Gradients:
    """Return the second derivatives of a loss times a vector, without ever making the matrix.

    The gradient is computed with `create_graph`, so that it has a graph itself, and is differentiated once more.
    vector: a tensor in the shape of each parameter that learns, by name.
    """
    first = gradients(loss, model, create_graph=True)
    if missing := set(first) - set(vector):
        raise LabkitError(f"The vector has no part for {min(missing)!r}.")
    _need_shapes({name: vector[name] for name in first}, first, "vector")
    along = sum((first[name] * vector[name]).sum() for name in first)
    if not along.requires_grad:  # a loss that is linear in all parameters: its slope does not change
        return {name: torch.zeros_like(one) for name, one in first.items()}
    return gradients(along, model)


def _point(inputs: torch.Tensor) -> torch.Tensor:
    """Return a leaf with these values."""
    if not (inputs.is_floating_point() or inputs.is_complex()):
        raise LabkitError(f"Only floating-point values have a slope, and these are {inputs.dtype}. Use `.float()`.")
    return inputs.detach().requires_grad_()


@torch.enable_grad()
def vector_jacobian_product(
    function: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor, vector: torch.Tensor
) -> torch.Tensor:
    """Return vector^T J, J the Jacobian of a function: how `vector`, arriving at the output, arrives at the input."""
    point = _point(inputs)
    output = function(point)
    if not isinstance(output, torch.Tensor):
        raise LabkitError(f"The function must return a tensor, and this is a {type(output).__name__}.")
    if output.shape != vector.shape:
        raise LabkitError(
            f"The vector has shape {tuple(vector.shape)}, the output {tuple(output.shape)}; make them equal."
        )
    (product,) = _derivatives(output, [point], grad_outputs=vector)
    return product


def per_sample_gradients(
    model: nn.Module,
    loss_fn: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    inputs: torch.Tensor,
    targets: torch.Tensor,
) -> Gradients:
    """Return the gradient of each sample's own loss: (N, *shape of the parameter) by name.

    loss_fn: from (1, …) outputs and (1, …) targets to one number. The model must treat samples one by one: no batch
    normalisation in training mode. The mean over N is the gradient of the mean loss.
    """
    if len(inputs) != len(targets) or not len(inputs):
        raise LabkitError(f"Each sample needs a target; there are {len(inputs)} samples and {len(targets)} targets.")
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training for part in model.modules()):
        raise LabkitError("Batch normalisation in training mode mixes the samples. Call `model.eval()` before.")
    learning = {name: one.detach() for name, one in model.named_parameters() if one.requires_grad}
    fixed = {name: one for name, one in model.named_parameters() if not one.requires_grad} | dict(model.named_buffers())

    def loss_of_one(parameters: Gradients, sample: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        loss = loss_fn(functional_call(model, {**fixed, **parameters}, (sample[None],)), target[None])
        if loss.ndim:
            raise LabkitError(f"`loss_fn` must return one number, and this has shape {tuple(loss.shape)}. Average it.")
        return loss

    return vmap(grad(loss_of_one), in_dims=(None, 0, 0), randomness="different")(learning, inputs, targets)


@torch.enable_grad()
def gradient_penalty(function: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """Return the mean squared length of the gradient by the inputs (N, …), as a term to add to a loss.

    function: from (N, …) to one number a sample. `create_graph` lets the term reach the parameters.
    """
    points = _point(inputs)
    (slopes,) = _derivatives(function(points).sum(), [points], create_graph=True)
    return slopes.square().sum() / len(slopes)


@torch.enable_grad()
def gradient_check(function: Callable[..., torch.Tensor], *inputs: torch.Tensor, step: float = 1e-6) -> Table:
    """Compare autograd with differences of the function itself, in float64: a row for each input.

    A difference quotient (f(x + h) - f(x - h)) / 2h knows nothing of graphs. In float32 rounding would drown it.
    """
    points = [one.detach().double().requires_grad_() for one in inputs]
    if not points or not all(point.numel() for point in points):
        raise LabkitError("There is nothing to check: the function needs inputs, and each of them an element.")
    exact = _derivatives(function(*points).sum(), points, materialize_grads=True)
    rows = []
    for place, (point, gradient) in enumerate(zip(points, exact, strict=True)):
        measured = torch.zeros(point.numel(), dtype=torch.float64)
        for index in range(point.numel()):
            shift = torch.zeros_like(point).flatten()
            shift[index] = step
            higher, lower = (
                function(*points[:place], point.detach() + sign * shift.view_as(point), *points[place + 1 :]).sum()
                for sign in (1, -1)
            )
            measured[index] = ((higher - lower) / (2 * step)).item()
        worst = (measured - gradient.flatten().cpu()).abs().max().item()
        rows.append({"input": place, "largest gradient": gradient.abs().max().item(), "largest difference": worst})
    return Table(rows, "Gradients by autograd against difference quotients, in float64.")
