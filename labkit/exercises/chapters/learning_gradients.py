"""Chapter 07, fifth part: where does the gradient end?"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise


def _has_none(gradient: Tensor | None) -> bool:
    return gradient is None or not gradient.any()


def _ends(
    is_lost: Callable[[Tensor | None], bool] = _has_none, place: int = -1, counts_frozen: bool = False
) -> Callable[[nn.Module], str | None]:
    """Return an answer with its own idea of a lost gradient, and of which of those parameters to name."""

    def gradient_ends_at(model: nn.Module) -> str | None:
        trained = [(name, one) for name, one in model.named_parameters() if one.requires_grad or counts_frozen]
        lost = [name for name, one in trained if is_lost(one.grad)]
        return lost[place] if lost else None

    return gradient_ends_at


def _all_of_them(model: nn.Module) -> list[str]:
    return [name for name, one in model.named_parameters() if one.requires_grad and _has_none(one.grad)]


def _network(generator: torch.Generator) -> nn.Sequential:
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(4)))
    for one in model.parameters():
        one.grad = normal(generator, *one.shape)
    return model


def _cases(generator: torch.Generator) -> list[tuple]:
    cut, dead, cancels, frozen, tiny, broken = (_network(generator) for _ in range(6))
    for layer in cut[:2]:
        layer.weight.grad = layer.bias.grad = None
    for layer in dead[:3]:
        layer.weight.grad.zero_()
        layer.bias.grad.zero_()
    cancels[2].bias.grad = torch.tensor([1.0, -1.0, 0.0])
    cancels[0].weight.grad = None
    frozen[3].requires_grad_(False).zero_grad()
    frozen[1].weight.grad.zero_()
    for one in tiny.parameters():
        one.grad *= 1e-12
    broken[3].weight.grad.fill_(float("nan"))
    return [(cut,), (dead,), (cancels,), (frozen,), (tiny,), (broken,)]


GRADIENT_ENDS_AT = Exercise(
    name="gradient_ends_at",
    prompt="After `backward()`: a gradient comes from the loss and walks through the layers towards the input, which "
    "is `model.named_parameters()` from its end to its beginning. Return the name of the first parameter *on this way* "
    "that is to be trained and has no gradient: `.grad` is None, or all zeros. Return None if each has one.",
    stub='''def gradient_ends_at(model):
    """Return the parameter without a gradient that is nearest to the loss, or None."""
    return ...  # your turn''',
    solved='''def gradient_ends_at(model):
    """Return the parameter without a gradient that is nearest to the loss, or None."""
    for name, one in reversed(list(model.named_parameters())):
        if one.requires_grad and (one.grad is None or not one.grad.any()):
            return name
    return None''',
    hints=(
        "`reversed(list(model.named_parameters()))` is the way of the gradient.",
        "A frozen parameter has no gradient on purpose. None and zeros are both *no gradient*: ask for None first.",
        "`one.grad.any()` is true as soon as one number in it is not 0. A sum may be 0 while the numbers are not.",
    ),
    cases=_cases,
    praise="Look at what stands between this layer and the one behind it: there it was lost.",
    misconceptions=(
        Misconception(
            "from the front",
            _ends(place=0),
            "From the front, all layers before the fault look alike. The fault is where the gradient was *last* seen, "
            "coming from the loss.",
        ),
        Misconception(
            "only None",
            _ends(lambda gradient: gradient is None),
            "None means that no way leads there. A gradient of zeros means that a way leads there and nothing comes: "
            "dead units, weights of 0. It moves as little.",
        ),
        Misconception(
            "only zeros",
            _ends(lambda gradient: gradient is not None and not gradient.any()),
            "Where the graph is cut, `.grad` stays None; that is the commonest case.",
        ),
        Misconception(
            "a sum of 0",
            _ends(lambda gradient: gradient is None or gradient.sum().item() == 0),
            "1 and -1 have the sum 0 and are a gradient. Ask `.any()`, or for the norm.",
        ),
        Misconception(
            "frozen ones, too",
            _ends(counts_frozen=True),
            "A frozen parameter has no gradient because somebody said so. The gradient passes through it all the same.",
        ),
        Misconception(
            "small is nothing",
            _ends(lambda gradient: gradient is None or gradient.norm().item() < 1e-6),
            "A small gradient is one: Adam, which divides by its size, trains with it. That it vanishes over many "
            "layers is another fault, seen in the *ratio* of first and last layer.",
        ),
        Misconception(
            "all of them",
            _all_of_them,
            "All that have none, and from where one has to look is not said. One name, or None.",
        ),
    ),
)
