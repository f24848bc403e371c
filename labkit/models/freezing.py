"""Freeze a part of a model so that it really stays as it is: its weights, its batch statistics and its mode."""

from functools import partial

import torch.nn as nn
from torch.nn import Parameter

from labkit.errors import ConfigError
from labkit.models.dry_run import need_model


def freeze(model: nn.Module, *names: str) -> nn.Module:
    """Freeze the layers with these names, such as "features." or "features.0", and all below them; return the model.

    Their parameters no longer require gradients, and they stay in evaluation mode, also after `model.train()`: a batch
    normalisation keeps its running statistics, dropout drops nothing. Without names everything is frozen. Raises
    ConfigError for a name that no layer has.
    """
    for layer in _layers(model, names):
        layer.requires_grad_(False).eval()
        layer.train = partial(_stay, layer)  # `model.train()` asks each child to change its mode: this one does not
    return model


def unfreeze(model: nn.Module, *names: str) -> nn.Module:
    """Undo `freeze` for these layers and all below them, or for all without names; they take the mode of the model."""
    for layer in _layers(model, names):
        for module in layer.modules():
            vars(module).pop("train", None)
        layer.requires_grad_(True).train(model.training)
    return model


def trained_parameters(model: nn.Module) -> list[Parameter]:
    """Return the parameters that are not frozen: what the optimizer should get.

    Raises ConfigError when all are frozen.
    """
    need_model(model)
    found = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not found:
        raise ConfigError(f"All parameters of {type(model).__name__} are frozen: there is nothing to train.")
    return found


def _stay(layer: nn.Module, mode: bool = True) -> nn.Module:
    """Take the place of `layer.train`: whatever is asked for, the layer and all below it stay in evaluation mode."""
    return nn.Module.train(layer, False)


def _layers(model: nn.Module, names: tuple[str, ...]) -> list[nn.Module]:
    need_model(model)
    layers = dict(model.named_modules())
    for name in names:
        if not isinstance(name, str):
            raise ConfigError(f"Layers are named by texts such as 'features.0', one after the other; got {name!r}.")
        if name.rstrip(".") not in layers:
            known = ", ".join(f"{child}." for child, _ in model.named_children())
            raise ConfigError(f"No layer of {type(model).__name__} is called {name!r}. It has {known or 'no layers'}")
    return [layers[name.rstrip(".")] for name in names or ("",)]
