"""Run a case and watch it: the script stays as it is, only `train_step` and `report` are listened to."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from labkit.doctor.clinic.activations import histograms
from labkit.doctor.clinic.case import Case
from labkit.doctor.clinic.observation import Observation
from labkit.doctor.clinic.running import built, compiled
from labkit.doctor.copying import copied
from labkit.randomness import frozen_randomness


def run(case: Case, seed: int = 0, cured: bool = False) -> Observation:
    """Train the script of a case and return what was seen; the same seed gives the same numbers on one machine.

    The global generators stay as they were. What the script raises ends the run and is written down.
    """
    seen = Observation(case.name, seed, cured, case.source(cured), case.script.score, case.script.chance)
    build, train = compiled(case, cured)
    quiet = warnings.catch_warnings()
    with frozen_randomness(seed), quiet, torch.inference_mode(False), torch.enable_grad(), torch.device("cpu"):
        warnings.simplefilter("ignore")
        try:
            names = built(build)
            seen.batches = first_batches(names)
            before = histograms(names)
            _listen(names, seen)
            hook = register_optimizer_step_pre_hook(names["train_step"].read_gradients)
            try:
                exec(train, names)
            finally:
                hook.remove()
                after = histograms(names)
                seen.activations = {layer: (start, after.get(layer)) for layer, start in before.items()}
            seen.measured = case.measured(names)
        except Exception as error:  # whatever the script raises
            seen.error = f"{type(error).__name__}: {error}".splitlines()[0]
    return seen


def _listen(names: dict[str, Any], seen: Observation) -> None:
    """Let the loop of a script call functions that do the same and write it down."""
    step = names["train_step"] = WatchedStep(names["train_step"], names, seen)

    def report(train_loss: Any, train_score: Any, val_score: Any) -> None:
        seen.epochs.append(
            {
                "epoch": len(seen.epochs) + 1,
                "train_loss": float(train_loss),
                "val_loss": validation_loss(names),
                "train_score": float(train_score),
                "val_score": float(val_score),
                "learning_rate": step.learning_rate(),
            }
        )

    names["report"] = report


class WatchedStep:
    """A `train_step` that does what the script's own does, and notes gradients, movements and learning rates."""

    def __init__(self, step: Callable, names: dict[str, Any], seen: Observation) -> None:
        self._step, self._names, self._seen = step, names, seen
        self._read: dict[str, float | None] | None = None

    def __call__(self, model: nn.Module, batch: Any, *rest: Any) -> Any:
        """Make an update."""
        self._read = None
        before = _weights(model)
        rate = self.learning_rate()
        loss = self._step(model, batch, *rest)
        gradients = self._read if self._read is not None else _gradient_norms(model)
        for layer, norm in gradients.items():
            self._seen.gradients.setdefault(layer, []).append(norm)
        for layer, weights in _weights(model).items():
            moved = ((weights - before[layer]).norm() / before[layer].norm().clamp(min=1e-12)).item()
            self._seen.ratios.setdefault(layer, []).append(moved)
        row = {"update": len(self._seen.updates) + 1, "loss": float(loss), "learning_rate": rate}
        self._seen.updates.append(row)
        return loss

    def read_gradients(self, *_: Any) -> None:
        """Note the gradients at the moment in which an optimizer reads them."""
        self._read = _gradient_norms(self._names["model"])

    def learning_rate(self) -> float:
        """Return the present rate of the script's optimizer."""
        return float(self._names["optimizer"].param_groups[0]["lr"])


def layers(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Return the modules that have parameters of their own, by name, from input to output as they are registered."""
    found = {}
    for name, module in model.named_modules():
        parameters = list(module.parameters(recurse=False))
        if parameters:
            found[f"{name} {type(module).__name__}".strip()] = parameters
    return found


def _weights(model: nn.Module) -> dict[str, Tensor]:
    """Return all parameters of each layer as one vector, copied."""
    with torch.no_grad():
        return {name: torch.cat([p.flatten() for p in parameters]) for name, parameters in layers(model).items()}


def _gradient_norms(model: nn.Module) -> dict[str, float | None]:
    norms = {}
    for name, parameters in layers(model).items():
        present = [parameter.grad.detach().norm() for parameter in parameters if parameter.grad is not None]
        norms[name] = torch.stack(present).norm().item() if present else None
    return norms


def validation_loss(names: dict[str, Any]) -> float:
    """Return the mean loss on the validation data in the mode that the script has left, on copies."""
    part = copied({piece: names[piece] for piece in ("model", "loss_fn", "val_loader")})
    total = count = 0.0
    with frozen_randomness(), torch.no_grad():
        for inputs, targets in part["val_loader"]:
            total += part["loss_fn"](part["model"](inputs), targets).item() * len(inputs)
            count += len(inputs)
    return total / max(count, 1)


def first_batches(names: dict[str, Any]) -> list[dict[str, Any]]:
    """Look at the first batch of both loaders, as copies of them deliver it."""
    rows = []
    for part in ("train", "val"):
        with frozen_randomness():
            batch = next(iter(copied({"loader": names[f"{part}_loader"]})["loader"]))
        for name, values in zip(("inputs", "targets"), batch, strict=True):
            numbers = values.double()
            rows.append(
                {
                    "part": part,
                    "name": name,
                    "shape": tuple(values.shape),
                    "dtype": str(values.dtype).removeprefix("torch."),
                    "low": numbers.min().item(),
                    "mean": numbers.mean().item(),
                    "std": numbers.std().item(),
                    "high": numbers.max().item(),
                }
            )
    return rows
