"""Everything that a run consists of at one moment: what a checkpoint holds, and a resume puts back."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
import torch.nn as nn

from labkit import devices, distributed, models, randomness
from labkit.errors import CheckpointError, LabkitError
from labkit.measuring import LossFunction, Metrics, cross_entropy
from labkit.runs import checkpoint
from labkit.runs.history import best_epochs, epochs_without_progress
from labkit.runs.reading import never_began
from labkit.runs.record import Record
from labkit.training.config import Config
from labkit.training.optimizers import make_loss, make_optimizer
from labkit.training.schedule import Schedule
from labkit.training.totals import Totals
from labkit.training.weights import Average, infinite_entries, load_weights, unwrapped


class Training:
    """A run in progress: the model and all that belongs to it, its position, its history, its best weights."""

    def __init__(self, model: nn.Module, train_loader, config: Config, loss_fn: LossFunction | None):
        self.config, self.loader = config, train_loader
        self.device = devices.choose(config.device)
        self.precision = devices.amp_dtype(config.amp, self.device)
        self.model = model.to(self.device)
        if config.channels_last:
            model.to(memory_format=torch.channels_last)  # convolutions then hand on their results in this order, too
        self.forward = torch.compile(model) if config.compile else model  # what a batch is sent through
        self.loss_fn = loss_fn or make_loss(config, train_loader, self.device)
        self.evaluation_loss_fn = loss_fn or cross_entropy
        self.optimizer = make_optimizer(model, config, self.device)
        self.trained = distributed.spread(self.forward, self.device)  # the same, with the gradients of all processes
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.precision is torch.float16)
        self.updates_per_epoch = math.ceil(len(train_loader) / config.accumulate)
        self.schedule = Schedule(config, config.epochs * self.updates_per_epoch, self.device)
        self.infinite_on_purpose = infinite_entries(model)
        self.average = Average(model, config.average) if config.average else None
        self.totals = Totals(self.device)
        self.epoch, self.batch, self.updates = 0, 0, 0  # finished epochs; batches used of the next one; updates tried
        self.history: list[dict] = []
        self.best: dict | None = None  # epoch, val_loss, val_accuracy, weights
        self.record: Record | None = None

    @property
    def stops_early(self) -> bool:
        """Whether the patience is used up."""
        return 0 < self.config.patience <= epochs_without_progress(self.history, self.config.min_delta)

    @property
    def done(self) -> bool:
        """Whether nothing is left to train."""
        return self.epoch >= self.config.epochs or self.stops_early

    def open_record(self) -> None:
        """Make the run's folder and write the first checkpoint, from which even a run killed soon can be resumed."""
        if self.config.run_dir:
            distributed.in_main(self._open_record)

    def _open_record(self) -> None:
        facts = {
            "device": str(self.device),
            "device_name": devices.describe(self.device),
            "processes": distributed.size(),
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
        """Keep the weights in the model, if this epoch was the best so far or one of the best."""
        ranks = best_epochs(self.history, self.config.keep_best)
        if row["epoch"] not in ranks:
            return
        # A state_dict is no snapshot but a view of the living weights: copy it.
        weights = {name: value.clone() for name, value in unwrapped(self.model).state_dict().items()}
        snapshot = {key: row[key] for key in ("epoch", "val_loss", "val_accuracy")} | {"weights": weights}
        is_best = ranks[0] == row["epoch"]
        if is_best:
            self.best = snapshot
        if self.record:
            content = snapshot | {"config": self.config.to_dict(), "data": self.loader.description()}
            self._save_best(content, is_best, ranks)

    def _save_best(self, content: dict, is_best: bool, ranks: list[int]) -> None:
        """Write best.pt, and with `keep_best` above 1 a file for each of the best epochs, such as epoch-012.pt."""
        folder = self.record.folder
        if is_best:
            checkpoint.save(folder / "best.pt", content)
        if self.config.keep_best > 1:
            checkpoint.save(folder / f"epoch-{content['epoch']:03}.pt", content)
            kept = {f"epoch-{epoch:03}.pt" for epoch in ranks}
            for file in folder.glob("epoch-*.pt"):
                if file.name not in kept:
                    file.unlink(missing_ok=True)

    @contextmanager
    def as_used(self) -> Iterator[None]:
        """Run a block with the weights in the model that will be used in the end: the average, if there is one."""
        with self.average.in_model() if self.average else nullcontext():
            distributed.same_buffers(self.model)
            yield

    def put_final_weights(self) -> None:
        """Leave in the model what a finished run is for: the best weights with `patience`, else the average."""
        if self.config.patience and self.best is not None:
            unwrapped(self.model).load_state_dict(self.best["weights"])
        elif self.average:
            self.average.put_into_model()

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
            "average": self.average.state_dict() if self.average else None,
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
        self.schedule.load_state_dict(state["schedule"])
        self.scaler.load_state_dict(state["scaler"])
        self.totals.load_state_dict(state["totals"])
        self.epoch, self.batch = state["position"]["epoch"], state["position"]["batch"]
        self.updates = state["position"]["updates"]
        self.history, self.best = state["history"], state["best"]
        if self.average:
            self.average.load_state_dict(state["average"])
        distributed.in_main(lambda: self._reopen_record(folder))
        randomness.set_rng_state(state["rng"])  # last: nothing above may draw from the generators any more

    def _reopen_record(self, folder: Path) -> None:
        self.record = Record.reopen(folder, self.history)


#: What a checkpoint must hold for a run to go on from it.
NEEDED = ("config", "model", "optimizer", "schedule", "position", "history", "rng", "batches", "training_data")


def saved_run(folder: Path) -> tuple[Config, dict]:
    """Return the settings of the run in a folder and the state in its last checkpoint.

    Raises CheckpointError where there is none, where it is not one of a run, or where run.json tells of another run.
    """
    if never_began(folder):
        raise CheckpointError(
            f"The run in {folder} was cut off before its first checkpoint, so there is nothing to go on from. Begin it "
            "again under the same name."
        )
    state = checkpoint.load(folder / "last.pt")
    for needed in NEEDED:
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
