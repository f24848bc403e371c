"""The layer that raised an error: what it takes and gives, and its name in the model."""

from collections.abc import Iterator, Sequence

import torch.nn as nn
from torch import Tensor

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
    for variable, model in _models(places):
        modules = list(model.named_modules())
        path = next((name for name, module in modules if module is layer), None)
        if path is not None and len(modules) > best_size:
            best, best_size = ".".join(part for part in (variable, path) if part), len(modules)
    return best


def _models(places: Sequence[Place]) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that the user's variables hold, the outermost function first, and then every `self`."""
    own = [place.frame for place in places if place.frame is not None and place.is_of_user]
    for frame in own:
        for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
            if isinstance(value, nn.Module) and name != "self" and not name.startswith("_"):
                yield name, value
    for frame in own:
        if isinstance(frame.f_locals.get("self"), nn.Module):
            yield "self", frame.f_locals["self"]


def _self(place: Place) -> nn.Module | None:
    if place.frame is None or not place.frame.f_code.co_argcount:
        return None
    module = place.frame.f_locals.get(place.frame.f_code.co_varnames[0])
    return module if isinstance(module, nn.Module) else None
