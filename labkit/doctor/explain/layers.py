"""The layer that raised an error: what it takes and gives, and its name in the model."""

from collections.abc import Sequence

import torch
import torch.fx
import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.elsewhere import models_of
from labkit.doctor.explain.frames import Place


def layer_in_words(layer: nn.Module) -> str:
    """Return what a layer is: `Linear 400 -> 10`."""
    name = type(layer).__name__
    for takes, gives in (
        ("in_features", "out_features"),
        ("in_channels", "out_channels"),
        ("num_embeddings", "embedding_dim"),
        ("input_size", "hidden_size"),
    ):
        if isinstance(getattr(layer, takes, None), int) and isinstance(getattr(layer, gives, None), int):
            window = getattr(layer, "kernel_size", None)
            window = f", kernel {'×'.join(map(str, window))}" if isinstance(window, tuple) else ""
            return f"{name} {getattr(layer, takes)} -> {getattr(layer, gives)}{window}"
    features = getattr(layer, "num_features", None) or getattr(layer, "normalized_shape", None)
    return f"{name} {features}" if isinstance(features, int | tuple) else name


def layer_at(places: Sequence[Place]) -> nn.Module | None:
    """Return the module in whose code the last of these places is, None if they are in none."""
    for place in reversed(places):
        module = _self(place)
        if module is not None:
            return module
    return None


def inputs_of(layer: nn.Module, places: Sequence[Place]) -> tuple[object, ...]:
    """Return what a layer was called with: the arguments of its forward, without those that are None."""
    for place in reversed(places):
        if place.frame is not None and _self(place) is layer and "forward" in place.function:
            code, variables = place.frame.f_code, place.frame.f_locals
            names = code.co_varnames[1 : code.co_argcount]
            return tuple(variables[name] for name in names if variables.get(name) is not None)
    return ()


def first_tensor(values: Sequence[object]) -> Tensor | None:
    """Return the first tensor among values."""
    return next((value for value in values if isinstance(value, Tensor)), None)


def name_in_model(layer: nn.Module, places: Sequence[Place]) -> str:
    """Return how the user would reach a layer: `model.2`, by the variable with the largest model that has it, or ""."""
    best, best_size = "", 0
    for variable, model in models_of(places):
        modules = list(model.named_modules())
        path = next((name for name, module in modules if module is layer), None)
        if path is not None and len(modules) > best_size:
            best, best_size = _joined(variable, path), len(modules)
    return best


def _joined(variable: str, path: str) -> str:
    """Return the name without what wrappers have put between: torch.compile and DataParallel."""
    parts = [variable, *path.split(".")]
    return ".".join(part for part in parts if part and part not in ("_orig_mod", "module"))


def _self(place: Place) -> nn.Module | None:
    module = place.variables.get("self")
    is_layer = isinstance(module, nn.Module) and "_modules" in vars(module)
    return module if is_layer and not isinstance(module, torch.fx.GraphModule) else None  # that one is generated
