"""Which learning rate? Let it grow from update to update in a short trial, and watch where the loss falls best."""

import math
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn as nn
from torch.optim import Optimizer

from labkit.errors import ConfigError
from labkit.measuring import LossFunction, cross_entropy
from labkit.measuring.metrics import device_of
from labkit.trials.steps import (
    OptimizerMaker,
    check,
    endless,
    one_update,
    optimizer_for,
    positive_number,
    whole_number,
)
from labkit.trials.untouched import untouched

SMOOTHING = 0.9  # share of the mean so far in the smoothed loss
TOO_HIGH = 3.0  # the trial ends when the smoothed loss is this many times the lowest
MARGIN = 10.0  # the suggestion lies this factor below the rate with the lowest smoothed loss
RISE = 1.2  # the loss has turned when it ends this many times above its lowest
FALL = 0.95  # a loss that never goes below this share of its start has not fallen


@dataclass(frozen=True)
class LearningRateTrial:
    """What the loss did while the learning rate grew; one entry an update.

    rates, losses: the rate and the loss before the update. smoothed: a running mean of the losses. suggestion: a rate
    to begin with, None where the loss never fell. advice: one sentence with the rule behind it.
    """

    rates: list[float]
    losses: list[float]
    smoothed: list[float]
    suggestion: float | None
    advice: str

    def __repr__(self) -> str:
        return f"{len(self.rates)} updates, rate {self.rates[0]:.3g} → {self.rates[-1]:.3g}. {self.advice}"


def find_learning_rate(
    model: nn.Module,
    source,
    loss_fn: LossFunction = cross_entropy,
    optimizer: Optimizer | OptimizerMaker = torch.optim.AdamW,
    lowest: float = 1e-6,
    highest: float = 1.0,
    updates: int = 100,
) -> LearningRateTrial:
    """Train a copy of the model with a rate that grows by the same factor in each update, and suggest one.

    source: a labkit Loader, a torch DataLoader, or one batch (inputs, targets). optimizer: the one that will be used,
    or its class; different optimizers need different rates. The trial ends early when the loss runs away. Model,
    optimizer, loader and random numbers are left as they were (the range test of Smith, 2017). Raises ConfigError or
    DataError for what does not fit together.
    """
    check(model, source)
    whole_number("updates", updates, least=10)
    if not positive_number("lowest", lowest) < positive_number("highest", highest):
        raise ConfigError(f"lowest={lowest} must be below highest={highest}: the rate grows from one to the other.")
    optimizer = optimizer_for(model, optimizer)
    with untouched(model, optimizer, loss_fn, source) as (model, optimizer, loss_fn, source):
        model.train()
        rates, losses, smoothed = [], [], []
        for update, batch in enumerate(islice(endless(source, device_of(model)), updates)):
            rates.append(lowest * (highest / lowest) ** (update / (updates - 1)))
            _set_rate(optimizer, rates[-1])
            losses.append(one_update(model, batch, loss_fn, optimizer)[1])
            smoothed.append(smooth(losses))
            if not smoothed[-1] <= TOO_HIGH * min(smoothed):  # also true of NaN
                break
    return LearningRateTrial(rates, losses, smoothed, *suggest(rates, smoothed))


def _set_rate(optimizer: Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def smooth(losses: list[float]) -> float:
    """Return the mean of the losses in which each is worth less the longer ago it was."""
    weights = [SMOOTHING**age for age in range(len(losses))]
    return sum(weight * loss for weight, loss in zip(weights, reversed(losses), strict=True)) / sum(weights)


def suggest(rates: list[float], smoothed: list[float]) -> tuple[float | None, str]:
    """Return a rate to begin with and the sentence that says why; None where the loss gives no reason for any."""
    finite = [(loss, rate) for loss, rate in zip(smoothed, rates, strict=True) if math.isfinite(loss)]
    if not finite:
        return None, "The loss is not finite from the start: look for NaN in the inputs and the weights."
    loss, best = min(finite)
    if loss > FALL * smoothed[0]:
        return None, (
            f"The loss never fell clearly below its start ({smoothed[0]:.3g}): give more updates, or see with "
            "overfit_small_batch whether the model learns at all."
        )
    if math.isfinite(smoothed[-1]) and smoothed[-1] < RISE * loss:
        return best / MARGIN, (
            f"The loss was still low at the highest rate, {rates[-1]:.3g}: try again with a larger `highest`. Until "
            f"then {best / MARGIN:.2g}, a tenth of the rate with the lowest loss."
        )
    return best / MARGIN, f"Begin with {best / MARGIN:.2g}: a tenth of {best:.2g}, where the smoothed loss was lowest."
