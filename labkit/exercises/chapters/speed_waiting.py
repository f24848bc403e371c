"""Chapter 08, seventh and ninth part: one graph, and nobody waits."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise
from labkit.speed import Waits

_REASONS = {"bool": "for an `if`", "tensor": "to make a tensor of tensors"}


def run_mean_loss(answer: Any, losses: list[float]) -> Any:
    """Let the answer train on batches with these losses; count the updates, and how often a GPU was waited for."""
    families.need_function(answer)
    made = []

    def update(batch: int) -> Tensor:
        made.append(batch)
        return torch.tensor(losses, dtype=torch.float64)[batch]

    with Waits() as waits:
        result = answer(update, list(range(len(losses))))
    if result is ...:
        return ...
    waited = Counter()
    for row in waits.table().rows:
        waited[_REASONS.get(row["call"], "for a number")] += row["times"]
    return {"mean": result, "updates": made} | {f"times waited {reason}": times for reason, times in waited.items()}


def _from(summary: Callable[[list[Tensor]], Any]) -> Callable:
    def mean_loss(update: Callable, batches: list) -> Any:
        return summary([update(batch) for batch in batches])

    return mean_loss


def _watching_for_nan(update: Callable, batches: list) -> Any:
    total = 0.0
    for batch in batches:
        loss = update(batch)
        if torch.isfinite(loss):
            total = total + loss
    return (total / len(batches)).item()


def _some_losses(generator: torch.Generator, count: int) -> tuple:
    return (torch.rand(count, generator=generator, dtype=torch.float64).tolist(),)


MEAN_LOSS = Exercise(
    name="mean_loss",
    prompt="`update(batch)` makes an update and returns its loss, a tensor on the device without graph. Make an update "
    "with each batch and return the mean of the losses, as a number of Python. The device must not be waited for more "
    "than once.",
    stub='''def mean_loss(update, batches):
    """Make an update with each batch; return the mean loss as a float, after one wait."""
    return ...  # your turn''',
    solved='''def mean_loss(update, batches):
    """Make an update with each batch; return the mean loss as a float, after one wait."""
    total = 0.0
    for batch in batches:
        total = total + update(batch)
    return (total / len(batches)).item()''',
    hints=(
        "What turns a tensor into a number waits: `.item()`, `float()`, `print`, `if`.",
        "Tensors can be added without being read.",
        "Add up, divide, and call `.item()` once, at the end.",
    ),
    cases=lambda generator: [_some_losses(generator, 5), _some_losses(generator, 8)],
    run=run_mean_loss,
    praise="`labkit`'s loop reads its sums every `log_every` updates, and waits only there.",
    misconceptions=(
        Misconception(
            "read in every update",
            _from(lambda losses: sum(loss.item() for loss in losses) / len(losses)),
            "`.item()` in each update: the program waits until the device has computed this loss, and only then gives "
            "the next order. On a GPU with small batches that is most of the time.",
        ),
        Misconception(
            "a tensor made of tensors",
            _from(lambda losses: torch.tensor(losses).mean().item()),
            "`torch.tensor(list of tensors)` reads each of them to make a new tensor: as many waits. `torch.stack` "
            "stays on the device.",
        ),
        Misconception(
            "looked at for NaN in every update",
            _watching_for_nan,
            "`if torch.isfinite(loss):` must know the answer before the program goes on: an `if` waits like `.item()`. "
            "Collect the answers on the device, or use `torch.where`.",
        ),
        Misconception(
            "still a tensor",
            _from(lambda losses: torch.stack(losses).mean()),
            "Right so far, and without any wait; a number of Python was asked for: `.item()` at the end.",
        ),
        Misconception(
            "the last loss",
            _from(lambda losses: losses[-1].item()),
            "That is the loss of the last batch, and not the mean.",
        ),
        Misconception(
            "the sum",
            _from(lambda losses: torch.stack(losses).sum().item()),
            "The sum grows with the number of batches. Divide by it.",
        ),
    ),
)


def run_shortened(answer: Any, gradients: list[Tensor], limit: float) -> Any:
    """Call the answer with each gradient; return the results, and how often Python looked at a number in a tensor."""
    families.need_function(answer)
    with Waits() as waits:
        results = [answer(one, limit) for one in gradients]
    if any(one is ... for one in results):
        return ...
    return {"results": results, "looks at a number": waits.total}


def _with_branch(gradient: Tensor, limit: float) -> Tensor:
    norm = gradient.norm()
    if norm > limit:
        return gradient * (limit / norm)
    return gradient


def _always_that_long(gradient: Tensor, limit: float) -> Tensor:
    return gradient * limit / gradient.norm().clamp(min=1e-6)


def _number_by_number(gradient: Tensor, limit: float) -> Tensor:
    return gradient.clamp(-limit, limit)


def _upside_down(gradient: Tensor, limit: float) -> Tensor:
    return gradient * (gradient.norm() / limit).clamp(max=1)


SHORTENED = Exercise(
    name="shortened",
    prompt="Return the gradient, shortened to length `limit` where it is longer, and as it is where it is not; a "
    "gradient of zeros stays zeros. Python must not look at any number in a tensor: then `torch.compile` can make "
    "*one* graph of the function.",
    stub='''def shortened(gradient, limit):
    """Return a gradient that is at most `limit` long, without asking Python which case it is."""
    return ...  # your turn''',
    solved='''def shortened(gradient, limit):
    """Return a gradient that is at most `limit` long, without asking Python which case it is."""
    factor = limit / gradient.norm()
    return gradient * factor.clamp(max=1.0)''',
    hints=(
        "An `if` on the value of a tensor belongs to Python, so the graph ends before it. Compute both cases as one "
        "formula.",
        "In both cases the gradient is multiplied by something: by limit / norm, or by 1.",
        "The smaller of two factors is a tensor operation: `.clamp(max=…)`, or `torch.minimum`. Python's `min` is an "
        "`if` in disguise.",
    ),
    cases=lambda generator: [
        ([normal(generator, 4) * size for size in (10.0, 0.01)] + [torch.zeros(4)], 1.5),
    ],
    run=run_shortened,
    praise="No branch, no wait, one graph: this is how `clip_grad_norm_` does it.",
    misconceptions=(
        Misconception(
            "an if on a value",
            _with_branch,
            "The results are right. But `if` (or `min`, `max`, `.item()`) needs the number itself: the graph breaks, "
            "Python looks, and each branch becomes a graph of its own. On a GPU it waits, besides.",
        ),
        Misconception(
            "short gradients are stretched",
            _always_that_long,
            "Every gradient is `limit` long now, the short ones, too. Never multiply by more than 1.",
        ),
        Misconception(
            "each number by itself",
            _number_by_number,
            "`clamp` cuts single numbers. That bends the direction, and the whole can still be longer than the limit.",
        ),
        Misconception(
            "upside down",
            _upside_down,
            "norm / limit is large where the gradient is long. The factor is limit / norm.",
        ),
    ),
)
