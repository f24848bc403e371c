"""Chapter 04, fourth part: the size of a side after a convolution, and a new head on an old body."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.chapters.tensors_making import normal
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise

SIDE_AFTER = Exercise(
    name="side_after",
    prompt="A window slides over a side of `size` pixels, with `padding` zeros at *each* end, in steps of `stride`. "
    "How many places does it have? Count the first, and then how many steps there is room for.",
    stub='''def side_after(size, kernel_size, stride=1, padding=0):
    """Return the size of a side after a convolution, a whole number."""
    return ...  # your turn''',
    solved='''def side_after(size, kernel_size, stride=1, padding=0):
    """Return the size of a side after a convolution, a whole number."""
    return (size + 2 * padding - kernel_size) // stride + 1''',
    hints=(
        "Draw it: 5 cells, a window of 3, steps of 1. The first place, and two steps: 3.",
        "After the first place, what is left of the padded side? So far the window can go, in steps of `stride`.",
        "A step that does not fit is not made: `//` rounds down.",
    ),
    cases=lambda generator: [(28, 5, 1, 2), (7, 3, 2, 0), (8, 3, 2, 1), (6, 2, 3, 0), (5, 5, 1, 0)],
    praise="Pooling follows the same rule, with `stride` equal to `kernel_size`.",
    misconceptions=(
        Misconception(
            "padding at one end",
            lambda size, kernel_size, stride=1, padding=0: (size + padding - kernel_size) // stride + 1,
            "`padding` zeros stand at *each* end of the side: twice.",
        ),
        Misconception(
            "the first place is not counted",
            lambda size, kernel_size, stride=1, padding=0: (size + 2 * padding - kernel_size) // stride,
            "You counted the steps. The place where the window begins is one more.",
        ),
        Misconception(
            "rounded up",
            lambda size, kernel_size, stride=1, padding=0: -((kernel_size - size - 2 * padding) // stride) + 1,
            "A step for which there is no room is not made: rounded *down*. (Pooling has `ceil_mode` for the other.)",
        ),
        Misconception(
            "not rounded",
            lambda size, kernel_size, stride=1, padding=0: (size + 2 * padding - kernel_size) / stride + 1,
            "There are no half places: `//` instead of `/`.",
        ),
        Misconception(
            "the step is ignored",
            lambda size, kernel_size, stride=1, padding=0: size + 2 * padding - kernel_size + 1,
            "That is so for `stride=1`. With larger steps the window has fewer places.",
        ),
        Misconception(
            "the last window cut off by the step",
            lambda size, kernel_size, stride=1, padding=0: (size + 2 * padding - kernel_size + 1) // stride,
            "The 1 stands for the first place, not for a step: it is added after the division.",
        ),
    ),
)


class Network(nn.Module):
    """A body and a head, as pretrained networks have."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, width), nn.ReLU())
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores (B, classes)."""
        return self.head(self.body(x))


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


def _with_new_head(
    collect: Callable[[nn.Module], list], freeze_first: bool = True, freeze_after: bool = False
) -> Callable[[nn.Module, int], list]:
    """Return an answer that freezes before or after it has put the head in, and returns some parameters."""

    def new_head(model: nn.Module, classes: int) -> list:
        model.requires_grad_(not freeze_first)
        model.head = nn.Linear(model.head.in_features, classes)
        if freeze_after:
            model.requires_grad_(False)
        return collect(model)

    return new_head


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
        (Network(6, 10), 3, normal(generator, 2, 5)),
        (Network(4, 2), 7, normal(generator, 1, 5)),
    ],
    run=run_new_head,
    praise="If the body has batch normalisation, its statistics are still moving: part 6 has the rest.",
    misconceptions=(
        Misconception(
            "the new head is frozen too",
            _with_new_head(lambda model: list(model.head.parameters()), freeze_after=True),
            "Frozen after the new head was in: now nothing learns at all, and `backward` has nowhere to go. Freeze "
            "first, then replace.",
        ),
        Misconception(
            "the body is not frozen",
            _with_new_head(lambda model: list(model.head.parameters()), freeze_first=False),
            "The optimizer does not move the body, but autograd computes all its gradients: time and memory for "
            "nothing. `requires_grad_(False)` stops that.",
        ),
        Misconception(
            "all parameters for the optimizer",
            _with_new_head(lambda model: list(model.parameters())),
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
