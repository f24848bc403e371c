"""Chapter 07, first part: the loss of somebody who knows nothing yet."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise


def run_baselines(answer: Any, labels: Tensor, classes: int) -> Any:
    """Return the two losses as plain numbers."""
    families.need_function(answer)
    result = answer(labels, classes)
    return [float(one) for one in result] if isinstance(result, list | tuple | Tensor) else result


def _shares(labels: Tensor, classes: int) -> list[float]:
    return (torch.bincount(labels, minlength=classes) / len(labels)).tolist()


def _entropy(shares: list[float], log: Callable[[float], float] = math.log) -> float:
    return -sum(share * log(share) for share in shares if share > 0)


def _with_logarithm(log: Callable[[float], float]) -> Callable[[Tensor, int], tuple]:
    return lambda labels, classes: (log(classes), _entropy(_shares(labels, classes), log))


def _zero_times_infinity(labels: Tensor, classes: int) -> tuple:
    shares = torch.tensor(_shares(labels, classes))
    return math.log(classes), -(shares * shares.log()).sum()


def _classes_that_occur(labels: Tensor, classes: int) -> tuple:
    return math.log(len(labels.unique())), _entropy(_shares(labels, classes))


def _all_the_same(labels: Tensor, classes: int) -> tuple:
    return math.log(classes), math.log(classes)


def _largest_share(labels: Tensor, classes: int) -> tuple:
    return math.log(classes), -math.log(max(_shares(labels, classes)))


def _not_weighted(labels: Tensor, classes: int) -> tuple:
    occurring = [share for share in _shares(labels, classes) if share > 0]
    return math.log(classes), -sum(map(math.log, occurring)) / len(occurring)


def _share_wrong(labels: Tensor, classes: int) -> tuple:
    return 1 - 1 / classes, 1 - max(_shares(labels, classes))


def _cases(generator: torch.Generator) -> list[tuple]:
    cases = []
    for counts in ([50, 50], [90, 9, 1, 0], [30, 10, 20, 40, 5], [12, 0, 3]):
        labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        cases.append((labels[torch.randperm(len(labels), generator=generator)], len(counts)))
    return cases


BASELINE_LOSSES = Exercise(
    name="baseline_losses",
    prompt="Two numbers to have beside every first loss. `labels` (int64) are the classes of the training samples, out "
    "of `classes`. Return the mean cross-entropy (natural logarithm) of one who gives every class the same "
    "probability, and of one who knows only how frequent the classes are, and gives each of them just that "
    "probability. A class that does not occur adds nothing to the second.",
    stub='''def baseline_losses(labels, classes):
    """Return the loss of equal probabilities, and the loss of the shares of the classes."""
    return ...  # your turn''',
    solved='''def baseline_losses(labels, classes):
    """Return the loss of equal probabilities, and the loss of the shares of the classes."""
    shares = torch.bincount(labels, minlength=classes) / len(labels)
    occurring = shares[shares > 0]
    return torch.tensor(1.0 * classes).log(), -(occurring * occurring.log()).sum()''',
    hints=(
        "The loss of one sample is minus the logarithm of the probability that its class was given.",
        "Equal probabilities are 1 / classes, for every sample. What is minus the logarithm of that?",
        "In the second, a class with the share q has the probability q, and a share q of all samples loses -log(q): "
        "sum `-q * log(q)` over the classes with q > 0. `torch.bincount` counts.",
    ),
    cases=_cases,
    run=run_baselines,
    praise="A first loss far above the one, or a last loss that stays at the other, now says something.",
    misconceptions=(
        Misconception(
            "0 · log(0)",
            _zero_times_infinity,
            "A class that does not occur has the share 0. Its logarithm is minus infinity, and 0 · ∞ is NaN: one empty "
            "class spoils the sum. Leave it out before the logarithm.",
        ),
        Misconception(
            "the share of wrong answers",
            _share_wrong,
            "That is how often one who guesses is wrong: a rate of errors. The loss is minus the logarithm of a "
            "probability, and no rate: for ten classes it is 2.3.",
        ),
        Misconception(
            "a logarithm to the base 2",
            _with_logarithm(math.log2),
            "These are bits. `F.cross_entropy` uses the natural logarithm: log(10) is 2.30, and not 3.32.",
        ),
        Misconception(
            "a logarithm to the base 10",
            _with_logarithm(math.log10),
            "`F.cross_entropy` uses the natural logarithm, in Python `math.log`: log(10) is 2.30, and not 1.",
        ),
        Misconception(
            "only classes that occur",
            _classes_that_occur,
            "The network has an output for each of `classes`, also for those that never come. Who knows nothing gives "
            "those a probability, too.",
        ),
        Misconception(
            "two times the same",
            _all_the_same,
            "Where one class makes up nine of ten, knowing that is worth a lot: the second loss is smaller. A network "
            "that stops there has learned the frequencies, and nothing of its inputs.",
        ),
        Misconception(
            "the largest class alone",
            _largest_share,
            "That is the loss of the samples of the largest class. The others lose more, and belong into the mean.",
        ),
        Misconception(
            "classes instead of samples",
            _not_weighted,
            "A mean over *classes*. A loss is the mean over *samples*, so each class counts as often as it occurs.",
        ),
    ),
)
