"""What every trial needs: batches without end, an optimizer, one plain update."""

import math
from collections.abc import Callable, Iterable, Iterator

import torch
import torch.nn as nn
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from labkit import models
from labkit.data.borrowed import as_loader
from labkit.data.loading import Loader
from labkit.errors import ConfigError, DataError
from labkit.measuring import Batch, LossFunction
from labkit.measuring.misfit import checked, explained

OptimizerMaker = Callable[[Iterable[Tensor]], Optimizer]  # such as torch.optim.AdamW


def check(model: nn.Module, source: object) -> None:
    """Refuse what no trial can use: a model without sizes or parameters to train, a source without batches."""
    if not isinstance(model, nn.Module):
        raise ConfigError(f"The model must be a torch.nn.Module, got {type(model).__name__}.")
    models.parameter_count(model)  # refuses lazy layers
    models.trained_parameters(model)  # refuses a model of which everything is frozen
    if is_batch(source):
        checked(source)
    else:
        as_loader(source)


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return a setting that counts something, or raise ConfigError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}={value!r} must be a whole number of at least {least}.")
    return value


def positive_number(name: str, value: object) -> float:
    """Return a setting that is a finite number above 0, or raise ConfigError."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ConfigError(f"{name}={value!r} must be a number above 0.")
    return float(value)


def is_batch(source: object) -> bool:
    """Say whether a source is one batch, a pair of tensors, and no loader."""
    return isinstance(source, tuple | list) and len(source) == 2 and all(isinstance(part, Tensor) for part in source)


def one_epoch(source: object, device: torch.device) -> Iterator[Batch]:
    """Give the batches of a loader once, or a plain batch once, on the device.

    A layer may write into its inputs, as nn.ReLU(inplace=True) does, so tensors that belong to somebody are copied.
    """
    makes_new = isinstance(source, Loader) or (isinstance(source, DataLoader) and source.batch_sampler is not None)
    batch = None
    for batch in [source] if is_batch(source) else source:
        inputs, targets = (part if makes_new else part.clone() for part in checked(batch))
        yield inputs.to(device), targets.to(device)
    if batch is None:
        raise DataError("The loader gave no batch, although it has a length.")


def endless(source: object, device: torch.device) -> Iterator[Batch]:
    """Give the batches of one epoch after the other, or a plain batch again and again, on the device."""
    while True:
        yield from one_epoch(source, device)


def optimizer_for(model: nn.Module, optimizer: Optimizer | OptimizerMaker) -> Optimizer:
    """Return an optimizer of this model: the given one, or what the given class makes of the trained parameters.

    Raises ConfigError for one that moves nothing of this model, and for LBFGS, which calls the model itself.
    """
    ready = optimizer(models.trained_parameters(model)) if callable(optimizer) else optimizer
    if not isinstance(ready, Optimizer):
        raise ConfigError(f"optimizer must be a torch optimizer or its class, got {type(ready).__name__}.")
    own = set(map(id, model.parameters()))
    if not any(id(parameter) in own for group in ready.param_groups for parameter in group["params"]):
        raise ConfigError("The optimizer has no parameter of this model. Make it anew from model.parameters().")
    if isinstance(ready, torch.optim.LBFGS):
        raise ConfigError("LBFGS calls the model several times in one step, which no trial does. Try another one.")
    return ready


def loss_of(model: nn.Module, batch: Batch, loss_fn: LossFunction) -> tuple[Tensor, Tensor]:
    """Return the outputs and the loss of a batch; what does not fit together is said in a sentence."""
    with explained(model, [batch], loss_fn):
        outputs = model(batch[0])
        loss = loss_fn(outputs, batch[1])
        if not isinstance(loss, Tensor) or loss.ndim or not loss.requires_grad:
            raise TypeError("The loss cannot be differentiated.")  # `explained` says why
    return outputs, loss


def one_update(model: nn.Module, batch: Batch, loss_fn: LossFunction, optimizer: Optimizer) -> tuple[Tensor, float]:
    """Make one plain update; return outputs and loss from before it. A loss that is not finite moves nothing."""
    optimizer.zero_grad()
    outputs, loss = loss_of(model, batch, loss_fn)
    value = float(loss.detach())
    if torch.isfinite(loss):
        with explained(model, [batch], loss_fn):
            loss.backward()
            optimizer.step()
    return outputs.detach(), value
