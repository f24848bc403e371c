"""Chapter 06, eighth part: load what fits, and say what did not."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import BodyAndHead, normal, with_drawn_weights
from labkit.exercises.exercise import Exercise

Report = tuple[int, list[str], list[str]]


def run_matching(answer: Any, model: nn.Module, weights: dict[str, Tensor]) -> Any:
    """Load, and return the report, the state of the model, and whether file and model have memory in common."""
    families.need_function(answer)
    result = answer(model, weights)
    if result is ... or not isinstance(result, tuple | list) or len(result) != 3:
        return result
    state = {name: value.detach().clone() for name, value in model.state_dict().items()}
    before = copy.deepcopy(weights)
    with torch.no_grad():
        for value in model.state_dict().values():
            value += 1
    return {
        "numbers that were loaded": result[0],
        "names that the model kept as they were": sorted(result[1]),
        "names in the file that were not used": sorted(result[2]),
        **{f"{name} of the model": value for name, value in state.items()},
        "training on leaves the file's tensors alone": all(before[name].equal(weights[name]) for name in weights),
    }


def _same_shape(own: Tensor, value: Tensor) -> bool:
    return own.shape == value.shape


def _load_by_name(model: nn.Module, fitting: dict[str, Tensor]) -> None:
    model.load_state_dict(fitting, strict=False)


def _in_lists(own: dict, weights: dict, fitting: dict) -> Report:
    return (
        sum(one.numel() for one in fitting.values()),
        list(set(own) - set(fitting)),
        list(set(weights) - set(fitting)),
    )


def _loads(
    fits: Callable[[Tensor, Tensor], bool] = _same_shape,
    entries: Callable[[nn.Module], dict] = lambda model: model.state_dict(),
    load: Callable[[nn.Module, dict[str, Tensor]], None] = _load_by_name,
    report: Callable[[dict, dict, dict], Report] = _in_lists,
) -> Callable[[nn.Module, dict[str, Tensor]], Report]:
    """Return an answer with its own test, its own idea of the model's entries, its own loading and report."""

    def load_matching(model: nn.Module, weights: dict[str, Tensor]) -> Report:
        own = dict(entries(model))
        fitting = {name: value for name, value in weights.items() if name in own and fits(own[name], value)}
        load(model, fitting)
        return report(own, weights, fitting)

    return load_matching


def _by_position(model: nn.Module, weights: dict[str, Tensor]) -> Report:
    own = model.state_dict()
    pairs = [
        (name, value) for name, value in zip(own, weights.values(), strict=False) if own[name].shape == value.shape
    ]
    model.load_state_dict(dict(pairs), strict=False)
    return _in_lists(own, weights, dict(pairs))


def _exchanged(own: dict, weights: dict, fitting: dict) -> Report:
    count, kept, unused = _in_lists(own, weights, fitting)
    return count, unused, kept


def _reshaped(model: nn.Module, fitting: dict[str, Tensor]) -> None:
    own = model.state_dict()
    model.load_state_dict({name: value.reshape(own[name].shape) for name, value in fitting.items()}, strict=False)


def _assigned(model: nn.Module, fitting: dict[str, Tensor]) -> None:
    model.load_state_dict(fitting, strict=False, assign=True)


def _case(generator: torch.Generator, head: int, *changed: str, renamed: str = "") -> tuple:
    """Return a model with `head` outputs, and the weights of another: without `changed`, and with a renamed part."""
    model = BodyAndHead(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Linear(4, head))
    other = BodyAndHead(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), nn.Linear(4, 2))
    with_drawn_weights(generator, model)
    with_drawn_weights(generator, other).body[1].running_mean.copy_(normal(generator, 4))
    weights = {name: value.detach() for name, value in other.state_dict().items() if name not in changed}
    if renamed:
        weights = {name.replace(renamed, "stem."): value for name, value in weights.items()}
    return model, weights


def _transposed(generator: torch.Generator) -> tuple:
    """Return a case in which a weight has as many numbers as it should, in another shape."""
    model, weights = _case(generator, 2)
    return model, weights | {"head.weight": weights["head.weight"].T.contiguous()}


LOAD_MATCHING = Exercise(
    name="load_matching",
    prompt="Load of `weights` (a dict of names and tensors) what the model has under the same name *and* in the same "
    "shape; the rest of the model stays as it is. Return three things: how many *numbers* were loaded, the list of "
    "names in the model that kept their values, and the list of names in `weights` that were not used.",
    stub='''def load_matching(model, weights):
    """Return (numbers loaded, names that the model kept as they were, names in the weights that were not used)."""
    return ...  # your turn''',
    solved='''def load_matching(model, weights):
    """Return (numbers loaded, names that the model kept as they were, names in the weights that were not used)."""
    own = model.state_dict()
    fitting = {name: value for name, value in weights.items() if name in own and value.shape == own[name].shape}
    model.load_state_dict(fitting, strict=False)
    count = sum(value.numel() for value in fitting.values())
    return count, [name for name in own if name not in fitting], [name for name in weights if name not in fitting]''',
    hints=(
        "`model.state_dict()` knows the names and shapes of the model. Pick from `weights` what fits it.",
        "`load_state_dict(fitting, strict=False)` passes over names that are missing. Shapes it never passes over.",
        "What was not loaded: names of the model that are not in `fitting`, and names of `weights` that are not.",
    ),
    cases=lambda generator: [
        _case(generator, 5),
        _case(generator, 2, "body.0.bias", "body.1.running_mean"),
        _case(generator, 3, renamed="body.0."),
        _transposed(generator),
    ],
    run=run_matching,
    praise="Whoever reads the report knows whether it was 99 % of the network, or nothing.",
    misconceptions=(
        Misconception(
            "`strict=False` alone",
            _loads(fits=lambda own, value: True),
            "`strict=False` passes over *names*. A tensor of another shape raises all the same. Leave those out "
            "yourself, before you load.",
        ),
        Misconception(
            "in the order of the file",
            _by_position,
            "Entry by entry, whatever they are called: as soon as one is missing, all later ones land in the wrong "
            "place, where shapes allow it without a sound. Names say what belongs together.",
        ),
        Misconception(
            "as many numbers instead of the same shape",
            _loads(fits=lambda own, value: own.numel() == value.numel(), load=_reshaped),
            "A (4, 2) weight has as many numbers as a (2, 4) one, and after `reshape` each stands in a wrong place. "
            "Compare shapes.",
        ),
        Misconception(
            "without the buffers",
            _loads(entries=lambda model: model.named_parameters()),
            "The statistics of batch normalisation are in the file and fit, and you leave them out: a network with "
            "trained weights and the statistics of a random one. `state_dict()` has both.",
        ),
        Misconception(
            "tensors are counted",
            _loads(report=lambda own, weights, fitting: (len(fitting), *_in_lists(own, weights, fitting)[1:])),
            "Six of eight tensors may be half a percent of the numbers. Count with `numel()`.",
        ),
        Misconception(
            "all of the file is counted",
            _loads(
                report=lambda own, weights, fitting: (
                    sum(one.numel() for one in weights.values()),
                    *_in_lists(own, weights, fitting)[1:],
                )
            ),
            "You count what is in the file. What was left out was not loaded.",
        ),
        Misconception(
            "the lists exchanged",
            _loads(
                report=lambda own, weights, fitting: tuple(
                    _in_lists(own, weights, fitting)[place] for place in (0, 2, 1)
                )
            ),
            "The second is about the model, the third about the file.",
        ),
        Misconception(
            "only missing names are reported",
            _loads(
                report=lambda own, weights, fitting: (
                    _in_lists(own, weights, fitting)[0],
                    list(set(own) - set(weights)),
                    list(set(weights) - set(own)),
                )
            ),
            "What has the right name and a wrong shape is in neither list: the new head kept its random start, and the "
            "report does not say so.",
        ),
        Misconception(
            "the file's own tensors",
            _loads(load=_assigned),
            "With `assign=True`, or `parameter.data = value`, the model takes the very tensors of the file. It trains "
            "on in them, and an optimizer made before still holds the old ones. Let the numbers be copied.",
        ),
    ),
)
