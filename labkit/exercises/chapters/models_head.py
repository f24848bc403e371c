"""Chapter 04, fifth part: a new head on an old body."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import BodyAndHead, normal
from labkit.exercises.exercise import Exercise


def run_new_head(answer: Any, model: nn.Module, classes: int, inputs: Tensor) -> Any:
    """Give the model to the answer; then: the new head, what asks for gradients, and what the optimizer would get."""
    before = list(model.named_parameters())  # holds the old head, so that no new tensor can get its id
    old = {id(parameter): name for name, parameter in before}
    returned = families.call(answer, model, classes)
    if returned is ... or not isinstance(returned, Iterable):
        return returned
    now = {id(parameter): name for name, parameter in model.named_parameters()}
    outputs = model(inputs)
    given = [now.get(id(one)) or f"a {old.get(id(one), 'tensor')} that the model no longer has" for one in returned]
    return {
        "scores": tuple(outputs.shape),
        "parameters that learn": sorted(name for name, one in model.named_parameters() if one.requires_grad),
        "for the optimizer": sorted(given),
        "the head is a new one": not any(id(one) in old for one in model.head.parameters()),
    }


def _network(width: int, classes: int) -> BodyAndHead:
    return BodyAndHead(nn.Sequential(nn.Linear(5, width), nn.ReLU()), nn.Linear(width, classes))


def _frozen_after(model: nn.Module, classes: int) -> list:
    model.head = nn.Linear(model.head.in_features, classes)
    model.requires_grad_(False)
    return list(model.head.parameters())


def _never_frozen(model: nn.Module, classes: int) -> list:
    model.head = nn.Linear(model.head.in_features, classes)
    return list(model.head.parameters())


def _all_returned(model: nn.Module, classes: int) -> list:
    model.requires_grad_(False)
    model.head = nn.Linear(model.head.in_features, classes)
    return list(model.parameters())


def _collected_too_early(model: nn.Module, classes: int) -> list:
    model.requires_grad_(False)
    parameters = list(model.head.parameters())
    model.head = nn.Linear(model.head.in_features, classes)
    return parameters


def _only_the_number(model: nn.Module, classes: int) -> list:
    model.requires_grad_(False)
    model.head.requires_grad_(True)
    model.head.out_features = classes
    return list(model.head.parameters())


def _one_more_layer(model: nn.Module, classes: int) -> list:
    model.requires_grad_(False)
    model.head = nn.Sequential(model.head, nn.Linear(model.head.out_features, classes))
    return list(model.head[1].parameters())


NEW_HEAD = Exercise(
    name="new_head",
    prompt="`model.body` has learned on other pictures, `model.head` is its last linear layer. Freeze what has "
    "learned, put a new linear layer for `classes` in place of the head, and return a list of the parameters that the "
    "optimizer is to get.",
    stub='''def new_head(model, classes):
    """Freeze the model, give it a new head, return the parameters that are trained."""
    return ...  # your turn''',
    solved='''def new_head(model, classes):
    """Freeze the model, give it a new head, return the parameters that are trained."""
    model.requires_grad_(False)
    model.head = nn.Linear(model.head.in_features, classes)
    return list(model.head.parameters())''',
    hints=(
        "A new layer asks for gradients by itself. So in which order do you freeze and replace?",
        "`model.head.in_features` says what the head takes.",
        "The list is made last, from the layer that is in the model by then.",
    ),
    cases=lambda generator: [
        (_network(6, 10), 3, normal(generator, 2, 5)),
        (_network(4, 2), 7, normal(generator, 1, 5)),
    ],
    run=run_new_head,
    praise="If the body has batch normalisation, its statistics still move: `models.freeze` stops those too.",
    misconceptions=(
        Misconception(
            "the new head is frozen too",
            _frozen_after,
            "Frozen after the new head was in: now nothing learns at all, and `backward` has nowhere to go. Freeze "
            "first, then replace.",
        ),
        Misconception(
            "the body is not frozen",
            _never_frozen,
            "The optimizer does not move the body, but autograd computes all its gradients: time and memory for "
            "nothing. `requires_grad_(False)` stops that.",
        ),
        Misconception(
            "all parameters for the optimizer",
            _all_returned,
            "The frozen ones get no gradient, so most optimizers leave them alone; but the list should say what is "
            "meant. Return those of the head.",
        ),
        Misconception(
            "parameters of the old head",
            _collected_too_early,
            "Your list was made before the head was replaced. The optimizer would move tensors that are in no model "
            "any more, and the loss would stand still.",
        ),
        Misconception(
            "only out_features is changed",
            _only_the_number,
            "`out_features` is a note for whoever prints the layer. The weight has the rows that it had: make a new "
            "layer.",
        ),
        Misconception(
            "one more layer instead of a new one",
            _one_more_layer,
            "The old head is still there, and squeezes everything through the scores of the old classes. Put the new "
            "layer in its *place*.",
        ),
    ),
)
