"""A paired micro-trial: the program as it is against the program with a proposed fix, over a few seeds."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from labkit import randomness
from labkit.doctor.loading import in_this_process
from labkit.doctor.nested import mapped
from labkit.doctor.pace import affordable, fastest
from labkit.doctor.program import Program, usual_step

SEEDS = 3
SECONDS = 3.0  # for all trainings of one trial together, if MOST updates of each would take longer
FEWEST, MOST = 12, 80  # updates of one training


@dataclass(frozen=True)
class Comparison:
    """What was reached, seed by seed, without and with the fix; larger is better. updates: of each training.

    A trial may end before the last seed, when the fix has lost already.
    """

    before: list[float]
    after: list[float]
    updates: int
    measured: str

    @property
    def helps(self) -> bool:
        """Whether the fix wins by more than the seeds differ among themselves; what was not tried does not."""
        if not self.before:
            return False
        if min(self.before) == -float("inf"):  # trainings that ended in NaN have no spread
            return min(self.after) > max(self.before)
        distance = min(self.after) - max(self.before)
        spreads = [max(results) - min(results) for results in (self.before, self.after)]
        by_the_means = fmean(self.after) - fmean(self.before) > max(*spreads, 1e-3)
        by_the_worst = distance > max(spreads[1], 1e-3)  # a program that goes wrong in a new way each time spreads far
        return distance > 0 and (by_the_means or by_the_worst)

    def __str__(self) -> str:
        return f"{self.measured} {fmean(self.before):.3g} -> {fmean(self.after):.3g} after {self.updates} updates"


class Trials:
    """Trials of one program: how it trains as it is, and how long an update takes, is found out only once."""

    def __init__(self, program: Program, seeds: int = SEEDS) -> None:
        self._program = program
        self._seeds = range(seeds)
        self._once: float | None = None
        self._before: dict[tuple, float] = {}

    def compare(
        self,
        mend: Callable[[Program], None],
        judge: Callable[[Program], float] | None = None,
        updates: int | None = None,
        to_the_end: bool = False,
    ) -> Comparison:
        """Train copies with and without a fix, from the same weights on the same batches; return both results.

        judge: program -> number, larger is better; default `training_loss`. It is asked after the last update. A
        training has MOST updates, or as many as `updates` asks for, up to three times MOST; less where one update is
        so long that all trainings would take more than SECONDS. A training that raises counts as minus infinity. Where
        even FEWEST updates take too long, nothing is tried. Unless `to_the_end`, it ends as soon as the fix has lost.
        """
        judge = judge or training_loss
        if self._once is None:
            self._once = seconds_of_an_update(self._program)
        updates = updates_for(self._once, 2 * len(self._seeds), max(updates or 0, MOST))
        if not updates:
            return Comparison([], [], 0, "too slow to be tried")
        before, after = [], []
        for seed in self._seeds:
            before.append(self._as_it_is(judge, updates, seed))
            after.append(_trained(self._program, mend, judge, updates, seed))
            if min(after) <= max(before) and not to_the_end:
                break
        return Comparison(before, after, updates, judge.__doc__.split(".")[0].split(":")[0].lower())

    def _as_it_is(self, judge: Callable, updates: int, seed: int) -> float:
        key = (judge, updates, seed)
        if key not in self._before:
            self._before[key] = _trained(self._program, None, judge, updates, seed)
        return self._before[key]


def compare(
    program: Program,
    mend: Callable[[Program], None],
    judge: Callable[[Program], float] | None = None,
    updates: int | None = None,
    seeds: int = SEEDS,
) -> Comparison:
    """Train copies of a program with and without a fix, with each seed to the end: see `Trials.compare`."""
    return Trials(program, seeds).compare(mend, judge, updates, to_the_end=True)


def _trained(program: Program, mend: Callable | None, judge: Callable, updates: int, seed: int) -> float:
    with randomness.frozen_randomness(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial = program.copy()
        try:
            if mend is not None:
                mend(trial)
            train(in_this_process(trial), updates)
            result = float(judge(trial))
        except Exception:  # whatever the user's pieces raise: such a training reached nothing
            return -float("inf")
    return result if result == result else -float("inf")


def train(program: Program, updates: int) -> None:
    """Make updates, over as many epochs as they take; the schedule moves as the program's own loop would move it."""
    done = 0
    while done < updates:
        program.model.train()
        before = done
        for batch in program.train_loader:
            if done == updates:
                return
            program.step(batch)
            done += 1
        if done == before:
            return  # the loader is empty
        if program.scheduler is not None and not isinstance(program.scheduler, ReduceLROnPlateau):
            program.scheduler.step()


def training_loss(program: Program) -> float:
    """Minus the loss on the first training batches: in evaluation mode, without gradients."""
    program.model.eval()
    losses = []
    with torch.no_grad():
        for inputs, targets in _first(program.train_loader, 4):
            losses.append(float(program.loss_fn(program.model(inputs), targets)))
    return -fmean(losses)


def validation_score(program: Program) -> float:
    """The score: the program's own, on the validation data if there are any."""
    return float(program.score(program.val_loader if program.val_loader is not None else program.train_loader))


def _first(loader: Any, count: int) -> Iterator[Any]:
    for number, batch in enumerate(loader):
        if number == count:
            return
        yield batch


def most_updates(program: Program, trainings: int) -> int:
    """Return how many updates each of some trainings may have, MOST at most; 0 where even FEWEST are too many."""
    return updates_for(seconds_of_an_update(program), trainings, MOST)


def updates_for(once: float, trainings: int, wished: int) -> int:
    """Return how many updates each of some trainings may have if one takes `once`; FEWEST may take somewhat longer."""
    once *= trainings
    return affordable(min(wished, 3 * MOST), FEWEST, once, SECONDS) if FEWEST * once < 1.5 * SECONDS else 0


def seconds_of_an_update(program: Program) -> float:
    """Return how long an update of a copy takes; 0.0 if it raises, as it will raise in the trial again."""
    trial = in_this_process(program.copy())
    begins = []
    step = trial.train_step or usual_step

    def timed(*pieces: Any) -> Any:
        begins.append(time.thread_time())
        return step(*pieces)

    trial.train_step = timed
    with randomness.frozen_randomness(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            train(trial, 4)
        except Exception:  # whatever the user's pieces raise
            return 0.0
    return fastest(begins)


def on(thing: Any, device: torch.device | str) -> Any:
    """Return a batch with its tensors on a device."""

    def move(tensor: Tensor) -> Tensor:
        return tensor.to(device)

    return mapped(thing, move)
