"""Chapter 05, fifth part: in which epoch to stop."""

import math
from collections.abc import Callable

import torch

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise

_FALLING = [0.9, 0.8, 0.6, 0.7, 0.5, 0.55, 0.52, 0.58, 0.3]
_CREEPING = [1.0, 0.9, 0.89, 0.88, 0.87, 0.86, 0.85, 0.84, 0.83]
_LEVEL = [1.0, 0.8, 0.8, 0.8, 0.8, 0.7]
_BROKEN = [1.0, 0.8, math.nan, math.nan, math.nan, 0.1]
_RISING = [1.0, 0.5, 0.51, 0.52, 0.53, 0.2]
_GOOD = [0.9, 0.7, 0.8, 0.5]


def _stops(
    is_better: Callable[[float, float, float], bool] = lambda loss, best, min_delta: loss < best - min_delta,
    is_enough: Callable[[int, int], bool] = lambda waited, patience: waited >= patience,
    resets: bool = True,
) -> Callable[[list[float], int, float], tuple[int, int]]:
    """Return an answer with its own rules for what is better, when it waited long enough, and whether it forgives."""

    def stop_early(losses: list[float], patience: int, min_delta: float) -> tuple[int, int]:
        best, best_epoch, waited = math.inf, 0, 0
        for epoch, loss in enumerate(losses, start=1):
            if is_better(loss, best, min_delta):
                best, best_epoch, waited = loss, epoch, 0 if resets else waited
            else:
                waited += 1
            if is_enough(waited, patience):
                return epoch, best_epoch
        return len(losses), best_epoch

    return stop_early


_right = _stops()


def _against_the_last(losses: list[float], patience: int, min_delta: float) -> tuple[int, int]:
    best_epoch, waited = 1, 0
    for epoch in range(2, len(losses) + 1):
        waited = 0 if losses[epoch - 1] < losses[epoch - 2] - min_delta else waited + 1
        best_epoch = epoch if losses[epoch - 1] < losses[best_epoch - 1] - min_delta else best_epoch
        if waited >= patience:
            return epoch, best_epoch
    return len(losses), best_epoch


def _best_of_all(losses: list[float], patience: int, min_delta: float) -> tuple[int, int]:
    return _right(losses, patience, min_delta)[0], losses.index(min(losses)) + 1


def _last_is_best(losses: list[float], patience: int, min_delta: float) -> tuple[int, int]:
    return (_right(losses, patience, min_delta)[0],) * 2


def _from_zero(losses: list[float], patience: int, min_delta: float) -> tuple[int, int]:
    epoch, best_epoch = _right(losses, patience, min_delta)
    return epoch - 1, best_epoch - 1


def _stop_cases(generator: torch.Generator) -> list[tuple]:
    size = 0.5 + torch.rand((), generator=generator).item()  # a loss may have any size
    cases = [
        (_FALLING, 3, 0.0),
        (_CREEPING, 3, 0.025),
        (_LEVEL, 3, 0.0),
        (_RISING, 3, 0.05),
        (_BROKEN, 3, 0.0),
        (_GOOD, 3, 0.0),
    ]
    return [([loss * size for loss in losses], patience, min_delta * size) for losses, patience, min_delta in cases]


STOP_EARLY = Exercise(
    name="stop_early",
    prompt="Given the validation loss of each epoch, when would a training have stopped? A loss is *better* when it is "
    "lower than the best so far by more than `min_delta`. The training stops after `patience` epochs in a row without "
    "a better one, or else at the end. Return the epoch in which it stops and that of the best loss, both counted from "
    "1. A loss may be NaN; that is never better.",
    stub='''def stop_early(losses, patience, min_delta):
    """Return (epoch in which the training stops, epoch of the best loss), counted from 1."""
    return ...  # your turn''',
    solved='''def stop_early(losses, patience, min_delta):
    """Return (epoch in which the training stops, epoch of the best loss), counted from 1."""
    best, best_epoch = float("inf"), 0
    for epoch, loss in enumerate(losses, start=1):
        if loss < best - min_delta:
            best, best_epoch = loss, epoch
        elif epoch - best_epoch >= patience:
            return epoch, best_epoch
    return len(losses), best_epoch''',
    hints=(
        "Two things to remember on the way: the best loss, and the epoch that it came from. How long you have waited "
        "follows from the second.",
        "Begin with an infinite best loss. Ask for *better* with `<`, and let all else wait: so NaN waits, too.",
        "After an epoch that is not better, `epoch - best_epoch` epochs in a row were not.",
    ),
    cases=_stop_cases,
    run=families.call,
    praise="Stop late, keep the best: two numbers, not one.",
    misconceptions=(
        Misconception(
            "one epoch too many",
            _stops(is_enough=lambda waited, patience: waited > patience),
            "With `>` the training waits one epoch more than `patience` says. (torch's `ReduceLROnPlateau` counts like "
            "that, which is one reason why the two are mixed up.)",
        ),
        Misconception(
            "bad epochs are counted, in a row or not",
            _stops(resets=False),
            "The counter never goes back to 0. A validation loss is noisy, and each small bump brings the end nearer, "
            "however well it goes. A better epoch forgives all that came before.",
        ),
        Misconception(
            "compared with the epoch before",
            _against_the_last,
            "A loss below that of the *last* epoch may still be far above the best: up by two and down by one looks "
            "like progress every other time. Compare with the best.",
        ),
        Misconception(
            "min_delta is not used",
            _stops(is_better=lambda loss, best, min_delta: loss < best),
            "A loss that creeps down by next to nothing in each epoch never ends the training. `min_delta` says how "
            "much is worth waiting for.",
        ),
        Misconception(
            "min_delta makes it easier",
            _stops(is_better=lambda loss, best, min_delta: loss < best + min_delta),
            "With `best + min_delta` a loss that is *higher* than the best counts as better. It has to be lower by "
            "more than `min_delta`.",
        ),
        Misconception(
            "equal is better",
            _stops(is_better=lambda loss, best, min_delta: loss <= best - min_delta),
            "With `<=` a loss that stands still counts as better in each epoch, and nothing ever stops.",
        ),
        Misconception(
            "NaN is better",
            _stops(is_better=lambda loss, best, min_delta: not loss >= best - min_delta),
            "Any comparison with NaN is false. Whoever asks *is it worse?* hears no from a broken loss, and takes it "
            "for the best one. Ask *is it better?*",
        ),
        Misconception(
            "the epoch of the stop is taken for the best",
            _last_is_best,
            "When it stops, the best epoch is `patience` epochs ago: that is why it stops.",
        ),
        Misconception(
            "the best of all losses, also of those never seen",
            _best_of_all,
            "`min(losses)` looks into a future that the stopped training does not have, and counts what is lower by "
            "less than `min_delta`.",
        ),
        Misconception("counted from 0", _from_zero, "Right, but counted from 0; the first epoch is number 1 here."),
    ),
)
