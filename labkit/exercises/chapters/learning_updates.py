"""Chapter 07, seventh part: how far does one update move a weight?"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise


def run_update_sizes(answer: Any, model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor) -> Any:
    """Return the sizes as plain numbers, and how many updates were made."""
    families.need_function(answer)
    made = []

    def update() -> None:
        made.append(1)
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    sizes = answer(model, update)
    if isinstance(sizes, dict):
        sizes = {name: one.item() if isinstance(one, Tensor) else one for name, one in sizes.items()}
    return ... if sizes is ... else {"sizes": sizes, "updates made": len(made)}


def _norm(tensor: Tensor) -> float:
    return tensor.norm().item()


def _sizes(
    kept: Callable[[Tensor], Tensor] = torch.clone,
    size: Callable[[Tensor, Tensor], float] = lambda before, after: _norm(after - before) / _norm(before),
    least: int = 2,
) -> Callable:
    """Return an answer with its own way to keep, to measure, and to choose parameters."""

    def update_sizes(model: nn.Module, update: Callable) -> dict[str, float]:
        weights = {name: one for name, one in model.named_parameters() if one.ndim >= least}
        before = {name: kept(one.detach()) for name, one in weights.items()}
        update()
        return {name: size(before[name], one.detach()) for name, one in weights.items()}

    return update_sizes


def _by_gradient(model: nn.Module, update: Callable) -> dict[str, float]:
    update()
    return {name: _norm(one.grad) / _norm(one) for name, one in model.named_parameters() if one.ndim >= 2}


def _case(generator: torch.Generator, kind: type, **options: float) -> tuple:
    layers = (nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    model = with_drawn_weights(generator, nn.Sequential(*layers))
    return model, kind(model.parameters(), **options), normal(generator, 6, 5)


UPDATE_SIZES = Exercise(
    name="update_sizes",
    prompt="`update()` makes one update of `model`. Call it once, and return a dict: for each parameter with at least "
    "two dimensions, under its name, how far it moved, relative to how large it was: the norm of the change divided by "
    "the norm *before* the update. It must hold for every optimizer.",
    stub='''def update_sizes(model, update):
    """Return, for each weight, the norm of its change in one update divided by its own norm before."""
    return ...  # your turn''',
    solved='''def update_sizes(model, update):
    """Return, for each weight, the norm of its change in one update divided by its own norm before."""
    weights = {name: one.detach() for name, one in model.named_parameters() if one.ndim >= 2}
    before = {name: one.clone() for name, one in weights.items()}
    update()
    return {name: ((one - before[name]).norm() / before[name].norm()).item() for name, one in weights.items()}''',
    hints=(
        "Keep the weights first. An optimizer writes into the same tensors, so keep a `clone()`.",
        "A norm is `tensor.norm()`: the root of the sum of the squares.",
        "`(after - before).norm() / before.norm()`. What the gradient is does not matter: Adam, momentum and decay all "
        "move otherwise than it says.",
    ),
    cases=lambda generator: [
        _case(generator, torch.optim.SGD, lr=0.3),
        _case(generator, torch.optim.AdamW, lr=0.05, weight_decay=0.5),
    ],
    run=run_update_sizes,
    praise="About 0.001 is usual. At 0.000001 nothing moves, and at 0.1 hardly anything is kept.",
    misconceptions=(
        Misconception(
            "kept without a copy",
            _sizes(kept=lambda one: one),
            "All changes are 0: what you kept *is* the parameter, and moved with it. Keep a `clone()`.",
        ),
        Misconception(
            "the gradient instead of the change",
            _by_gradient,
            "The gradient is where the update comes from, and not how far it went: the rate is missing, and Adam "
            "divides the gradient by its own size.",
        ),
        Misconception(
            "relative to what it is now",
            _sizes(size=lambda before, after: _norm(after - before) / _norm(after)),
            "You divide by the norm after the update. Asked for was what it was before.",
        ),
        Misconception(
            "the change of the norm",
            _sizes(size=lambda before, after: abs(_norm(after) - _norm(before)) / _norm(before)),
            "A weight that turns keeps its norm and has moved far. Take the norm of the difference.",
        ),
        Misconception(
            "a sum instead of a norm",
            _sizes(size=lambda before, after: ((after - before).sum() / before.sum()).item()),
            "In a sum, changes up and down cancel each other. Use `.norm()`.",
        ),
        Misconception(
            "the absolute change",
            _sizes(size=lambda before, after: _norm(after - before)),
            "Whether 0.01 is far depends on how large the weight is: divide by its norm.",
        ),
        Misconception(
            "biases, too",
            _sizes(least=1),
            "Biases often begin at 0, where no relative change exists. Only weights, with two dimensions or more, were "
            "asked for.",
        ),
    ),
)
