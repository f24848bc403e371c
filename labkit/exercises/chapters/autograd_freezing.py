"""Chapter 02, third part: parameters that shall not learn."""

from typing import Any

from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import BodyAndHead, normal
from labkit.exercises.exercise import Exercise


def who_gets_a_gradient(answer: Any, model: nn.Module, inputs: Tensor) -> Any:
    """Let the answer prepare a model, go backward once, and return the names of the parameters with a gradient."""
    families.need_function(answer)
    if answer(model) is ...:
        return ...
    model(inputs).square().mean().backward()
    return {
        "parameters with a gradient": [name for name, one in model.named_parameters() if one.grad is not None],
        "training mode": [part.training for part in (model, model.body, model.head)],
    }


def _flag_on_the_module(model: BodyAndHead) -> None:
    model.body.requires_grad = False


def _weights_only(model: BodyAndHead) -> None:
    for name, parameter in model.body.named_parameters():
        parameter.requires_grad_("bias" in name)


FREEZE_BODY = Exercise(
    name="freeze_body",
    prompt="`model.body` was trained by somebody else, `model.head` is new. See to it that from now on only the head "
    "learns. The function returns nothing.",
    stub='''def freeze_body(model):
    """From now on, only the parameters of model.head get gradients."""
    return ...  # your turn''',
    solved='''def freeze_body(model):
    """From now on, only the parameters of model.head get gradients."""
    model.body.requires_grad_(False)''',
    hints=(
        "Who has the flag `requires_grad`, a module or its parameters?",
        "A loop over `model.body.parameters()` sets it. A module also has a method that does this loop for you, and "
        "its name ends in an underscore.",
    ),
    cases=lambda generator: [
        (BodyAndHead(nn.Linear(3, 4), nn.Linear(4, 2)), normal(generator, 5, 3)),
        (
            BodyAndHead(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4)), nn.Linear(4, 1)),
            normal(generator, 2, 3),
        ),
        (BodyAndHead(nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4)), nn.Linear(4, 3)), normal(generator, 3, 2)),
    ],
    run=who_gets_a_gradient,
    praise="And nothing is recorded for the body any more: the backward pass ends at the head, and is cheaper.",
    misconceptions=(
        Misconception(
            "no parameter was told",
            _flag_on_the_module,
            "All parameters still get gradients. `model.body.requires_grad = False` gives the *module* a new "
            "attribute that nobody reads, `parameter.detach()` returns another tensor, and clearing `.grad` lasts "
            "until the next `backward`. The flag sits on each parameter.",
        ),
        Misconception(
            "eval is not freezing",
            lambda model: model.body.eval() and None,
            "`eval()` tells dropout and batch normalisation how to behave. The parameters learn on.",
        ),
        Misconception(
            "everything frozen",
            lambda model: model.requires_grad_(False) and None,
            "Now nobody learns: nothing in the graph requires grad, so there is no graph, and `backward` raises.",
        ),
        Misconception(
            "the head instead",
            lambda model: model.head.requires_grad_(False) and None,
            "The wrong way round: the new head stays at random, and what others trained is trained away.",
        ),
        Misconception(
            "the biases learn on",
            _weights_only,
            "You froze what is called weight. The biases of the body still get gradients.",
        ),
    ),
)
