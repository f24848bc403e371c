"""What `torch.autograd.grad` is good for, each use in a form that works.

`backward` adds to `.grad`, which is what an optimizer reads; `grad` returns the gradients and leaves `.grad` alone. So
these recipes can be used in the middle of a training without a trace, and `assign` hands a result to the optimizer.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from labkit.errors import LabkitError
from labkit.table import Table

Gradients = dict[str, torch.Tensor]


def gradients(loss: torch.Tensor, model: nn.Module, only: str = "", create_graph: bool = False) -> Gradients:
    """Return the gradient of a loss by each parameter that learns, by name. The graph stays, `.grad` is untouched.

    only: the beginning of the names that are wanted, such as "head.". One that the loss does not use gets zeros.
    Raises LabkitError when no parameter of this name learns.
    """
    wanted = {name: one for name, one in model.named_parameters() if one.requires_grad and name.startswith(only)}
    if not wanted:
        known = ", ".join(name for name, _ in model.named_parameters())
        raise LabkitError(f"No parameter that learns has a name beginning with {only!r}. The parameters are: {known}.")
    found = torch.autograd.grad(
        loss, list(wanted.values()), retain_graph=True, create_graph=create_graph, materialize_grads=True
    )
    return dict(zip(wanted, found, strict=True))


def assign(model: nn.Module, values: Mapping[str, torch.Tensor]) -> None:
    """Write gradients into `.grad` for the optimizer to read; parameters that are not named get None."""
    for name, parameter in model.named_parameters():
        parameter.grad = values[name].detach().clone() if name in values else None


def clipped(values: Mapping[str, torch.Tensor], largest: float) -> tuple[Gradients, torch.Tensor]:
    """Return gradients scaled down to the joint norm `largest` if they are longer, and the norm that they had."""
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(one) for one in values.values()]))
    scale = (largest / (norm + 1e-6)).clamp(max=1.0)  # the same small number as in torch.nn.utils.clip_grad_norm_
    return {name: one * scale for name, one in values.items()}, norm


def masked(values: Mapping[str, torch.Tensor], masks: Mapping[str, torch.Tensor]) -> Gradients:
    """Return gradients that are zero wherever a mask is False; parameters without a mask keep theirs whole.

    Raises LabkitError for a mask that belongs to no gradient, or has another shape.
    """
    for name, mask in masks.items():
        if name not in values or values[name].shape != mask.shape:
            shape = tuple(values[name].shape) if name in values else "no gradient"
            raise LabkitError(f"The mask {name!r} has shape {tuple(mask.shape)}; for that name there is {shape}.")
    return {name: one.where(masks[name], 0) if name in masks else one for name, one in values.items()}


def weighted(losses: Sequence[torch.Tensor], weights: Sequence[float], model: nn.Module) -> Gradients:
    """Return the weighted sum of the gradients of several losses of one graph, which is the gradient of their sum."""
    each = [gradients(loss, model) for loss in losses]
    return {name: sum(w * one[name] for w, one in zip(weights, each, strict=True)) for name in each[0]}


class _Reversal(torch.autograd.Function):
    """Forward nothing happens; backward the gradient changes its sign."""

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, values: torch.Tensor, strength: float) -> torch.Tensor:
        context.strength = strength
        return values.view_as(values)

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
    vector: a tensor in the shape of each parameter, by name.
    """
    first = gradients(loss, model, create_graph=True)
    along = sum((first[name] * vector[name]).sum() for name in first)
    return gradients(along, model)


def vector_jacobian_product(
    function: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor, vector: torch.Tensor
) -> torch.Tensor:
    """Return vector^T J, J the Jacobian of a function: how `vector`, arriving at the output, arrives at the input."""
    point = inputs.detach().requires_grad_()
    output = function(point)
    if output.shape != vector.shape:
        raise LabkitError(
            f"The vector has shape {tuple(vector.shape)}, the output {tuple(output.shape)}; make them equal."
        )
    (product,) = torch.autograd.grad(output, point, grad_outputs=vector)
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
    learning = {name: one.detach() for name, one in model.named_parameters() if one.requires_grad}
    fixed = {name: one for name, one in model.named_parameters() if not one.requires_grad} | dict(model.named_buffers())

    def loss_of_one(parameters: Gradients, sample: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return loss_fn(functional_call(model, {**fixed, **parameters}, (sample[None],)), target[None])

    return vmap(grad(loss_of_one), in_dims=(None, 0, 0), randomness="different")(learning, inputs, targets)


def gradient_penalty(function: Callable[[torch.Tensor], torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
    """Return the mean squared length of the gradient by the inputs (N, …), as a term to add to a loss.

    function: from (N, …) to one number a sample. `create_graph` lets the term reach the parameters.
    """
    points = inputs.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(function(points).sum(), points, create_graph=True)
    return slopes.flatten(1).square().sum(dim=1).mean()


def gradient_check(function: Callable[..., torch.Tensor], *inputs: torch.Tensor, step: float = 1e-6) -> Table:
    """Compare autograd with differences of the function itself, in float64: a row for each input.

    A difference quotient (f(x + h) - f(x - h)) / 2h knows nothing of graphs. In float32 rounding would drown it.
    """
    points = [one.detach().double().requires_grad_() for one in inputs]
    exact = torch.autograd.grad(function(*points).sum(), points, materialize_grads=True)
    rows = []
    for place, (point, gradient) in enumerate(zip(points, exact, strict=True)):
        measured = torch.zeros_like(gradient)
        for index in range(point.numel()):
            shift = torch.zeros_like(point).flatten()
            shift[index] = step
            higher, lower = (
                function(*points[:place], point.detach() + sign * shift.view_as(point), *points[place + 1 :]).sum()
                for sign in (1, -1)
            )
            measured.view(-1)[index] = ((higher - lower) / (2 * step)).detach()
        worst = (measured - gradient).abs().max().item()
        rows.append({"input": place, "largest gradient": gradient.abs().max().item(), "largest difference": worst})
    return Table(rows, "Gradients by autograd against difference quotients, in float64.")
