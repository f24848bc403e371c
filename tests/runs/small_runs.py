"""Real runs that take a moment."""

from pathlib import Path

from labkit.training import Config, Run, fit
from tests.training.helpers import small_loaders, small_model

QUICK = Config(epochs=2, batch_size=8, device="cpu", learning_rate=0.02)


def small_run(folder: Path, name: str, model=None, **settings) -> Run:
    return fit(model or small_model(), *small_loaders(), QUICK.replace(run_dir=str(folder), name=name, **settings))
