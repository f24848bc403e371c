"""Look inside a model: its parameters as a table, and the shapes that flow through it."""

import torch
import torch.nn as nn
from torch.nn.parameter import is_lazy

from labkit import randomness
from labkit.errors import ConfigError
from labkit.table import Table


def parameter_table(model: nn.Module) -> Table:
    """Return one row for each parameter: name, shape, number of values, whether it is trained.

    A parameter that two layers share is counted once, under its first name. Raises ConfigError for a lazy layer.
    """
    _refuse_lazy_layers(model)
    rows = [
        {
            "parameter": name,
            "shape": "×".join(map(str, parameter.shape)) or "scalar",
            "values": parameter.numel(),
            "trained": "yes" if parameter.requires_grad else "frozen",
        }
        for name, parameter in model.named_parameters()
    ]
    return Table(rows, f"{type(model).__name__}: {parameter_count(model):,} parameters")


def parameter_count(model: nn.Module) -> int:
    """Return how many numbers the model learns or holds frozen, shared ones counted once; no layer may be lazy."""
    _refuse_lazy_layers(model)
    return sum(parameter.numel() for parameter in model.parameters())


def shape_trace(model: nn.Module, image_shape: tuple[int, int, int], batch_size: int = 2) -> Table:
    """Send a batch of zeros through the model and return one row for each layer: what came in, what went out.

    The model is left as it was: the dry run is in evaluation mode, records no graph and draws no random numbers.
    Raises ConfigError that names the failing layer and what came in, when a layer refuses its input.
    """
    _refuse_lazy_layers(model)
    rows, running = [], []
    names = {module: name or type(module).__name__ for name, module in model.named_modules()}
    handles = []

    def before(module: nn.Module, inputs: tuple) -> None:
        running.append((names[module], type(module).__name__, _shapes(inputs)))

    def after(module: nn.Module, inputs: tuple, output: object) -> None:
        running.pop()
        if not any(module.children()):
            values = sum(parameter.numel() for parameter in module.parameters())
            layer = {"layer": names[module], "type": type(module).__name__}
            rows.append(layer | {"in": _shapes(inputs), "out": _shapes(output), "parameters": values})

    modes = {module: module.training for module in model.modules()}
    first = next(model.parameters(), torch.zeros(()))
    zeros = torch.zeros(batch_size, *image_shape, device=first.device, dtype=first.dtype)
    try:
        for module in model.modules():
            handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
        model.eval()
        with torch.no_grad(), randomness.frozen_randomness():
            model(zeros)
    except Exception as error:
        name, kind, shape = running[-1] if running else ("the model", type(model).__name__, _shapes(zeros))
        raise ConfigError(f"The layer {name!r} ({kind}) cannot take its input of shape {shape}: {error}") from error
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode
    return Table(rows, f"{type(model).__name__} with a batch of {batch_size}")


def _refuse_lazy_layers(model: nn.Module) -> None:
    """Raise ConfigError for a layer such as nn.LazyLinear that no batch has given its size: a dry run would do so."""
    for name, module in model.named_modules():
        if any(is_lazy(parameter) for parameter in module.parameters(recurse=False)):
            raise ConfigError(
                f"The layer {name!r} ({type(module).__name__}) has no size before its first batch. "
                "To look into the model, send one batch through the model first."
            )


def _shapes(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return "×".join(map(str, value.shape)) or "scalar"
    if isinstance(value, tuple | list):
        return ", ".join(_shapes(item) for item in value)
    return type(value).__name__
