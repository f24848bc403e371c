"""Chapter 03, sixth part: weights that make every class come equally often."""

from typing import Any

import torch
from torch import Tensor

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import shown
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind, need_function


def run_weights(answer: Any, labels: Tensor) -> Any:
    """Call the answer: its weights in units of their sum, since a sampler asks for no more."""
    need_function(answer)
    if (weights := answer(labels)) is ...:
        return ...
    try:
        weights = torch.as_tensor(weights, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise WrongKind(f"Asked for are the weights, one number for each sample; got {shown(weights)}.") from None
    return {"weights, in units of their sum": weights / weights.abs().sum()}


def _each_sample_by_its_class(of_class: Tensor, labels: Tensor) -> Tensor:
    return of_class.double()[labels]


def _labels(generator: torch.Generator, counts: dict[int, int]) -> Tensor:
    """Return as many labels of each class as `counts` says, in a drawn order."""
    labels = torch.tensor([label for label, count in counts.items() for _ in range(count)])
    return labels[torch.randperm(len(labels), generator=generator)]


BALANCING_WEIGHTS = Exercise(
    name="balancing_weights",
    prompt="Some classes have many samples, others few. Return the weights for `WeightedRandomSampler`, with which "
    "every class is drawn equally often: one weight for each *sample*. Only their ratios count. A label may be one "
    "that no sample has.",
    stub='''def balancing_weights(labels):
    """int64 (N,) -> weights (N,): with them, each class that is there is drawn equally often."""
    return ...  # your turn''',
    solved='''def balancing_weights(labels):
    """int64 (N,) -> weights (N,): with them, each class that is there is drawn equally often."""
    counts = torch.bincount(labels)
    return 1 / counts[labels]''',
    hints=(
        "A class of 900 and one of 100 are to get the same sum of weights. What is then the weight of one sample?",
        "`torch.bincount(labels)` counts each label, also those that nobody has.",
        "`counts[labels]` gives for each sample how many its class has.",
    ),
    cases=lambda generator: [
        (_labels(generator, {0: 7, 1: 2, 2: 3}),),
        (_labels(generator, {0: 5, 2: 1, 5: 4}),),
        (_labels(generator, {0: 9, 1: 4}),),
    ],
    run=run_weights,
    praise="In each class the weights add up to 1. A share for each class, then, whatever its size.",
    misconceptions=(
        Misconception(
            "one weight for each class",
            lambda labels: 1 / torch.bincount(labels),
            "`WeightedRandomSampler` draws *samples*: the third weight is that of sample 3, not of class 3. With ten "
            "weights it draws the first ten samples, again and again, and complains of nothing. Index by `labels`.",
        ),
        Misconception(
            "in proportion to the size",
            lambda labels: _each_sample_by_its_class(torch.bincount(labels), labels),
            "A class that is large as it is now gets a large weight, too: the imbalance is squared. Take the inverse.",
        ),
        Misconception(
            "one less the share",
            lambda labels: _each_sample_by_its_class(1 - torch.bincount(labels) / len(labels), labels),
            "With two classes this happens to balance. With more it does not: two small classes both get almost 1, "
            "whatever the ratio of their sizes. The inverse, 1 / count, works for any number.",
        ),
        Misconception(
            "rounded to whole numbers",
            lambda labels: _each_sample_by_its_class(len(labels) // torch.bincount(labels).clamp(min=1), labels),
            "`//` cuts off what comes after the point: 1.7 becomes 1, and that class comes too rarely. Divide by `/`.",
        ),
        Misconception(
            "the place in a list of those that are there",
            lambda labels: (1 / labels.unique(return_counts=True)[1])[labels],
            "`unique` counts only the labels that are there. If one is missing, all after it move up by one place, and "
            "`counts[labels]` looks in the wrong place, or beyond the end. `bincount` leaves a 0 where nobody is.",
        ),
    ),
)
