"""Measurements for the topic "Schedulers and early stopping": the course of the learning rate, and when to stop."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of, warnings_of


def an_optimizer() -> torch.optim.SGD:
    """Return an optimizer with a rate of 1, so that every rate reads as a share of the first one."""
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)


def course(make_schedule: Callable, steps: int, *losses: float) -> list[float]:
    """Return the rate of each update under a schedule; `losses` are handed to `step`, one an update."""
    optimizer = an_optimizer()
    schedule, rates = make_schedule(optimizer), []
    for step in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step(*losses[step : step + 1])
    return rates


def rises(rates: list[float]) -> int:
    """Count the times that the rate turns from not rising to rising."""
    ups = [after > before + 1e-9 for before, after in pairwise(rates)]
    return sum(now and not before for before, now in pairwise([False, *ups]))


@claim(
    "C255",
    true="It falls once, along half a wave over `T_max` steps. Stepped further, it climbs the same wave up again. The "
    "saw teeth, back to the top and down anew, are those of `CosineAnnealingWarmRestarts`.",
    false="It does let the rate fall, by a cosine. What it has not got are the repeated descents: after the end it "
    "climbed as slowly as it fell.",
    depends="Right: one descent is its business. Set `T_max` to the whole length of the training and it never comes "
    "to the climb; for repeated descents take the one with the restarts.",
)
def one_descent() -> dict[str, bool]:
    """Follow the rate of both cosine schedules over three times their length."""
    cosine = course(lambda optimizer: CosineAnnealingLR(optimizer, T_max=5), 16)
    restarts = course(lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=5), 16)
    return {
        "the rate falls over `T_max` steps": cosine[:6] == sorted(cosine[:6], reverse=True) and cosine[5] < 1e-9,
        "then it begins again from the top": abs(cosine[6] - 1) < 1e-6,
        "the next `T_max` steps are a descent as well": cosine[6:11] == sorted(cosine[6:11], reverse=True),
        "the schedule with restarts is at the top after its period": abs(restarts[5] - 1) < 1e-6,
    }


@claim(
    "C256",
    true="With nothing else said it does: a tenth, after more than ten epochs without progress. Both numbers are "
    "yours: `factor=0.5, patience=3` is as common.",
    false="A tenth is its default, so the sentence has a reason. It is only not the rule: the factor is an argument.",
    depends="Right: what it cuts to is `factor`, how long it waits is `patience`. The defaults are 0.1 and 10; write "
    "them down, so that a reader need not know.",
)
def the_factor_is_yours() -> dict[str, bool]:
    """Give a loss that never improves, by default and with a factor of one half."""
    flat = [1.0] * 13
    default = course(ReduceLROnPlateau, 13, *flat)
    halved = course(lambda optimizer: ReduceLROnPlateau(optimizer, factor=0.5), 13, *flat)
    return {
        "with its defaults it cuts to a tenth": abs(default[-1] - 0.1) < 1e-9,
        "with `factor=0.5` it cuts to a tenth": abs(halved[-1] - 0.1) < 1e-9,
        "it cuts as soon as the loss stands still": default[2] < 1,
    }


@claim(
    "C257",
    true="Yes: three epochs without improvement are borne, the fourth halves the rate. The loss is what it decides by, "
    "so `step()` without it is an error.",
    false="Other schedules are stepped with nothing in the parentheses, so this one looks odd. It watches the loss, "
    "and has to be told; without a value it raised.",
    depends="With accuracy in place of a loss it would be `mode='max'`. For a loss it is as written, word for word.",
)
def halved_at_the_fourth() -> dict[str, bool]:
    """Give a loss that improves, then stands still; then forget the loss, and use an argument of the past."""

    def make(optimizer: torch.optim.Optimizer, **more: bool) -> ReduceLROnPlateau:
        return ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=3, **more)

    rates = course(make, 8, 1.0, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8)
    return {
        "three epochs without improvement are borne": rates[:6] == [1.0] * 6,
        "the fourth halves the rate": rates[6:] == [0.5] * 2,
        "`step()` without a value is an error": error_of(make(an_optimizer()).step).startswith("TypeError"),
        "its argument `verbose` is gone": "verbose" in error_of(lambda: make(an_optimizer(), verbose=True)),
    }


@claim(
    "C258",
    true="Yes. `T_max` counts calls. Given 10 for ten epochs and stepped at each of 20 batches, the rate ran up and "
    "down ten times. Decide, and compute `T_max` in the same unit.",
    false="The schedule cannot know what an epoch is; it sees calls only. With the wrong unit nothing warned, and "
    "the rate ran through many waves.",
    depends="Both ways are good, and which one you take is free. That you have to decide, and count `T_max` "
    "accordingly, is not.",
)
def calls_are_counted() -> dict[str, bool]:
    """Step a schedule of ten once an epoch and once a batch, and one of the right length once a batch."""
    epochs, batches = 10, 20
    by_epoch = course(lambda optimizer: CosineAnnealingLR(optimizer, T_max=epochs), epochs + 1)
    mixed = course(lambda optimizer: CosineAnnealingLR(optimizer, T_max=epochs), epochs * batches + 1)
    by_batch = course(lambda optimizer: CosineAnnealingLR(optimizer, T_max=epochs * batches), epochs * batches + 1)
    optimizer = an_optimizer()
    schedule = CosineAnnealingLR(optimizer, T_max=epochs)
    warned = warnings_of(schedule.step)
    return {
        "in epochs and stepped per epoch, the rate falls to 0": rises(by_epoch) == 0 and by_epoch[-1] < 1e-9,
        "in batches and stepped per batch, it does so too": rises(by_batch) == 0 and by_batch[-1] < 1e-9,
        "in epochs and stepped per batch, it climbs again and again": rises(mixed) == epochs,
        "stepped before the optimizer, it warns": any("before `optimizer.step()`" in text for text in warned),
    }


def warm_up(optimizer: torch.optim.Optimizer) -> lr_scheduler.LambdaLR:
    """Return a schedule that rises to the full rate in four steps and then stays there."""
    return lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))


def decay(optimizer: torch.optim.Optimizer) -> lr_scheduler.ExponentialLR:
    """Return a schedule that takes a tenth off at each step."""
    return lr_scheduler.ExponentialLR(optimizer, gamma=0.9)


def rate_of_two(first: Callable, second: Callable) -> float:
    """Step two schedules one after the other for twelve updates and return the rate."""
    optimizer = an_optimizer()
    schedules = [first(optimizer), second(optimizer)]
    for _ in range(12):
        optimizer.step()
        for schedule in schedules:
            schedule.step()
    return optimizer.param_groups[0]["lr"]


@claim(
    "C259",
    true="Yes. Both write into the same place. One read what the other had written, or wrote over it: of twelve steps "
    "of decay none was left, or only the last. `SequentialLR` keeps them apart.",
    false="Two calls of `step()` look harmless, and no error came. But the rate was none that anybody had meant, and "
    "another one when the calls changed places.",
    depends="Some pairs do go together, as those that multiply what they find. You have to know which, and that is "
    "what *take care* says.",
)
def two_hands_on_one_rate() -> dict[str, bool]:
    """Step a warm-up and a decay one after the other, in both orders, and in a sequence."""
    meant = 0.9**8  # four updates of warm-up, then decay

    def in_sequence(optimizer: torch.optim.Optimizer) -> lr_scheduler.SequentialLR:
        return lr_scheduler.SequentialLR(optimizer, [warm_up(optimizer), decay(optimizer)], milestones=[4])

    one, other = rate_of_two(decay, warm_up), rate_of_two(warm_up, decay)
    return {
        "stepped one after the other, they give another rate than was meant": all(
            abs(rate - meant) > 0.1 for rate in (one, other)
        ),
        "their order changes the rate": abs(one - other) > 0.01,
        "`SequentialLR` gives the rate that was meant": abs(course(in_sequence, 13)[-1] - meant) < 1e-6,
    }
