"""Look inside a model: its parameters as a table, and the shapes that flow through it."""

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.parameter import is_lazy

from labkit.errors import ConfigError
from labkit.models.dry_run import left_as_it_was, need_model, zeros_for
from labkit.models.fixes import fix_for_forward, fix_for_inputs, fix_for_layer, own_line
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


class ShapeError(ConfigError):
    """A layer refused its input. `table` has a row for each layer that ran before."""

    def __init__(self, message: str, table: Table) -> None:
        super().__init__(message)
        self.table = table


def shape_trace(model: nn.Module, inputs: tuple[int, ...] | Tensor, batch_size: int = 2) -> Table:
    """Send a batch through the model and return one row for each layer: what came in, what went out.

    inputs: the shape of one sample, such as (channels, height, width), for a batch of zeros; or a batch as it is.
    The model is left as it was: the dry run is in evaluation mode, records no graph and draws no random numbers.
    Raises ShapeError that names the failing layer, what came in, and where it is known the fix.
    """
    _refuse_lazy_layers(model)
    batch = inputs if isinstance(inputs, Tensor) else zeros_for(model, inputs, batch_size)
    rows, outputs, running, handles = [], {}, [], []
    names = {module: name for name, module in model.named_modules()}

    def before(module: nn.Module, inputs: tuple) -> None:
        running.append((module, inputs))

    def after(module: nn.Module, inputs: tuple, output: object) -> None:
        running.pop()
        outputs[names[module]] = _shapes(output)
        if not any(module.children()):
            values = sum(parameter.numel() for parameter in module.parameters())
            layer = {"layer": names[module] or type(module).__name__, "type": type(module).__name__}
            rows.append(layer | {"in": _shapes(inputs), "out": _shapes(output), "parameters": values})

    table = Table(rows, f"{type(model).__name__} with a batch of {len(batch) if batch.ndim else 1}")
    with left_as_it_was(model), torch.no_grad():
        model.eval()
        try:
            for module in model.modules():
                handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
            model(batch)
        except Exception as error:
            for handle in handles:
                handle.remove()  # the search for a fix runs the model again
            refusing, arrived = running[-1] if running else (model, (batch,))
            raise ShapeError(_refusal(model, batch, refusing, arrived, outputs, error), table) from error
        finally:
            for handle in handles:
                handle.remove()
    return table


def _refusal(
    model: nn.Module, batch: Tensor, layer: nn.Module, arrived: tuple, outputs: dict[str, str], error: Exception
) -> str:
    """Say which layer refused what, in torch's words, and what to change."""
    name = next(name for name, module in model.named_modules() if module is layer)
    fix = fix_for_inputs(model, batch) or fix_for_layer(layer, arrived)
    if any(layer.children()) or not type(layer).__module__.startswith("torch."):
        fix = _where(name, outputs, error) + (fix or fix_for_forward(str(error)))
    called = repr(name or type(layer).__name__)
    text = f"The layer {called} ({type(layer).__name__}) cannot take its input of shape {_shapes(arrived)}: "
    return f"{text}{str(error).rstrip('.')}. {fix}".rstrip()


def _where(name: str, outputs: dict[str, str], error: Exception) -> str:
    """Say in which line of a module's own forward an error came up, and what its layers had given until then."""
    prefix = f"{name}." if name else ""
    given = [
        f"{layer!r} {shape}"
        for layer, shape in outputs.items()
        if layer.startswith(prefix) and "." not in layer.removeprefix(prefix)
    ]
    line = own_line(error)
    at = f"It came up in the line `{line}`" if line else ""
    so_far = f"before it the layers gave {', '.join(given[-4:])}" if given else ""
    return f"{'; '.join(filter(None, (at, so_far)))}. " if at or so_far else ""


def _refuse_lazy_layers(model: nn.Module) -> None:
    """Raise ConfigError for a layer such as nn.LazyLinear that no batch has given its size: a dry run would do so."""
    need_model(model)
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
