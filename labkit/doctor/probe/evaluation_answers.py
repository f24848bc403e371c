"""Models whose answers are known, and models whose last layer is exaggerated."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn import functional

from labkit.doctor.nested import leaves, mapped


def last_layer(model: nn.Module, run: Callable[[], Any]) -> tuple[str, nn.Module] | None:
    """Return the name of the layer with weights that is called last, and the layer, while `run` runs the model."""
    called: list[str] = []
    modules = {
        name: module
        for name, module in model.named_modules()
        if not list(module.children()) and list(module.parameters(recurse=False))
    }
    hooks = [
        module.register_forward_hook(lambda *_, name=name: called.append(name)) for name, module in modules.items()
    ]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return (called[-1], modules[called[-1]]) if called else None


def exaggerated(layer: nn.Module, factor: float) -> Any:
    """Multiply what a layer returns; the handle that is returned ends it."""
    return layer.register_forward_hook(lambda _, __, outputs: mapped(outputs, lambda tensor: tensor * factor))


def only_tensor(outputs: Any) -> Tensor | None:
    """Return the first tensor of floating point in some outputs."""
    return next((leaf for leaf in leaves(outputs) if isinstance(leaf, Tensor) and leaf.is_floating_point()), None)


def always_a_share(model: nn.Module, inputs: tuple) -> bool:
    """Say whether the outputs stay between 0 and 1 when the last layer's are multiplied by 1000 and by -1000."""
    with torch.no_grad():
        found = last_layer(model, lambda: model(*inputs))
        for factor in (1_000.0, -1_000.0) if found else ():
            hook = exaggerated(found[1], factor)
            outputs = only_tensor(model(*mapped(inputs, Tensor.clone)))
            hook.remove()
            if outputs.min() < 0 or outputs.max() > 1:
                return False
    return found is not None


def known_answer(outputs: Any, targets: Tensor, strength: float, bounded: bool | None = None) -> Any:
    """Return what a model that is right gives in place of its outputs; with strength below 0, one that is wrong.

    strength: margin of the right class, in logits; where the outputs are probabilities, in their scale. Numbers are
    right if they are the targets; with a strength below 1 they are off by it.
    bounded: whether the outputs are always between 0 and 1; None to judge by these.
    Raises ValueError if it cannot be told from outputs and targets what a right answer is.
    """
    if isinstance(outputs, tuple | list):
        return type(outputs)([known_answer(outputs[0], targets, strength, bounded), *outputs[1:]])
    if targets.shape == outputs.shape or targets.numel() == outputs.numel() == len(targets):
        return _of_same_shape(outputs, targets.reshape(outputs.shape), strength, bounded)
    classes = _classes(outputs, targets)
    count = outputs.shape[classes]
    chosen = targets.clamp(0, count - 1) if strength > 0 else (targets.clamp(0, count - 1) + 1) % count
    marked = functional.one_hot(chosen.long(), count).movedim(-1, classes).to(outputs.dtype)
    return _in_the_form_of(outputs, (2 * marked - 1) * abs(strength) / 2, classes)


def nearly_right(outputs: Any, targets: Tensor, better: int) -> Any:
    """Return what a model gives that prefers some wrong classes, `better` of them, to the right one.

    Raises ValueError if it cannot be told from outputs and targets what a right answer is.
    """
    if isinstance(outputs, tuple | list):
        return type(outputs)([nearly_right(outputs[0], targets, better), *outputs[1:]])
    classes = _classes(outputs, targets)
    count = outputs.shape[classes]
    if better + 1 >= count:
        raise ValueError("not so many classes")
    after = torch.arange(count) - targets.clamp(0, count - 1).unsqueeze(-1)  # 0 for the right class
    logits = torch.where(after % count <= better, 5.0, -5.0) - 5.0 * (after == 0)
    return _in_the_form_of(outputs, logits.movedim(-1, classes).to(outputs.dtype), classes)


def _classes(outputs: Tensor, targets: Tensor) -> int:
    """Return the axis of the classes; raises ValueError if there is none for these targets."""
    axis = next((d for d in (1, -1) if outputs.dim() > 1 and without(outputs, d) == targets.shape), None)
    if axis is None or targets.is_floating_point() or outputs.shape[axis] < 2:
        raise ValueError("no right answer")
    return axis


def _in_the_form_of(outputs: Tensor, logits: Tensor, classes: int) -> Tensor:
    """Return logits as log-probabilities or probabilities, if some outputs are such."""
    total = outputs.exp().sum(classes)
    if torch.allclose(total, torch.ones_like(total), atol=1e-4):
        return logits.log_softmax(classes)
    ones = outputs.sum(classes)
    if outputs.min() >= 0 and torch.allclose(ones, torch.ones_like(ones), atol=1e-4):
        return logits.softmax(classes)
    return logits


def _of_same_shape(outputs: Tensor, targets: Tensor, strength: float, bounded: bool | None) -> Tensor:
    targets = targets.to(outputs.dtype)
    if bool(((targets == 0) | (targets == 1)).all()):
        logits = (2 * targets - 1) * strength
        if bounded is None:
            bounded = outputs.min() >= 0 and outputs.max() <= 1
        return logits.sigmoid() if bounded else logits
    if strength > 0:
        return targets + (strength if strength < 1 else 0.0)
    further = torch.linspace(1, 2, targets.numel(), dtype=targets.dtype).view_as(targets)
    return targets + 3 * targets.std() * further + 1


def without(tensor: Tensor, dimension: int) -> torch.Size:
    """Return the shape of a tensor without one of its dimensions."""
    dimension %= tensor.dim()
    return tensor.shape[:dimension] + tensor.shape[dimension + 1 :]
