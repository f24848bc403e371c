"""The training loop: epochs of updates, a validation after each, and checkpoints that a resume can start from."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch.nn as nn

from labkit import distributed, models, randomness
from labkit.data import sharing
from labkit.errors import ConfigError
from labkit.measuring import LossFunction, evaluate
from labkit.measuring.misfit import checked, explained
from labkit.runs.history import best_epochs
from labkit.training.config import Config
from labkit.training.examining import examined
from labkit.training.interrupts import StopRequest
from labkit.training.nonfinite import save_if_finite, stop_if_not_finite
from labkit.training.progress import Progress
from labkit.training.state import Training, saved_run
from labkit.training.step import Outcome, update, windows

Watch = Callable[[Training, Outcome, StopRequest], None]


@dataclass(frozen=True)
class Run:
    """What came of a run. history: one dict an epoch; status: "finished", "stopped early" or "interrupted"."""

    config: Config
    status: str
    history: list[dict]
    best: dict | None  # epoch, val_loss, val_accuracy
    updates: int
    folder: Path | None  # None where nothing is written: without run_dir, and in all processes but the main one

    def __repr__(self) -> str:
        best = f", best in epoch {self.best['epoch']}: {self.best['val_accuracy']:.2%}" if self.best else ""
        where = f", in {self.folder}" if self.folder else ""
        return f"Run({self.status} after {len(self.history)} epochs, {self.updates} updates{best}{where})"


def fit(
    model: nn.Module,
    train_loader,
    val_loader,
    config: Config,
    loss_fn: LossFunction | None = None,
    watch: Watch | None = None,
    examine: bool = False,
) -> Run:
    """Train a model in place as `config` says, and return what came of it.

    train_loader, val_loader: labkit Loaders or torch DataLoaders; val_loader may be None. loss_fn(outputs, targets):
    the mean loss of a batch; default cross-entropy. The first Ctrl-C, kernel interrupt or SIGTERM ends the step in
    hand, saves and returns; a second interrupts as usual. With `average` the averaged weights are validated and left in
    the model; with `patience`, the best ones. watch(training, outcome, stop), called after every update, may look, wait
    or set `stop.requested`. examine: the doctor looks first; a fault it proves is a FaultError. Under torchrun all
    processes share each batch, and rank 0 writes and prints. Raises ConfigError, DataError or DeviceError before
    anything runs; NonFiniteError for a loss, gradient or weight that is not finite; ProcessError when another process
    is lost; CheckpointError for a folder that cannot be written.
    """
    training = Training(model, _train_loader(model, train_loader, val_loader, config, loss_fn), config, loss_fn)
    randomness.seed_everything(config.seed)
    if examine:
        distributed.in_main(lambda: examined(training, val_loader))
    training.open_record()
    return _train(training, val_loader, watch)


def resume(model: nn.Module, train_loader, val_loader, folder: Path | str, loss_fn: LossFunction | None = None) -> Run:
    """Go on with the run in `folder` from its last checkpoint, as if it had never been cut.

    Give the same kind of model (its weights are replaced), the same loaders and the same loss as to `fit`; the
    settings come from the checkpoint. Raises CheckpointError when model or data are not those of the run.
    """
    folder = Path(folder)
    config, state = saved_run(folder)
    training = Training(model, _train_loader(model, train_loader, val_loader, config, loss_fn), config, loss_fn)
    training.load_state_dict(state, folder)
    return _train(training, val_loader)


def _train_loader(model: nn.Module, train_loader, val_loader, config: Config, loss_fn: LossFunction | None):
    """Return the training loader with the methods that the loop needs, after a look at everything that was given."""
    if not isinstance(config, Config):
        raise ConfigError(f"config must be a Config, such as Config(epochs=3), got {type(config).__name__}.")
    if not isinstance(model, nn.Module):
        raise ConfigError(f"The model must be a torch.nn.Module, got {model!r}.")
    models.parameter_count(model)  # refuses layers that have no size yet: the optimizer could not hold their weights
    if val_loader is not None:
        sharing.checked(val_loader, training=False)
    if val_loader is None and (config.patience or config.schedule == "plateau"):
        raise ConfigError(
            "patience and schedule='plateau' watch the validation loss: give a val_loader, or turn them off."
        )
    if loss_fn is not None and (config.label_smoothing or config.class_weights != "off"):
        raise ConfigError(
            "label_smoothing and class_weights are settings of the built-in cross-entropy, and you gave a loss_fn. "
            "Put them into that, or leave loss_fn out."
        )
    return sharing.checked(train_loader, training=True)


def _train(training: Training, val_loader, watch: Watch | None = None) -> Run:
    config, progress = training.config, Progress(training.config.epochs, training.updates_per_epoch)
    with _record_closed(training), distributed.none_lost(), StopRequest() as stop:
        while not training.done and not stop.requested:
            started = time.perf_counter()
            _train_epoch(training, progress, stop, watch)
            with training.as_used():
                metrics = None
                if val_loader is not None and not stop.requested:
                    own = stop.until(sharing.own_batches(val_loader))
                    metrics = evaluate(training.forward, own, training.evaluation_loss_fn, together=True)
                if not stop.requested:  # a validation cut short says nothing: a resume repeats it
                    row = training.end_epoch(metrics, time.perf_counter() - started)
                    progress.row(row, best=best_epochs(training.history, 1) == [row["epoch"]])
            save_if_finite(training)

        if not training.done:
            status, where = "interrupted", training.record.folder if training.record else "memory only"
            progress.say(f"Stopped after update {training.updates}, as asked. Saved: {where}.")
        else:
            status = "stopped early" if training.epoch < config.epochs else "finished"
            training.put_final_weights()
        run = _run(training, status)
        if config.run_dir:
            result = {"status": status, "updates": run.updates, "best": run.best}
            distributed.in_main(lambda: training.record.finish(result))
        return run


def _train_epoch(training: Training, progress: Progress, stop: StopRequest, watch: Watch | None) -> None:
    """Make the updates that the epoch still lacks, until its end or until a stop is requested."""
    config = training.config
    training.model.train()  # in every epoch: the evaluation before it switched to evaluation mode
    batches = sharing.own_parts(training.loader, training.epoch, training.batch)
    for window in windows(batches, config.accumulate):
        window = [tuple(part.to(training.device) for part in checked(batch)) for batch in window]
        training.schedule.set_rate(training.optimizer)
        with explained(training.model, window, training.loss_fn):
            settings = training.scaler, training.precision, config.clip_norm
            outcome = update(training.trained, window, training.loss_fn, training.optimizer, *settings)
        training.schedule.advance(outcome.stepped)
        if training.average:
            training.average.follow(outcome.stepped)
        training.totals.add(outcome)
        training.batch += len(window)
        training.updates += 1
        if training.updates % config.log_every == 0:
            stop_if_not_finite(training)
            progress.line(training.epoch + 1, training.totals.updates, training.totals.means()["train_loss"])
        if config.save_every and training.updates % config.save_every == 0:
            save_if_finite(training)
        if watch is not None:
            watch(training, outcome, stop)
        stop.agree()
        if stop.requested:
            break
    stop_if_not_finite(training)


def _run(training: Training, status: str) -> Run:
    best = training.best and {key: training.best[key] for key in ("epoch", "val_loss", "val_accuracy")}
    folder = training.record.folder if training.record else None
    return Run(training.config, status, training.history, best, training.updates, folder)


@contextmanager
def _record_closed(training: Training) -> Iterator[None]:
    """Write into the record why a run ended when it was an error, and let the error go on."""
    try:
        yield
    except BaseException as error:
        if training.record:
            training.record.fail(error)
        raise
