"""Chapter 05, eighth part: an average that follows the weights."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import with_drawn_weights
from labkit.exercises.exercise import Exercise


def run_average(answer: Any, average: nn.Module, model: nn.Module, decay: float) -> Any:
    """Let a model change and the average follow, twice: the state of the average, and whether the model was spared."""
    families.need_function(answer)
    spared = True
    for number in (1, 2):
        with torch.no_grad():
            for value in model.state_dict().values():
                value += number
        before = copy.deepcopy(model.state_dict())
        if answer(average, model, decay) is ...:
            return ...
        spared = spared and all(value.equal(before[name]) for name, value in model.state_dict().items())
    return {
        "the model is as it was": spared,
        **{f"{name} of the average": value.detach().clone() for name, value in average.state_dict().items()},
    }


def _mixed(old: Tensor, new: Tensor, decay: float) -> None:
    old.mul_(decay).add_(new, alpha=1 - decay)


def _copied(old: Tensor, new: Tensor, decay: float) -> None:
    old.copy_(new)


def _left(old: Tensor, new: Tensor, decay: float) -> None:
    pass


def _averages(
    weights: Callable[[Tensor, Tensor, float], None] = _mixed,
    statistics: Callable[[Tensor, Tensor, float], None] = _mixed,
    counters: Callable[[Tensor, Tensor, float], None] = _copied,
) -> Callable[[nn.Module, nn.Module, float], None]:
    """Return an answer with its own rule for parameters, for buffers with a point, and for whole numbers."""

    @torch.no_grad()
    def average_weights(average: nn.Module, model: nn.Module, decay: float) -> None:
        for old, new in zip(average.parameters(), model.parameters(), strict=True):
            weights(old, new, decay)
        for old, new in zip(average.buffers(), model.buffers(), strict=True):
            (statistics if old.is_floating_point() else counters)(old, new, decay)

    return average_weights


def _exchanged(old: Tensor, new: Tensor, decay: float) -> None:
    _mixed(old, new, 1 - decay)


def _added(old: Tensor, new: Tensor, decay: float) -> None:
    old.add_(new, alpha=1 - decay)


def _equal_parts(old: Tensor, new: Tensor, decay: float) -> None:
    _mixed(old, new, 0.5)


def _new_under_the_old_name(old: Tensor, new: Tensor, decay: float) -> None:
    old = decay * old + (1 - decay) * new


def _into_the_model(old: Tensor, new: Tensor, decay: float) -> None:
    new.copy_(decay * old + (1 - decay) * new)


def _recorded(average: nn.Module, model: nn.Module, decay: float) -> None:
    for old, new in zip(average.parameters(), model.parameters(), strict=True):
        _mixed(old, new, decay)


def _case(generator: torch.Generator, decay: float) -> tuple[nn.Module, nn.Module, float]:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    return with_drawn_weights(generator, copy.deepcopy(model)), with_drawn_weights(generator, model), decay


AVERAGE_WEIGHTS = Exercise(
    name="average_weights",
    prompt="Beside a model stands its `average`, another module of the same kind. After each update the average "
    "follows, in place: of its own numbers it keeps the share `decay`, 0.999 say, and takes the rest from the model. "
    "This goes for all numbers with a point, parameters and the statistics of batch normalisation alike, since those "
    "must fit the weights. Whole numbers, such as its counter, are copied. No graph is recorded, and the model stays "
    "as it is.",
    stub='''def average_weights(average, model, decay):
    """Let the average follow the model by one update, in place."""
    return ...  # your turn (and no return in the end)''',
    solved='''def average_weights(average, model, decay):
    """Let the average follow the model by one update, in place."""
    with torch.no_grad():
        for old, new in zip(average.state_dict().values(), model.state_dict().values()):
            if old.is_floating_point():
                old.mul_(decay).add_(new, alpha=1 - decay)
            else:
                old.copy_(new)''',
    hints=(
        "For once it is good that `state_dict()` shows the living numbers: whoever writes into them changes the "
        "module.",
        "In place: `mul_`, `add_`, `copy_`, or `lerp_`. `old = …` would only give the name to another tensor.",
        "`old.is_floating_point()` tells the two kinds apart; a whole number cannot be multiplied by 0.999 in place.",
    ),
    cases=lambda generator: [_case(generator, 0.9), _case(generator, 0.999)],
    run=run_average,
    praise="Evaluate the average, train the model.",
    misconceptions=(
        Misconception(
            "the shares are exchanged",
            _averages(weights=_exchanged, statistics=_exchanged),
            "`decay` is what the average keeps of itself. Yours keeps a thousandth, and so is the model of just now.",
        ),
        Misconception(
            "nothing is forgotten",
            _averages(weights=_added, statistics=_added),
            "The new share is added, and the old is not made smaller first: the numbers grow with every update. The "
            "two shares have the sum 1.",
        ),
        Misconception(
            "the mean of the two",
            _averages(weights=_equal_parts, statistics=_equal_parts),
            "`(old + new) / 2` forgets half in each update: after ten of them a thousandth is left. The share that "
            "stays is `decay`.",
        ),
        Misconception(
            "the buffers are left",
            _averages(statistics=_left, counters=_left),
            "`parameters()` has no buffers. The averaged weights would be used with the statistics of the random first "
            "ones: in evaluation mode batch normalisation then spoils everything.",
        ),
        Misconception(
            "the statistics are copied",
            _averages(statistics=_copied),
            "A usual rule, too, and not the one that was asked for: the model's statistics belong to its weights of "
            "just now, not to those of the average.",
        ),
        Misconception(
            "the counter is left",
            _averages(counters=_left),
            "The weights and statistics are right. The counter of batch normalisation, a whole number, was to be "
            "copied.",
        ),
        Misconception(
            "the counter is averaged, too",
            _averages(counters=_mixed),
            "`num_batches_tracked` is a whole number, int64, and cannot become 0.999 of itself in place: torch raises "
            "an error. Ask for `is_floating_point()`.",
        ),
        Misconception(
            "a new tensor under the old name",
            _averages(weights=_new_under_the_old_name, statistics=_new_under_the_old_name, counters=_left),
            "`old = decay * old + …` makes another tensor and gives it the name; the one in the average stays. Write "
            "into it: `old.mul_(decay).add_(…)`.",
        ),
        Misconception(
            "written into the model",
            _averages(weights=_into_the_model, statistics=_into_the_model),
            "The model is trained on, from where the optimizer left it. You moved it to the average.",
        ),
        Misconception(
            "it is recorded",
            _recorded,
            "autograd forbids to change in place a leaf that it watches. Write under `torch.no_grad()`.",
        ),
    ),
)
