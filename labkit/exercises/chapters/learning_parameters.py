"""Chapter 07, fourth part: which parameters does the optimizer not know?"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import BodyAndHead, with_drawn_weights
from labkit.exercises.exercise import Exercise


def run_not_in(answer: Any, model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    """Return the names that the answer gives, in order."""
    families.need_function(answer)
    result = answer(model, optimizer)
    return sorted(result) if isinstance(result, list | tuple | set) else result


def _held(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _names(is_named: Callable[[Tensor, list[Tensor]], bool], held: Callable = _held) -> Callable:
    """Return an answer that names each parameter of which this holds, given those of the optimizer."""

    def not_in_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
        known = held(optimizer)
        return [name for name, one in model.named_parameters() if is_named(one, known)]

    return not_in_optimizer


def _is_in(one: Tensor, known: list[Tensor]) -> bool:
    return any(one is other for other in known)


def _by_count(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    names = [name for name, one in model.named_parameters() if one.requires_grad]
    return names[len(_held(optimizer)) :]


def _layers(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    names = _names(lambda one, known: one.requires_grad and not _is_in(one, known))(model, optimizer)
    return sorted({name.rpartition(".")[0] for name in names})


def _network(generator: torch.Generator) -> BodyAndHead:
    body = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6))
    return with_drawn_weights(generator, BodyAndHead(body, nn.Linear(6, 3)))


def _cases(generator: torch.Generator) -> list[tuple]:
    sgd = torch.optim.SGD
    replaced = _network(generator)
    before = sgd(replaced.parameters(), lr=0.1)
    replaced.head = nn.Linear(6, 3)
    other = _network(generator)
    another = sgd(copy.deepcopy(other).parameters(), lr=0.1)
    grouped = _network(generator)
    groups = [{"params": grouped.body[0].parameters()}, {"params": grouped.head.parameters(), "lr": 1.0}]
    frozen = _network(generator)
    frozen.body[0].requires_grad_(False)
    few = sgd([frozen.head.weight, frozen.body[0].weight], lr=0.1)
    whole = _network(generator)
    return [
        (replaced, before),
        (other, another),
        (grouped, sgd(groups, lr=0.1)),
        (frozen, few),
        (whole, sgd(whole.parameters(), lr=0.1)),
    ]


NOT_IN_OPTIMIZER = Exercise(
    name="not_in_optimizer",
    prompt="Return the list of the names of all parameters of `model` that are to be trained (`requires_grad`) and are "
    "in none of the groups of `optimizer`: no `step()` will ever move them. The order does not count.",
    stub='''def not_in_optimizer(model, optimizer):
    """Return the names of trainable parameters that the optimizer does not hold."""
    return ...  # your turn''',
    solved='''def not_in_optimizer(model, optimizer):
    """Return the names of trainable parameters that the optimizer does not hold."""
    held = {id(one) for group in optimizer.param_groups for one in group["params"]}
    return [name for name, one in model.named_parameters() if one.requires_grad and id(one) not in held]''',
    hints=(
        "`optimizer.param_groups` is a list of dicts; the parameters of each are under `'params'`.",
        "Two parameters can have equal shapes and equal values and be two. What tells is whether they are the same "
        "*object*: `is`, or `id(…)`.",
        "Collect the `id` of all parameters in all groups in a set. Then name those of `model.named_parameters()` that "
        "require a gradient and whose `id` is not in it.",
    ),
    cases=_cases,
    run=run_not_in,
    praise="Write `assert not not_in_optimizer(model, optimizer)` below the line that makes the optimizer.",
    misconceptions=(
        Misconception(
            "equal shapes",
            _names(lambda one, known: one.requires_grad and one.shape not in {other.shape for other in known}),
            "A new head has the shape of the old one, and a model that was built anew has all shapes of the first. "
            "Compare objects: `id(…)`.",
        ),
        Misconception(
            "equal values",
            _names(
                lambda one, known: one.requires_grad and not any(torch.equal(one, o) for o in known),
            ),
            "A copy has equal values, at first. The optimizer moves the copy, and the model stays. Compare objects.",
        ),
        Misconception(
            "only the first group",
            _names(
                lambda one, known: one.requires_grad and not _is_in(one, known),
                lambda optimizer: optimizer.param_groups[0]["params"],
            ),
            "An optimizer may have several groups, with a rate each. Look into all of them.",
        ),
        Misconception(
            "frozen ones, too",
            _names(lambda one, known: not _is_in(one, known)),
            "You name frozen parameters. They are not to move, so it is right that the optimizer does not hold them.",
        ),
        Misconception(
            "those that it holds",
            _names(lambda one, known: one.requires_grad and _is_in(one, known)),
            "These will be moved. Asked for were the others.",
        ),
        Misconception(
            "by their number",
            _by_count,
            "Which ones are missing cannot be seen from how many there are: a wrong one may stand in the place of the "
            "right one.",
        ),
        Misconception(
            "layers",
            _layers,
            "These are names of layers. An optimizer may hold a weight and not the bias of its layer: name parameters.",
        ),
    ),
)
