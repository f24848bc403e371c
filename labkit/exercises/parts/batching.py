"""The learner's own batches: pictures and targets in a given order."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import need_function

Batches = Iterator[tuple[Tensor, Tensor]]


def _run_batches(answer: Any, inputs: Tensor, targets: Tensor, order: Tensor, batch_size: int) -> Any:
    """Return the list of batches; at most as many as there are samples are asked for."""
    need_function(answer)
    batches = answer(inputs, targets, order, batch_size)
    if batches is ... or not hasattr(batches, "__iter__"):
        return batches
    return [batch for batch, _ in zip(batches, range(len(inputs) + 1), strict=False)]


def _in_stored_order(inputs: Tensor, targets: Tensor, order: Tensor, batch_size: int) -> Batches:
    yield from zip(inputs.split(batch_size), targets.split(batch_size), strict=True)


def _targets_left_behind(inputs: Tensor, targets: Tensor, order: Tensor, batch_size: int) -> Batches:
    yield from zip(inputs[order].split(batch_size), targets.split(batch_size), strict=True)


def _last_dropped(inputs: Tensor, targets: Tensor, order: Tensor, batch_size: int) -> Batches:
    for start in range(0, len(order) - batch_size + 1, batch_size):
        chosen = order[start : start + batch_size]
        yield inputs[chosen], targets[chosen]


def _one_batch(inputs: Tensor, targets: Tensor, order: Tensor, batch_size: int) -> tuple[Tensor, Tensor]:
    return inputs[order[:batch_size]], targets[order[:batch_size]]


def _overlapping(inputs: Tensor, targets: Tensor, order: Tensor, batch_size: int) -> Batches:
    for start in range(len(order)):
        chosen = order[start : start + batch_size]
        yield inputs[chosen], targets[chosen]


def _one_range_too_long(inputs: Tensor, targets: Tensor, order: Tensor, batch_size: int) -> Batches:
    for start in range(0, len(order) + 1, batch_size):
        chosen = order[start : start + batch_size]
        yield inputs[chosen], targets[chosen]


def _batches_cases(generator: torch.Generator) -> list[tuple]:
    def case(count: int, batch_size: int) -> tuple:
        inputs = torch.randn(count, 2, generator=generator)
        order = torch.arange(count).roll(1) if count < 3 else torch.randperm(count, generator=generator)
        return inputs, torch.arange(count), order, batch_size

    return [case(7, 3), case(8, 4), case(2, 5)]


BATCHES = Exercise(
    name="batches",
    prompt=(
        "Write `batches(inputs, targets, order, batch_size)`, which yields pairs `(inputs, targets)` of `batch_size` "
        "samples each, in the given `order` (int64, a permutation). The last batch may be smaller; no sample is lost."
    ),
    stub='''def batches(inputs, targets, order, batch_size):
    """Yield (inputs, targets) of batch_size samples, in the given order."""
    return ...  # your turn
''',
    solved='''def batches(inputs, targets, order, batch_size):
    """Yield (inputs, targets) of batch_size samples, in the given order."""
    for chosen in order.split(batch_size):
        yield inputs[chosen], targets[chosen]
''',
    hints=(
        "`order.split(batch_size)` cuts the order into pieces; the last may be shorter.",
        "Index both tensors with the same piece: `yield inputs[chosen], targets[chosen]`.",
    ),
    cases=_batches_cases,
    run=_run_batches,
    misconceptions=(
        Misconception(
            "the order is not used",
            _in_stored_order,
            "Data are often stored class by class. In that order a batch shows one class, and each update forgets the "
            "one before.",
        ),
        Misconception(
            "the targets stay behind",
            _targets_left_behind,
            "Inputs are shuffled and targets are not: every picture gets somebody else's label. Index both alike.",
        ),
        Misconception(
            "the last batch is lost",
            _last_dropped,
            "When the number of samples is no multiple of the batch size, the rest makes a smaller last batch.",
        ),
        Misconception("one batch only", _one_batch, "`return` ends the function with the first batch; use `yield`."),
        Misconception(
            "an empty batch at the end",
            _one_range_too_long,
            "When the batch size divides the number of samples there is no rest, and your last batch has nothing in "
            "it: its mean loss is NaN, and with it all weights. `range(0, len(order), batch_size)` stops in time.",
        ),
        Misconception(
            "the batches overlap",
            _overlapping,
            "The next batch starts `batch_size` places further on: `range(0, len(order), batch_size)`.",
        ),
    ),
)
