"""Try something with a model, an optimizer and a loader, and leave no trace in any of them."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType

import torch
import torch.nn as nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from labkit import randomness
from labkit.data.loading import Loader
from labkit.keeping import Kept
from labkit.training.interrupts import StopRequest

SEED = 0  # where the random numbers start in a trial: the same trial gives the same numbers


class TrialWarning(UserWarning):
    """A trial cannot be made on a copy."""


@contextmanager
def untouched(*things: object, on_copies: bool = True) -> Iterator[tuple]:
    """Run a block with copies of things; afterwards the things are bit for bit as before, however the block ends.

    things: models, losses, optimizers, loaders in any order, and the block gets their copies in the same order:
    `with untouched(model, optimizer) as (model_copy, optimizer_copy)`, where the optimizer's copy moves the model's.
    A loader's copy has its own position and its own workers. Anything else is passed on as it is.

    After the block come back: weights, buffers, gradients (the same tensors), the optimizer's state, modes,
    requires_grad, attributes, all random numbers. A model that cannot be copied is used itself, with a TrialWarning;
    so is every model with `on_copies=False`. It is put back, too, except for what objects in its attributes hold.
    """
    kept = Kept()
    try:
        for thing in things:
            kept.hold(thing)
        with torch.inference_mode(False), torch.enable_grad():
            randomness.seed_everything(SEED)
            yield _copies(things) if on_copies else tuple(map(_own_position, things))
    finally:
        with StopRequest() as stop:  # a Ctrl-C waits until all is back
            kept.put_back()
        if stop.requested:
            raise KeyboardInterrupt


def _copies(things: tuple) -> tuple:
    """Copy models and optimizers in one go, so that those which belong together still do."""
    originals = [thing for thing in things if isinstance(thing, nn.Module | Optimizer)]
    try:
        _refuse_tied_forwards(originals)
        copies = dict(zip(map(id, originals), copy.deepcopy(originals), strict=True))
    except Exception as error:  # whatever somebody's attributes raise
        name, reason = type(originals[0]).__name__, str(error).split(". ")[0].splitlines()[0].rstrip(".")
        warnings.warn(
            f"{name} cannot be copied ({reason}), so the trial uses it and puts everything back afterwards.",
            TrialWarning,
            stacklevel=5,
        )
        copies = {}
    return tuple(copies.get(id(thing), _own_position(thing)) for thing in things)


def _refuse_tied_forwards(things: list) -> None:
    """Raise TypeError for a module whose forward was replaced by a function: its copy would call the original."""
    modules = [module for thing in things if isinstance(thing, nn.Module) for module in thing.modules()]
    if any(isinstance(vars(module).get("forward"), FunctionType) for module in modules):
        raise TypeError("a forward was replaced by a function, which stays tied to the original")


def _own_position(thing: object) -> object:
    """Return a loader of the same batches that can be iterated without moving the first; other things as they are."""
    if isinstance(thing, Loader):
        return thing.with_workers(thing.num_workers)
    if isinstance(thing, DataLoader):
        twin = copy.copy(thing)
        twin._iterator = None  # an iteration that the original has begun stays its own
        return twin
    return thing
