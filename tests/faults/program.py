"""Faulty and healthy training programs: how one is written, collected and trained.

A faulty program is a function in a module of tests/faults/broken. It is asked for the program with the fault, or for
its healthy twin, in which this one fault is mended and nothing else is different:

    @broken("zero_grad_misplaced", effect="hurts", epochs=3, gap=0.1)
    def gradients_cleared_once_an_epoch(sound: bool) -> dict: ...

A healthy program is a function in a module of tests/faults/sound; the text says what is unusual about it:

    @sound("accumulation over four batches")
    def four_batches_a_step() -> dict: ...

The dict holds what a trainer needs:

    model         nn.Module
    loss_fn       loss_fn(outputs, targets) -> scalar tensor
    optimizer     torch.optim.Optimizer
    train_loader  DataLoader of (inputs, targets)
    val_loader    the same for validation, or None
    scheduler     optional: stepped once an epoch, after validation; a ReduceLROnPlateau gets the validation score
    train_step    optional: train_step(model, batch, loss_fn, optimizer) -> float; replaces forward, backward and step
    evaluate      optional: evaluate(model, loader) -> float, higher is better; the default is the accuracy of argmax
    anything else an object that the step or the evaluation owns; may be ignored

Whoever builds a program calls `seed` first. Data come from generators of their own, so only the weights and the order
of the batches depend on the seed. Every run needs a dict of its own: a step may carry state.
"""

import importlib
import math
import pkgutil
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy
import torch

EFFECTS = ("hurts", "raises", "silent", "none")
GROUPS = ("broken", "sound")
_REGISTERED: dict[str, "Program"] = {}


@dataclass(frozen=True)
class Program:
    """A training program whose fault is known.

    name        the name of its function, unique in the corpus
    fault       a label of the vocabulary, "none" for a healthy program
    build       returns a fresh dict of the program
    healthy     returns a fresh dict of the healthy twin; None for a healthy program
    effect      "hurts": the twin is better by `gap`; "raises": training stops with an exception;
                "silent": training looks fine, and `measure` shows the damage; "none": healthy
    epochs      after how many epochs the effect shows
    measure     of the trained dict, higher is better; None: the last validation score
    gap         the least difference between twin and program, for every seed
    also        other labels that a careful engineer could name first (only where it is arguable)
    mechanical  the remedy is mechanical: a call moved, a mode set, the right parameters, another learning rate
    note        what is unusual about a healthy program
    """

    name: str
    fault: str
    build: Callable[[], dict]
    healthy: Callable[[], dict] | None = None
    effect: str = "none"
    epochs: int = 3
    measure: Callable[[dict], float] | None = None
    gap: float = 0.0
    also: tuple[str, ...] = ()
    mechanical: bool = False
    note: str = ""

    def __str__(self) -> str:
        return self.name


def broken(
    fault: str,
    *,
    effect: str,
    epochs: int = 3,
    gap: float = 0.0,
    measure: Callable[[dict], float] | None = None,
    also: tuple[str, ...] = (),
    mechanical: bool = False,
) -> Callable:
    """Register a function of `sound` as a faulty program (sound=False) with its healthy twin (sound=True)."""
    assert effect in EFFECTS[:3], f"{effect!r} is no effect of a fault"
    assert effect == "raises" or gap > 0, f"a fault that {effect} needs a gap"

    def register(function: Callable[[bool], dict]) -> Callable[[bool], dict]:
        build, healthy = partial(function, sound=False), partial(function, sound=True)
        _add(Program(function.__name__, fault, build, healthy, effect, epochs, measure, gap, tuple(also), mechanical))
        return function

    return register


def sound(note: str, *, epochs: int = 3, measure: Callable[[dict], float] | None = None) -> Callable:
    """Register a function without arguments as a healthy program; the note says what is unusual about it."""

    def register(function: Callable[[], dict]) -> Callable[[], dict]:
        _add(Program(function.__name__, "none", function, epochs=epochs, measure=measure, note=note))
        return function

    return register


def _add(program: Program) -> None:
    assert program.name not in _REGISTERED, f"two programs are called {program.name}"
    _REGISTERED[program.name] = program


def _place(program: Program) -> str:
    return getattr(program.build, "func", program.build).__module__


def corpus() -> list[Program]:
    """Import every module of broken/ and sound/ and return all programs, by module and in the order of the source."""
    here = Path(__file__).parent
    for group in GROUPS:
        for found in sorted(pkgutil.iter_modules([str(here / group)]), key=lambda each: each.name):
            importlib.import_module(f"{__package__}.{group}.{found.name}")
    return sorted(_REGISTERED.values(), key=_place)


def seed(number: int) -> None:
    """Seed everything that a program may draw from."""
    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)


def train(program: dict, epochs: int) -> tuple[list[float], float]:
    """Train a built program as an ordinary trainer would; return the mean loss of each epoch and the last score.

    The score is NaN without a validation loader.
    """
    model, scheduler = program["model"], program.get("scheduler")
    step, evaluate = program.get("train_step") or _step, program.get("evaluate") or accuracy
    losses, score = [], math.nan
    for _ in range(epochs):
        model.train()
        steps = [
            float(step(model, batch, program["loss_fn"], program["optimizer"])) for batch in program["train_loader"]
        ]
        losses.append(sum(steps) / len(steps))
        if program.get("val_loader") is not None:
            score = float(evaluate(model, program["val_loader"]))
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            scheduler.step(score)
        elif scheduler is not None:
            scheduler.step()
    return losses, score


def accuracy(model: torch.nn.Module, loader) -> float:
    """Return the share of right classes in evaluation mode: the default of `evaluate`."""
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(dim=1) == y).sum().item()
            total += y.numel()
    return right / total


def _step(model, batch, loss_fn, optimizer) -> float:
    x, y = batch
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
