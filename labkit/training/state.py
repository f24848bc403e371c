"""Everything that a run consists of at one moment: what a checkpoint holds, and a resume puts back."""

import functools
import json
import math
from pathlib import Path

import torch
import torch.nn as nn

from labkit import devices, models, randomness
from labkit.errors import CheckpointError, LabkitError
from labkit.runs import checkpoint
from labkit.runs.record import Record
from labkit.training.config import Config
from labkit.training.metrics import Metrics
from labkit.training.optimizers import make_optimizer
from labkit.training.schedule import Schedule
from labkit.training.step import LossFunction, cross_entropy
from labkit.training.totals import Totals


class Training:
    """A run in progress: the model and all that belongs to it, its position, its history, its best weights."""

    def __init__(self, model: nn.Module, train_loader, config: Config, loss_fn: LossFunction | None):
        self.config, self.loader = config, train_loader
        self.device = devices.choose(config.device)
        self.precision = devices.amp_dtype(config.amp, self.device)
        self.model = model.to(self.device)
        self.loss_fn = loss_fn or functools.partial(cross_entropy, label_smoothing=config.label_smoothing)
        self.evaluation_loss_fn = loss_fn or cross_entropy
        self.optimizer = make_optimizer(model, config, self.device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.precision is torch.float16)
        self.updates_per_epoch = math.ceil(len(train_loader) / config.accumulate)
        self.schedule = Schedule(config, config.epochs * self.updates_per_epoch, self.device)
        self.totals = Totals(self.device)
        self.epoch, self.batch, self.updates = 0, 0, 0  # finished epochs; batches used of the next one; updates tried
        self.history: list[dict] = []
        self.best: dict | None = None  # epoch, val_loss, val_accuracy, weights
        self.bad_epochs = 0  # since the best one
        self.record: Record | None = None

    @property
    def stops_early(self) -> bool:
        """Whether the patience is used up."""
        return self.config.patience > 0 and self.bad_epochs >= self.config.patience

    @property
    def done(self) -> bool:
        """Whether nothing is left to train."""
        return self.epoch >= self.config.epochs or self.stops_early

    def open_record(self) -> None:
        """Make the run's folder and write the first checkpoint, so that even a run killed at once can be resumed."""
        if not self.config.run_dir:
            return
        facts = {
            "device": str(self.device),
            "device_name": devices.describe(self.device),
            "parameters": models.parameter_count(self.model),
            "model": type(unwrapped(self.model)).__name__,
            "training_data": self.loader.fingerprint(),
        }
        self.record = Record.create(self.config.to_dict(), facts)
        try:
            self.save()
        except CheckpointError:
            self.record.discard()  # else the name would be taken by a run that can neither go on nor begin again
            raise

    def end_epoch(self, metrics: Metrics | None, seconds: float) -> dict:
        """Close the books of an epoch: add its row to the history, remember the best weights. Returns the row."""
        row = {
            "epoch": self.epoch + 1,
            **self.totals.means(),
            "val_loss": metrics.loss if metrics else None,
            "val_accuracy": metrics.accuracy if metrics else None,
            "learning_rate": float(self.schedule.rate()),
            "seconds": round(seconds, 3),
        }
        self.history.append(row)
        self.epoch, self.batch, self.totals = self.epoch + 1, 0, Totals(self.device)
        if metrics:
            self.schedule.end_epoch(metrics.loss)
            self._remember_best(row)
        if self.record:
            self.record.add_epoch(row)
        return row

    def _remember_best(self, row: dict) -> None:
        bar = math.inf if self.best is None else self.best["val_loss"]
        if not row["val_loss"] < bar:  # true for NaN, too: it is never better
            self.bad_epochs += 1
            return
        self.bad_epochs = 0
        # A state_dict is no snapshot but a view of the living weights: copy it.
        weights = {name: value.clone() for name, value in unwrapped(self.model).state_dict().items()}
        self.best = {key: row[key] for key in ("epoch", "val_loss", "val_accuracy")} | {"weights": weights}
        if self.record:
            content = self.best | {"config": self.config.to_dict(), "data": self.loader.description()}
            checkpoint.save(self.record.folder / "best.pt", content)

    def restore_best(self) -> None:
        """Put the best weights so far back into the model."""
        if self.best is not None:
            unwrapped(self.model).load_state_dict(self.best["weights"])

    def save(self) -> None:
        """Write the checkpoint of this moment, if the run has a folder."""
        if self.record:
            checkpoint.save(self.record.folder / "last.pt", self.state_dict())

    def state_dict(self) -> dict:
        """Return all of it as plain data."""
        return {
            "model": unwrapped(self.model).state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "totals": self.totals.state_dict(),
            "rng": randomness.rng_state(),
            "position": {"epoch": self.epoch, "batch": self.batch, "updates": self.updates},
            "history": self.history,
            "best": self.best,
            "bad_epochs": self.bad_epochs,
            "config": self.config.to_dict(),
            "batches": len(self.loader),
            "training_data": self.loader.fingerprint(),
        }

    def load_state_dict(self, state: dict, folder: Path) -> None:
        """Go back to the moment of a checkpoint. Raises CheckpointError when data or model are not those of the run."""
        if (state["training_data"], state["batches"]) != (self.loader.fingerprint(), len(self.loader)):
            change = f"{state['batches']} batches then, {len(self.loader)} now"
            if state["batches"] == len(self.loader):
                change = "as many batches, with other pictures or labels in them"
            raise CheckpointError(
                f"The run in {folder} was trained on other data or other batches than those given now ({change}). "
                "Resume it with the same data set, split and batch size."
            )
        try:
            self._take(state, folder)
        except LabkitError:
            raise
        except Exception as error:  # a file with a right checksum that labkit did not write can be wrong in every way
            raise CheckpointError(
                f"last.pt in {folder} does not hold what a run needs, and is not used: {type(error).__name__}: {error}."
            ) from error

    def _take(self, state: dict, folder: Path) -> None:
        load_weights(self.model, state["model"], folder)
        self.optimizer.load_state_dict(state["optimizer"])
        for group in self.optimizer.param_groups:
            group["lr"] = group["lr"].to(self.device)
        self.schedule.load_state_dict(state["schedule"])
        self.scaler.load_state_dict(state["scaler"])
        self.totals.load_state_dict(state["totals"])
        self.epoch, self.batch = state["position"]["epoch"], state["position"]["batch"]
        self.updates = state["position"]["updates"]
        self.history, self.best, self.bad_epochs = state["history"], state["best"], state["bad_epochs"]
        self.record = Record.reopen(folder, self.history)
        randomness.set_rng_state(state["rng"])  # last: nothing above may draw from the generators any more


def saved_run(folder: Path) -> tuple[Config, dict]:
    """Return the settings of the run in a folder and the state in its last checkpoint.

    Raises CheckpointError where there is none, where it is not one of a run, or where run.json tells of another run.
    """
    state = checkpoint.load(folder / "last.pt")
    for needed in (
        "config",
        "model",
        "optimizer",
        "schedule",
        "position",
        "history",
        "rng",
        "batches",
        "training_data",
    ):
        if needed not in state:
            raise CheckpointError(
                f"last.pt in {folder} has no {needed!r}, so no run can go on from it. best.pt, for one, holds the best "
                "weights and nothing else."
            )
    config = Config.from_parameters(state["config"])
    for name, value in _recorded_settings(folder).items():
        if state["config"].get(name) != value:
            raise CheckpointError(
                f"run.json in {folder} says {name}={value!r}, and last.pt {state['config'].get(name)!r}. A run goes on "
                "with the settings it began with: put back the file that was changed, or start a new run."
            )
    return config, state


def _recorded_settings(folder: Path) -> dict:
    """Return the settings in run.json; none where it is gone or damaged, since the checkpoint has them, too."""
    try:
        return dict(json.loads((folder / "run.json").read_text(encoding="utf-8"))["config"])
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside `torch.compile` or a parallel wrapper: its names carry no `_orig_mod.` or `module.`."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inner = model.module
        if inner is None:
            return model
        model = inner


def load_weights(model: nn.Module, weights: dict, origin: Path) -> None:
    """Load weights into a model, or raise CheckpointError that names the first entry that does not fit."""
    target = unwrapped(model)
    ours = target.state_dict()
    for name in [*ours, *weights]:
        if name not in weights or name not in ours:
            side = "the checkpoint" if name not in weights else "this model"
            problem = f"{side} has no {name!r}"
        elif not isinstance(weights[name], torch.Tensor):
            problem = f"{name!r} is no tensor there"
        elif ours[name].shape != weights[name].shape:
            problem = f"{name!r} is {tuple(weights[name].shape)} there and {tuple(ours[name].shape)} here"
        else:
            continue
        raise CheckpointError(
            f"The checkpoint in {origin} is of another model than this {type(target).__name__}: {problem}. "
            "Build the model with the settings in run.json."
        )
    target.load_state_dict(weights)
