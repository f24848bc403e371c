"""Before the first update: let the doctor look at a run, and stop where a fault is proven. Chapter 07 reads this."""

from collections.abc import Callable
from typing import Any

import torch.nn as nn
from torch import Tensor
from torch.optim import Optimizer

from labkit import distributed
from labkit.doctor import FaultError, Report, examine
from labkit.measuring import evaluate
from labkit.measuring.misfit import checked
from labkit.training.state import Training
from labkit.training.step import update


def examined(training: Training, val_loader: Any) -> Report:
    """Examine a run that has not begun, as the loop would train it. Raises FaultError where a fault is proven.

    What is only likely is printed, and training goes on.
    """
    for group in training.optimizer.param_groups:
        group["lr"] = training.config.learning_rate  # a schedule may begin far below; the loop sets the rate anew
    report = examine(
        training.model,
        training.loss_fn,
        training.optimizer,
        getattr(training.loader, "source", training.loader),  # what a borrowed loader was borrowed from tells more
        val_loader,
        train_step=OneUpdate(training),
        evaluate=lambda model, loader: -evaluate(model, loader, training.evaluation_loss_fn).loss,
    )
    if report.failed:
        raise FaultError(report)
    if report.findings and distributed.is_main():
        print(report)
    return report


class OneUpdate:
    """The update of a run as a `train_step`; an object, so that a copy has its own scaler."""

    def __init__(self, training: Training) -> None:
        self.precision, self.clip_norm = training.precision, training.config.clip_norm
        self.scaler, self.device = training.scaler, training.device

    def __call__(self, model: nn.Module, batch: tuple, loss_fn: Callable, optimizer: Optimizer) -> Tensor:
        """Make one update on one batch; return the loss."""
        batch = tuple(part.to(self.device) for part in checked(batch))
        return update(model, [batch], loss_fn, optimizer, self.scaler, self.precision, self.clip_norm).loss
