"""How a layer of the learner's is given weights, run and looked at."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from labkit.exercises.families import need_module


def matched(
    layer: nn.Module, like: dict[str, Tensor], read: Callable[[Tensor], Tensor] = Tensor.detach
) -> dict[str, Tensor] | None:
    """Return the parameters of a layer under torch's names and in torch's shapes, as views that can be written to.

    like: name -> a tensor of the shape that torch gives this parameter. A parameter of the learner's may have another
    name, be stored transposed, or with other dimensions for the same numbers. Names go first, then shapes in order.
    read: what to take of each parameter, such as its gradient. None when the parameters are others.
    """
    own, found = dict(layer.named_parameters()), {}
    if len(own) != len(like):
        return None
    for name, wanted in like.items():
        order = sorted(own, key=lambda candidate: candidate != name)  # sorting is stable: the same name first
        fitting = [candidate for candidate in order if _fits(own[candidate], wanted)]
        if not fitting:
            return None
        values = read(own.pop(fitting[0]))
        is_transposed = values.ndim == 2 and values.shape == wanted.shape[::-1] and values.shape != wanted.shape
        found[name] = values.T if is_transposed else values.view(wanted.shape)
    return found


def _fits(parameter: Tensor, wanted: Tensor) -> bool:
    squeezed = [size for size in parameter.shape if size > 1]
    same = squeezed == [size for size in wanted.shape if size > 1]
    rows_alike = parameter.shape[:1] == wanted.shape[:1] and parameter.numel() == wanted.numel()
    return same or rows_alike or (wanted.ndim == 2 and parameter.shape == wanted.shape[::-1])


def holds_torchs_own(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """Tell whether a layer of the learner's is, or has inside, the layer of torch that it is to be in place of."""
    return any(isinstance(part, kind) for part in layer.modules())


def run_layer(
    answer: Any, sizes: tuple[int, ...], settings: dict[str, int], values: dict[str, Tensor], inputs: Tensor
) -> Any:
    """Build a layer, give its parameters these values, and return its output and all gradients.

    The values that it drew itself are judged apart, and only for what would keep a network from learning.
    """
    need_module(answer)
    layer = answer(*sizes, **settings)
    inputs = inputs.clone().requires_grad_()
    if (first := layer(inputs)) is ...:
        return ...
    mine = matched(layer, values)
    observed: dict[str, Any] = {"parameters": _parameters_text(layer, values if mine else None)}
    kind = nn.Linear if values["weight"].ndim == 2 else _ConvNd
    observed["torch's own layer does the work"] = holds_torchs_own(layer, kind)
    names = ("initial weights", "output", *(f"gradient of {name}" for name in ("the input", *values)))
    if mine is None or not isinstance(first, Tensor):
        return observed | dict.fromkeys(names) | {"output": first if not isinstance(first, Tensor) else None}
    observed["initial weights"] = _initial(mine["weight"])
    for name, value in values.items():
        mine[name].copy_(value)
    output = layer(inputs)
    observed["output"] = output.detach().clone()
    (output * torch.linspace(-1, 1, output.numel()).view(output.shape)).sum().backward()
    observed["gradient of the input"] = inputs.grad
    gradients = matched(layer, values, read=lambda one: torch.zeros_like(one) if one.grad is None else one.grad)
    return observed | {f"gradient of {name}": gradient for name, gradient in gradients.items()}


def run_in_both_modes(answer: Any, values: dict[str, Tensor], batches: list[Tensor]) -> Any:
    """Build a normalisation, give its parameters these values, and use it in training, then in evaluation.

    values: weight and bias (features,). batches: float (B, features, H, W). Returns the outputs in both modes, the
    gradient of the first batch, whether a running value has a graph, and how many of them are buffers. The second
    evaluation, after another batch, shows whether that one left anything behind.
    """
    need_module(answer)
    features = len(values["weight"])
    layer = answer(features)
    if layer(batches[0]) is ...:
        return ...
    layer = answer(features)
    mine = matched(layer, values)
    observed: dict[str, Any] = {"parameters": _parameters_text(layer, values if mine else None)}
    observed["torch's own layer does the work"] = holds_torchs_own(layer, _BatchNorm)
    names = ("outputs in training", "gradient of the input", "output in evaluation", "buffers", "second evaluation")
    if mine is None:
        return observed | dict.fromkeys(names)
    for name, value in values.items():
        mine[name].copy_(value)
    first = batches[0].clone().requires_grad_()
    outputs = [layer(batch) for batch in (first, *batches[1:])]
    observed["running values drag a graph along"] = any(buffer.requires_grad for buffer in layer.buffers())
    (outputs[0] ** 3).mean().backward()
    observed["outputs in training"] = [output.detach().clone() for output in outputs]
    observed["gradient of the input"] = first.grad
    layer.eval()
    observed["output in evaluation"] = layer(batches[0]).detach()
    layer(batches[1] * 3)
    observed["second evaluation"] = layer(batches[0]).detach()
    statistics = [buffer for buffer in layer.buffers() if buffer.numel() == features > 1]
    return observed | {"buffers": f"{len(statistics)} with one number for each channel"}


def _parameters_text(layer: nn.Module, like: dict[str, Tensor] | None) -> str:
    """Return the registered parameters as text, under torch's names where they match."""
    own = dict(layer.named_parameters()) if like is None else like
    shapes = (f"{name} {'×'.join(map(str, value.shape)) or 'scalar'}" for name, value in own.items())
    return ", ".join(shapes) or "none registered"


def _initial(weight: Tensor) -> str:
    """Say what the initial weights mean for learning: torch's have a length of about 0.6 an output."""
    if weight.numel() > 1 and weight.std() == 0:
        return "all equal"
    length = weight.flatten(1).norm(dim=1).mean()
    return "so large that the outputs grow from layer to layer" if length > 3 else "of a size that lets it learn"
