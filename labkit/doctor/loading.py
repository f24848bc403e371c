"""Loaders that read in this process: to start workers anew for every epoch would take most of an examination."""

from typing import Any

from torch.utils.data import DataLoader

from labkit import randomness
from labkit.doctor.copying import copied
from labkit.doctor.program import Program


def workers_of(loader: Any) -> int:
    """Return how many workers the user's loader has, also of a copy that reads in this process."""
    return getattr(loader, "users_workers", getattr(loader, "num_workers", 0))


def in_this_process(program: Program) -> Program:
    """Let the loaders of a copied program read without workers, where their data sets can; return the program."""
    for loader in (program.train_loader, program.val_loader):
        if isinstance(loader, DataLoader) and loader.num_workers > 0 and _reads(loader):
            without_workers(loader)
    return program


def without_workers(loader: DataLoader) -> None:
    """Let a copy of a loader read in this process, and remember how many workers it had."""
    loader.users_workers = workers_of(loader)
    loader.num_workers = 0
    loader.timeout = 0


def _reads(loader: DataLoader) -> bool:
    """Say whether a batch can be read without workers: what `worker_init_fn` makes is not there."""
    copy = copied({"loader": loader})["loader"]
    without_workers(copy)
    try:
        with randomness.frozen_randomness(0):
            next(iter(copy), None)
    except Exception:  # whatever the user's data set raises without a worker
        return False
    return True
