"""Chapter 08, eleventh part: inner values that are computed a second time."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal, with_drawn_weights
from labkit.exercises.exercise import Exercise
from labkit.models.memory import kept_for_backward


def run_again(answer: Any, blocks: nn.Module, inputs: Tensor) -> Any:
    """Return outputs, gradients, and the bytes that were kept for the way back."""
    families.need_function(answer)
    results = []

    def forward() -> Any:
        torch.manual_seed(0)  # for dropout
        results.append(answer(list(blocks), inputs))
        return results[-1]

    kept = kept_for_backward(forward, blocks.parameters())
    [outputs] = results
    if not isinstance(outputs, Tensor):
        return outputs
    if outputs.requires_grad:
        outputs.square().sum().backward()
    gradients = {name: one.grad if one.grad is None else one.grad.clone() for name, one in blocks.named_parameters()}
    found = {"outputs": outputs.detach(), "gradients": gradients}
    if any(
        one is None for one in gradients.values()
    ):  # what is kept of a graph that was cut is given back sooner or later
        return found
    return found | {"bytes kept for backward": kept}


def _each(through: Callable[[nn.Module, Tensor], Tensor]) -> Callable:
    def computed_again(blocks: list, inputs: Tensor) -> Tensor:
        for block in blocks:
            inputs = through(block, inputs)
        return inputs

    return computed_again


def _without_graph(block: nn.Module, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return block(inputs)


def _all_at_once(blocks: list, inputs: Tensor) -> Tensor:
    return checkpoint(nn.Sequential(*blocks), inputs, use_reentrant=False)


def _every_second(blocks: list, inputs: Tensor) -> Tensor:
    for number, block in enumerate(blocks):
        inputs = block(inputs) if number % 2 else checkpoint(block, inputs, use_reentrant=False)
    return inputs


def _some_blocks(generator: torch.Generator, count: int) -> tuple:
    blocks = [nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 4)) for _ in range(count)]
    return with_drawn_weights(generator, nn.Sequential(*blocks)), normal(generator, 6, 4)


COMPUTED_AGAIN = Exercise(
    name="computed_again",
    prompt="Send `inputs` through the `blocks`, one after the other, so that each block keeps only what comes *in* for "
    "the way back, and computes its inner values a second time there: `torch.utils.checkpoint.checkpoint` does it for "
    "a block. Outputs and gradients stay the same. Use `use_reentrant=False`.",
    stub='''from torch.utils.checkpoint import checkpoint


def computed_again(blocks, inputs):
    """Return the outputs of the last block; inner values are not kept."""
    return ...  # your turn''',
    solved='''from torch.utils.checkpoint import checkpoint


def computed_again(blocks, inputs):
    """Return the outputs of the last block; inner values are not kept."""
    for block in blocks:
        inputs = checkpoint(block, inputs, use_reentrant=False)
    return inputs''',
    hints=(
        "`checkpoint(function, *arguments)` calls the function and keeps its arguments, not what happens inside.",
        "One call for each block, in a loop: what comes out of one goes into the next.",
        "`inputs = checkpoint(block, inputs, use_reentrant=False)`.",
    ),
    cases=lambda generator: [_some_blocks(generator, 4)],
    run=run_again,
    praise="Memory for time: about a third more computing. Dropout drops the same values both times.",
    misconceptions=(
        Misconception(
            "all inner values are kept",
            _each(lambda block, inputs: block(inputs)),
            "An ordinary forward pass: the blocks keep all their inner values. Call each block *through* `checkpoint`.",
        ),
        Misconception(
            "no graph at all",
            _each(_without_graph),
            "`no_grad` keeps nothing, so nothing can be computed on the way back: no parameter gets a gradient. "
            "`checkpoint` forgets the values and remembers how they are made.",
        ),
        Misconception(
            "cut between the blocks",
            _each(lambda block, inputs: checkpoint(block, inputs.detach(), use_reentrant=False)),
            "`detach()` cuts the graph in front of each block: only the last one gets a gradient.",
        ),
        Misconception(
            "all blocks as one",
            _all_at_once,
            "One checkpoint around everything keeps even less at first. But on the way back all is computed again "
            "*at once*, and then all inner values are there, as without any checkpoint. One for each block.",
        ),
        Misconception(
            "every second block",
            _every_second,
            "Every second block still keeps all its inner values.",
        ),
    ),
)
