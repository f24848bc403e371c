"""What the tests let several processes do: `torchrun … trainings.py FOLDER NAME...` does it and keeps the outcome."""

import itertools
import sys
from pathlib import Path

import torch
import torch.nn as nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

from labkit import distributed, randomness
from labkit.data import sharing
from labkit.data.loading import loader
from labkit.errors import LabkitError
from labkit.training import Config, evaluate, fit, resume, update
from tests.training.helpers import small_loaders, small_model, stripes

CONFIG = Config(epochs=3, batch_size=9, device="cpu", run_dir="", learning_rate=0.01, log_every=1)
ACCUMULATING = CONFIG.replace(batch_size=7, accumulate=3, clip_norm=0.5, average=0.9)


def plain_model() -> nn.Module:
    """A network without layers that look at a whole batch or draw."""
    with randomness.frozen_randomness(0):
        return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3))


def train(config: Config) -> dict:
    """Train as `config` says on 60 pictures, with augmentation: the last batch is short. Return what came of it."""
    model = plain_model()
    run = fit(model, *small_loaders(config.batch_size), config)
    return {"weights": model.state_dict(), "history": run.history, "updates": run.updates, "best": run.best}


def stop_when_asked(training, outcome, stop) -> None:
    """Let one process alone wish, in the middle of an epoch, to stop."""
    if distributed.rank() == distributed.size() - 1 and training.updates == 5:
        stop.requested = True


def begin(folder: Path) -> dict:
    """Begin a run that is stopped after update 5."""
    config = CONFIG.replace(run_dir=str(folder), name="run")
    run = fit(plain_model(), *small_loaders(9), config, watch=stop_when_asked)
    return {"status": run.status, "updates": run.updates, "folder": str(run.folder)}


def go_on(folder: Path) -> dict:
    """Go on with that run, to its end."""
    model = plain_model()
    run = resume(model, *small_loaders(9), folder / "run")
    return {"status": run.status, "history": run.history, "weights": model.state_dict(), "folder": str(run.folder)}


def measure() -> list:
    """Evaluate one and the same model over 1, 2 and 3 batches, of which the last is short."""
    data = stripes()
    sizes = 90, 50, 40
    loaders = [loader(data, size) for size in sizes]
    return [evaluate(small_model(), sharing.own_batches(own), together=True) for own in loaders]


def exchanges() -> int:
    """Count how often gradients are exchanged in one update with a window of three batches."""
    count = itertools.count()

    def hook(state, bucket):
        next(count)
        return allreduce_hook(state, bucket)

    model = distributed.spread(plain_model(), torch.device("cpu"))
    model.register_comm_hook(None, hook)
    window = list(sharing.own_parts(small_loaders(20)[0], 0, 0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert len(window) == 3
    update(model, window, nn.functional.cross_entropy, optimizer, torch.amp.GradScaler("cpu", enabled=False))
    return next(count)


def resumed_with_dropout(folder: Path) -> list:
    """Train with dropout and batch normalisation in one go, and cut and gone on; return both models' numbers."""
    numbers = []
    for name in ("uncut", "cut"):
        model, config = small_model(), CONFIG.replace(run_dir=str(folder), name=name)
        run = fit(model, *small_loaders(9), config, watch=stop_when_asked if name == "cut" else None)
        if name == "cut":
            assert run.status == "interrupted"
            model = small_model(7)
            resume(model, *small_loaders(9), folder / name)
        numbers.append(model.state_dict())
    return numbers


def refusals(folder: Path) -> list[str]:
    """Return what is said about things that cannot work in several processes."""
    data, said = stripes(), []
    train_loader, val_loader = small_loaders(9)
    short_last = loader(data.select(torch.arange(61)), 20, shuffle=True)
    borrowed = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 4), torch.zeros(8)), 4)

    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(64, 3), nn.Linear(64, 3)

        def forward(self, inputs):
            return self.used(inputs.flatten(1))

    (folder / "file").write_text("in the way", encoding="utf-8")
    for model, given, config in (
        (plain_model(), loader(data, 1), CONFIG),
        (plain_model(), short_last, CONFIG),
        (plain_model(), borrowed, CONFIG),
        (plain_model(), train_loader, CONFIG.replace(run_dir=str(folder / "file"))),
        (Unused(), train_loader, CONFIG),
    ):
        try:
            fit(model, given, val_loader, config)
            said.append("nothing")
        except LabkitError as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


THINGS = {
    "plain": lambda folder: train(CONFIG),
    "accumulating": lambda folder: train(ACCUMULATING),
    "recorded": lambda folder: train(CONFIG.replace(run_dir=str(folder), name="recorded")),
    "measure": lambda folder: [vars(metrics) for metrics in measure()],
    "exchanges": lambda folder: exchanges(),
    "dropout": resumed_with_dropout,
    "begin": begin,
    "go on": go_on,
    "refusals": refusals,
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with distributed.joined("cpu"):
        outcome = {name: THINGS[name](folder) for name in sys.argv[2:]}
        torch.save(outcome, folder / f"{sys.argv[2]}-{distributed.rank()}.pt")
