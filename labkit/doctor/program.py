"""A training program in pieces, as the doctor sees it: what is trained, with what, on what, and how."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from labkit.doctor.copying import copied
from labkit.errors import LabkitError

TrainStep = Callable[[nn.Module, Any, Callable, torch.optim.Optimizer], Any]
Evaluate = Callable[[nn.Module, Iterable], Any]


@dataclass
class Program:
    """The pieces of a training program; `context` holds whatever else the steps use (a scaler, a second optimizer).

    train_step: `train_step(model, batch, loss_fn, optimizer)`, or None for the usual five lines (`usual_step`).
    evaluate: `evaluate(model, loader)`, a number that is better when higher, or None for the accuracy.
    """

    model: nn.Module
    loss_fn: Callable[[Any, Any], Tensor]
    optimizer: torch.optim.Optimizer
    train_loader: Iterable
    val_loader: Iterable | None = None
    scheduler: Any = None
    train_step: TrainStep | None = None
    evaluate: Evaluate | None = None
    context: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise LabkitError, in one sentence, if a piece cannot be what its name says."""
        if not isinstance(self.model, nn.Module):
            raise LabkitError(f"model must be an nn.Module, and this is a {type(self.model).__name__}.")
        if not callable(self.loss_fn):
            raise LabkitError(
                f"loss_fn must be called with (outputs, targets); a {type(self.loss_fn).__name__} cannot be."
            )
        if not hasattr(self.optimizer, "param_groups"):
            raise LabkitError(f"optimizer must be a torch optimizer, and this is a {type(self.optimizer).__name__}.")
        for name in ("train_loader", "val_loader"):
            loader = getattr(self, name)
            if not (name == "val_loader" and loader is None) and not hasattr(loader, "__iter__"):
                raise LabkitError(f"{name} must give batches in a for loop, and a {type(loader).__name__} cannot.")
        for name in ("train_step", "evaluate"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise LabkitError(f"{name} must be a function, and this is a {type(getattr(self, name)).__name__}.")

    def copy(self) -> "Program":
        """Return a program of its own: same values, and nothing that happens to it reaches this one."""
        return Program(**copied({piece.name: getattr(self, piece.name) for piece in fields(self)}))

    def pieces(self) -> dict[str, Any]:
        """Return the pieces by their names, as `examine(**pieces)` takes them."""
        named = {piece.name: getattr(self, piece.name) for piece in fields(self)}
        return {**named.pop("context"), **named}

    def batches(self) -> int | None:
        """Return how many batches an epoch has, None if the loader cannot tell."""
        try:
            return len(self.train_loader)
        except TypeError:  # no length, or that of a data set without one
            return None

    def step(self, batch: Any) -> Any:
        """Make one update with the program's own train_step, or with the usual five lines; return what it returns."""
        return (self.train_step or usual_step)(self.model, batch, self.loss_fn, self.optimizer)

    def score(self, loader: Iterable) -> Any:
        """Evaluate with the program's own function, or by the accuracy."""
        return (self.evaluate or accuracy)(self.model, loader)


def usual_step(model: nn.Module, batch: Any, loss_fn: Callable, optimizer: torch.optim.Optimizer) -> Tensor:
    """Make one update on a batch (inputs, targets); return the loss, without its graph."""
    inputs, targets = batch
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.detach()


def accuracy(model: nn.Module, loader: Iterable) -> float:
    """Return the share of samples whose largest output is their class, in evaluation mode."""
    model.eval()
    right = count = 0
    with torch.no_grad():
        for inputs, targets in loader:
            predictions = model(inputs).argmax(dim=1)
            right += (predictions == targets).sum().item()
            count += targets.numel()
    return right / max(count, 1)
