"""Chapter 05, sixth part: what to keep."""

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise


def run_keep_best(answer: Any, model: nn.Module, losses: list[float]) -> Any:
    """Let a model change as training changes it, ask after each epoch, and load what was kept into another model."""
    families.need_function(answer)
    best = None
    for number, loss in enumerate(losses, start=1):
        _train_on(model, number)
        if (best := answer(best, loss, model)) is ...:
            return ...
    last = copy.deepcopy(model.state_dict())
    _train_on(model, len(losses) + 1)
    if not isinstance(best, tuple | list) or len(best) != 2:
        return best
    other = copy.deepcopy(model)
    with torch.no_grad():
        for value in other.state_dict().values():
            value.zero_()
    other.load_state_dict(best[1])
    return {
        "loss that was kept": best[0],
        "state that was kept, in another model": dict(other.state_dict()),
        "the model itself went on": not all(model.state_dict()[name].equal(value) for name, value in last.items()),
    }


def _train_on(model: nn.Module, number: int) -> None:
    """Change weights, statistics and the counter in place, as an optimizer and a forward pass do."""
    with torch.no_grad():
        for value in model.state_dict().values():
            value += number


def _keeps(
    copy_of: Callable[[nn.Module], Any] = lambda model: copy.deepcopy(model.state_dict()),
    is_better: Callable[[float, float], bool] = lambda loss, lowest: loss < lowest,
) -> Callable[[Any, float, nn.Module], Any]:
    """Return an answer with its own way to copy, and its own rule for what is better."""

    def keep_best(best: Any, loss: float, model: nn.Module) -> Any:
        if is_better(loss, math.inf if best is None else best[0]):
            return loss, copy_of(model)
        return best

    return keep_best


def _parameters_alone(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def _no_loss_yet(best: Any, loss: float, model: nn.Module) -> Any:
    if best is None or loss < best[0]:
        return loss, copy.deepcopy(model.state_dict())
    return best


def _loss_of_now(best: Any, loss: float, model: nn.Module) -> Any:
    kept = _keeps()(best, loss, model)
    return kept and (loss, kept[1])


def _keep_cases(generator: torch.Generator) -> list[tuple]:
    def case(*losses: float) -> tuple:
        model = with_drawn_weights(generator, nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)))
        model[1].running_mean.copy_(normal(generator, 3))
        return model, list(losses)

    return [case(0.9, 0.5, 0.7), case(0.6, 0.4, math.nan, 0.5), case(0.4, 0.3, 0.3), case(math.nan, 0.8, 0.2, 0.6)]


KEEP_BEST = Exercise(
    name="keep_best",
    prompt="It is called after each epoch: `best = keep_best(best, loss, model)`. `best` is None at first, later what "
    "you returned: the lowest loss so far, and the state of the model at that time, which `load_state_dict` takes. The "
    "training goes on meanwhile, and what you keep must not. Of equal losses the first is kept; NaN is never the best.",
    stub='''def keep_best(best, loss, model):
    """Return (lowest loss so far, state of the model then)."""
    return ...  # your turn''',
    solved='''def keep_best(best, loss, model):
    """Return (lowest loss so far, state of the model then)."""
    lowest = float("inf") if best is None else best[0]
    if loss < lowest:
        return loss, {name: value.clone() for name, value in model.state_dict().items()}
    return best''',
    hints=(
        "`model.state_dict()` is a dict of names and tensors. Whose memory is it?",
        "The optimizer writes into that memory. Make a copy of every tensor.",
        "As long as there is no best, the lowest loss is infinite, and everything but NaN is lower.",
    ),
    cases=_keep_cases,
    run=run_keep_best,
    praise="The training may do what it likes now.",
    misconceptions=(
        Misconception(
            "not a copy",
            _keeps(copy_of=lambda model: model.state_dict()),
            "`state_dict()` shows the living weights. So do `dict(…)` and `.copy()` of it, and `detach()`, and `cpu()` "
            "on the CPU: none of them copies a number. Your *best* weights went on training, and at the end they are "
            "the last ones. `clone()` copies.",
        ),
        Misconception(
            "only the parameters",
            _keeps(copy_of=_parameters_alone),
            "The statistics of batch normalisation are missing: they are buffers. `load_state_dict` notices; with "
            "`strict=False` it would not, and the best weights would run with the statistics of others.",
        ),
        Misconception(
            "the model instead of its state",
            _keeps(copy_of=copy.deepcopy),
            "A copy of the whole model holds the right numbers, but `load_state_dict` takes a state. Keep "
            "`state_dict()`: it is smaller, and it is what goes into a file.",
        ),
        Misconception(
            "the last one",
            _keeps(is_better=lambda loss, lowest: True),
            "You keep whatever came last. The comparison is missing.",
        ),
        Misconception(
            "the highest",
            _keeps(is_better=lambda loss, lowest: lowest == math.inf or loss > lowest),
            "Of accuracies the highest is the best, of losses the lowest.",
        ),
        Misconception(
            "of equal ones the last",
            _keeps(is_better=lambda loss, lowest: loss <= lowest),
            "With `<=` a later epoch that is only as good takes the place. Then `best` and a patience that waits for "
            "something *better* speak of two epochs. Keep the first.",
        ),
        Misconception(
            "NaN is the best",
            _keeps(is_better=lambda loss, lowest: not loss >= lowest),
            "Any comparison with NaN is false, so *not worse* is true for a broken loss. Ask whether it is lower.",
        ),
        Misconception(
            "a NaN at the start stays for ever",
            _no_loss_yet,
            "The first loss is kept without being asked. If that is NaN, no later loss is lower than it: all "
            "comparisons with NaN are false. Begin with an infinite lowest loss.",
        ),
        Misconception(
            "the loss of now beside the weights of then",
            _loss_of_now,
            "The weights are kept, and the loss is replaced in each epoch. The next comparison is with the last epoch "
            "instead of the best.",
        ),
    ),
)
