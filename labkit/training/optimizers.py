"""Make the optimizer and the loss that a Config asks for."""

from functools import partial

import torch
import torch.nn as nn

from labkit.errors import ConfigError
from labkit.measuring.losses import LossFunction, balanced_weights, cross_entropy
from labkit.training.config import Config


def make_optimizer(model: nn.Module, config: Config, device: torch.device) -> torch.optim.Optimizer:
    """Return a fused optimizer over the model's trained parameters, with its rate as a tensor on the device.

    Weight decay acts on matrices and kernels only: pulling a bias or the scale of a normalisation towards zero
    regularises nothing. Raises ConfigError when the model has nothing to train.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ConfigError(
            f"{type(model).__name__} has no parameter to train. Layers in a plain list are not registered "
            "(use nn.ModuleList), and frozen ones need requires_grad_(True)."
        )
    groups = [
        {"params": [parameter for parameter in trained if parameter.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    # One tensor a group, since each is written to before every update.
    for group in groups:
        group["lr"] = torch.tensor(config.learning_rate, dtype=torch.float32, device=device)
    if config.optimizer == "sgd":
        optimizer = torch.optim.SGD(groups, momentum=config.momentum, nesterov=config.momentum > 0, fused=True)
        if config.momentum > 0:
            # torch makes these buffers in the first step, from memory that holds anything; were that step skipped,
            # the second would take them for real. Zeros give the same first step.
            for parameter in trained:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return optimizer
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    return kind(groups, fused=True)


def make_loss(config: Config, loader, device: torch.device) -> LossFunction:
    """Return the cross-entropy that the settings ask for. Raises ConfigError where they need labels nobody knows."""
    weights = balanced_weights(loader).to(device) if config.class_weights == "balanced" else None
    return partial(cross_entropy, label_smoothing=config.label_smoothing, class_weights=weights)
