"""Chapter 05, second part: the gradient of a large batch from small ones."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise

Batches = list[tuple[Tensor, Tensor]]


def run_accumulate(answer: Any, model: nn.Module, batches: Batches) -> Any:
    """Accumulate with old gradients lying about: the gradients, and how much was in memory at once."""
    weight = model[-1].weight
    start = weight.detach().clone()
    sizes, waiting = [0], [0]  # of the batches that went forward; samples whose graph waits for its backward pass

    def note(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        sizes.append(len(output))
        waiting.append(waiting[-1] + len(output))

    model.register_forward_hook(note)
    weight.register_hook(lambda gradient: waiting.append(0))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    if families.call(answer, model, batches) is ...:
        return ...
    return {
        **{f"gradient of {name}": parameter.grad for name, parameter in model.named_parameters()},
        "largest batch that went through the model": max(sizes),
        "most samples whose graphs were kept at once": max(waiting),
        "the weights are as they were": bool(torch.equal(start, weight)),
    }


def _accumulates(
    weight_of: Callable[[Batches, int], float], clear: str = "once"
) -> Callable[[nn.Module, Batches], None]:
    """Return an answer that multiplies the mean loss of each batch, given by its place, by some weight.

    clear: when it clears the gradients: "once", "never" or "for each" batch.
    """

    def accumulate(model: nn.Module, batches: Batches) -> None:
        if clear == "once":
            model.zero_grad()
        for place, (inputs, targets) in enumerate(batches):
            if clear == "for each":
                model.zero_grad()
            (F.cross_entropy(model(inputs), targets) * weight_of(batches, place)).backward()

    return accumulate


def _count(batches: Batches) -> int:
    return sum(len(targets) for _, targets in batches)


def _share(batches: Batches, place: int) -> float:
    return len(batches[place][1]) / _count(batches)


def _one_backward(model: nn.Module, batches: Batches) -> None:
    model.zero_grad()
    losses = [F.cross_entropy(model(inputs), targets, reduction="sum") for inputs, targets in batches]
    (sum(losses) / _count(batches)).backward()


def _one_batch(model: nn.Module, batches: Batches) -> None:
    model.zero_grad()
    inputs, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    F.cross_entropy(model(inputs), targets).backward()


def _case(generator: torch.Generator, *sizes: int) -> tuple[nn.Module, Batches]:
    model = with_drawn_weights(generator, nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)))
    return model, [(normal(generator, size, 4), torch.randint(3, (size,), generator=generator)) for size in sizes]


ACCUMULATE = Exercise(
    name="accumulate",
    prompt="The memory is too small for one large batch, so it comes as a list of small ones, of different sizes. "
    "Leave in `.grad` of each parameter the gradient that the large batch would have given: that of the mean "
    "cross-entropy over *all* samples. Never keep the graphs of two batches at once. What was in `.grad` before does "
    "not count; the step is made by whoever calls you.",
    stub='''def accumulate(model, batches):
    """Fill .grad as one large batch would; batches: a list of (inputs, targets)."""
    return ...  # your turn (and no return in the end)''',
    solved='''def accumulate(model, batches):
    """Fill .grad as one large batch would; batches: a list of (inputs, targets)."""
    count = sum(len(targets) for _, targets in batches)
    model.zero_grad()
    for inputs, targets in batches:
        loss = F.cross_entropy(model(inputs), targets, reduction="sum") / count
        loss.backward()''',
    hints=(
        "`backward` adds to `.grad`, and frees the graph. So: clear once, then one `backward` for each small batch.",
        "The mean over all samples is the sum of all losses, divided by the number of *all* samples. When do you know "
        "that number?",
        "The batches are a list: count the targets first. Each batch gives a sum of losses, divided by that count.",
    ),
    cases=lambda generator: [_case(generator, 5, 2, 3), _case(generator, 4), _case(generator, 1, 6)],
    run=run_accumulate,
    praise="The gradient of the large batch, in the memory of a small one.",
    misconceptions=(
        Misconception(
            "the losses as they are",
            _accumulates(lambda batches, place: 1),
            "Each loss is a mean over its batch, and `backward` adds. With k batches the gradient is about k times too "
            "large, as if the learning rate were: a run that was stable diverges.",
        ),
        Misconception(
            "each loss divided by the number of batches",
            _accumulates(lambda batches, place: 1 / len(batches)),
            "Right for batches of one size. Here a sample in a small batch counts for more than one in a large batch. "
            "Weight each loss by its share of all the samples.",
        ),
        Misconception(
            "every batch taken to be as large as the first",
            _accumulates(lambda batches, place: len(batches[place][1]) / (len(batches) * len(batches[0][1]))),
            "`len(batches) * batch_size` is the number of samples only if every batch is full, and the last one of an "
            "epoch seldom is. Count the targets.",
        ),
        Misconception(
            "the old gradients stay",
            _accumulates(_share, clear="never"),
            "`backward` adds to what is there, and something was: the gradients of the last update. Clear them once, "
            "before the first batch.",
        ),
        Misconception(
            "cleared before each batch",
            _accumulates(_share, clear="for each"),
            "The habit of *zero, backward, step*: it throws away all batches but the last. The beat is now zero, "
            "backward, backward, …, step.",
        ),
        Misconception(
            "the sums of the losses",
            _accumulates(lambda batches, place: len(batches[place][1])),
            "This is the gradient of the *sum* over all samples. It grows with the number of samples, so that a rate "
            "that fits one size of batch does not fit another. Divide by the count.",
        ),
        Misconception(
            "one backward at the end",
            _one_backward,
            "The gradient is right. But a graph lives until its backward pass: you kept those of all batches at once, "
            "which is the memory of the large batch. Call `backward` for each batch.",
        ),
        Misconception(
            "one large batch after all",
            _one_batch,
            "The gradient is right, of course: it is the large batch, for which the memory was too small.",
        ),
    ),
)
