"""From a Config to a tested model in one call: what `labkit train` and the project notebook do."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn as nn

from labkit import data, devices, distributed, models
from labkit.errors import CheckpointError
from labkit.measuring import Predictions, predict
from labkit.runs.reading import read
from labkit.runs.record import Record
from labkit.runs.reproduction import settings_for_again
from labkit.training.config import Config
from labkit.training.fit import Run, fit, resume
from labkit.training.state import saved_run


@dataclass(frozen=True)
class Project:
    """A finished project: the pictures in three parts, the loaders, the model, the run, and the test predictions."""

    config: Config
    splits: data.Splits
    train_loader: data.Loader
    val_loader: data.Loader
    test_loader: data.Loader
    model: nn.Module
    run: Run
    test: Predictions | None  # None when the run was interrupted, and in all processes but the main one
    seconds: float

    @property
    def parameters(self) -> int:
        """The number of parameters of the model."""
        return models.parameter_count(self.model)

    def summary(self) -> dict:
        """Return the result as plain data: test accuracy, seconds, epochs, parameters, run folder."""
        return {
            "test_accuracy": round(self.test.accuracy, 6) if self.test else None,
            "seconds": round(self.seconds, 3),
            "epochs": len(self.run.history),
            "parameters": self.parameters,
            "run_dir": str(self.run.folder) if self.run.folder else None,
            "status": self.run.status,
        }


def project(config: Config, splits: data.Splits | None = None, examine: bool = False) -> Project:
    """Load the data, build the model, train it, and test it once on pictures that nothing was chosen by.

    splits: the pictures, if they are loaded already; else `config.data` says what to load. examine: as for `fit`.
    """
    return _project(config, splits, run_folder=None, examine=examine)


def resume_project(folder: Path | str, splits: data.Splits | None = None) -> Project:
    """Go on with the project whose run is in `folder`, and test it when it is finished.

    Raises CheckpointError when there is no checkpoint there, or the data have changed since.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CheckpointError(f"There is no run folder {folder}. Give the folder that holds run.json and last.pt.")
    config, _ = saved_run(folder)
    return _project(config, splits, folder)


def rerun_project(folder: Path | str) -> Project:
    """Train again from the record in `folder`, in as many threads, into a new folder beside it.

    `labkit.runs.reproduction.compare_runs` tells whether the same came out. Raises CheckpointError when the record has
    no end or is damaged, or the data are no longer those that it was made with.
    """
    config = Config.from_parameters(settings_for_again(Path(folder)))
    recorded, splits = read(Path(folder)), data.load(config.data, seed=config.seed)
    if recorded.facts.get("training_data") != splits.train.fingerprint():
        raise CheckpointError(f"The run in {folder} was trained on other pictures than data={config.data!r} gives now.")
    threads, wanted = torch.get_num_threads(), recorded.facts.get("threads")
    if isinstance(wanted, int) and 0 < wanted <= 1024:
        torch.set_num_threads(wanted)  # sums are split among them
    try:
        return project(config, splits)
    finally:
        torch.set_num_threads(threads)


def _project(config: Config, splits: data.Splits | None, run_folder: Path | None, examine: bool = False) -> Project:
    started = time.perf_counter()
    splits, (train_loader, val_loader, test_loader), model = prepared(config, splits)
    if run_folder is None:
        run = fit(model, train_loader, val_loader, config, examine=examine)
    else:
        run = resume(model, train_loader, val_loader, run_folder)
    test = None if run.status == "interrupted" or not distributed.is_main() else predict(model, test_loader)
    finished = Project(
        config, splits, train_loader, val_loader, test_loader, model, run, test, time.perf_counter() - started
    )
    if run.folder:
        Record(run.folder).finish(finished.summary())
    return finished


def prepared(
    config: Config, splits: data.Splits | None = None
) -> tuple[data.Splits, tuple[data.Loader, data.Loader, data.Loader], nn.Module]:
    """Return what a training begins with: the pictures, their three loaders, and the new model on its device."""
    splits = distributed.main_first(lambda: data.load(config.data, seed=config.seed)) if splits is None else splits
    shape, classes = splits.train.image_shape, len(splits.train.classes)
    model = models.build(config.model, shape, classes, config.seed, config.dropout)
    return splits, loaders(config, splits), model.to(devices.choose(config.device))


def loaders(config: Config, splits: data.Splits) -> tuple[data.Loader, data.Loader, data.Loader]:
    """Return the loaders of the training, validation and test part.

    Only training pictures are shuffled and augmented, and all parts are normalised with the statistics of training.
    """
    device = devices.choose(config.device)
    train_loader = data.loader(
        splits.train,
        config.batch_size,
        device=device,
        seed=config.seed,
        shuffle=True,
        flip=config.flip,
        shift=config.shift,
        cutout=config.cutout,
        num_workers=config.num_workers,
    )
    val_loader, test_loader = (
        data.loader(part, batch_size=512, device=device, statistics=train_loader.statistics)
        for part in (splits.val, splits.test)
    )
    return train_loader, val_loader, test_loader
