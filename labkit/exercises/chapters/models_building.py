"""Chapter 04, second part: as many layers as an argument says."""

from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import need_module


def run_stack(answer: Any, width: int, depth: int, inputs: Tensor) -> Any:
    """Build the stack and fill its layers in order: what is registered, whether two calls agree, and the output."""
    need_module(answer)
    built = answer(width, depth)
    if (first := built(inputs)) is ...:
        return ...
    parameters = list(built.parameters())
    observed = {"registered numbers": sum(one.numel() for one in parameters), "output": None}
    observed["two calls agree"] = bool(torch.equal(first, built(inputs)))
    weights = [one for one in parameters if one.ndim == 2]
    biases = [one for one in parameters if one.ndim == 1]
    if len(weights) == len(biases) == depth:
        with torch.no_grad():
            for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                weight.copy_(torch.linspace(-1, 1.2, width**2).roll(place).view(width, width))
                bias.copy_(torch.linspace(0.3, -0.1, width))
        observed["output"] = built(inputs).detach()
    return observed


class _Stack(nn.Module):
    """A right stack. Each wrong one below differs from it in one place."""

    def __init__(self, width: int, depth: int):
        super().__init__()
        self.layers = self.collected([nn.Linear(width, width) for _ in range(depth)])

    def collected(self, layers: list[nn.Linear]) -> Any:
        return nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x


class _PlainList(_Stack):
    def collected(self, layers: list[nn.Linear]) -> Any:
        return layers


class _OneLayerAgain(_Stack):
    def collected(self, layers: list[nn.Linear]) -> Any:
        return nn.ModuleList([layers[0]] * len(layers))


class _ThreeLayers(_Stack):
    def __init__(self, width: int, depth: int):
        super().__init__(width, 3)


class _MadeInForward(_Stack):
    def collected(self, layers: list[nn.Linear]) -> Any:
        self.width, self.depth = layers[0].in_features, len(layers)
        return nn.ModuleList()

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.depth):
            x = nn.Linear(self.width, self.width)(x).relu()
        return x


class _WithoutActivation(_Stack):
    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class _ActivationAtTheEnd(_WithoutActivation):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu()


STACK = Exercise(
    name="Stack",
    prompt="Write `Stack(width, depth)`: as many linear layers from `width` to `width` as `depth` says, each followed "
    "by ReLU. All of them must be trained, saved and moved.",
    stub='''class Stack(nn.Module):
    """x (B, width) -> (B, width), through `depth` linear layers, each with ReLU."""

    def __init__(self, width, depth):
        super().__init__()
        ...  # your turn

    def forward(self, x):
        return ...  # your turn''',
    solved='''class Stack(nn.Module):
    """x (B, width) -> (B, width), through `depth` linear layers, each with ReLU."""

    def __init__(self, width, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return x''',
    hints=(
        "The opening of the chapter has this fault. Where must a layer be, so that `nn.Module` sees it?",
        "A list of modules that is a module itself: `nn.ModuleList`. `nn.Sequential` is one that can also be called.",
        "Make the layers in a loop inside `nn.ModuleList(…)`; `forward` goes through them.",
    ),
    cases=lambda generator: [
        (3, 2, normal(generator, 4, 3)),
        (4, 5, normal(generator, 2, 4)),
        (2, 1, normal(generator, 3, 2)),
    ],
    run=run_stack,
    praise="The list itself is now a child: its layers are `layers.0`, `layers.1`, …",
    misconceptions=(
        Misconception(
            "layers in a plain list",
            _PlainList,
            "`nn.Module` looks at each value that is assigned to an attribute, and a list is neither a parameter nor a "
            "module. `forward` uses the layers, and nobody trains, saves or moves them. Write `nn.ModuleList(…)`.",
        ),
        Misconception(
            "one layer, used again and again",
            _OneLayerAgain,
            "`[layer] * depth` is a list of the *same* layer, `depth` times. It has the numbers of one. Make a new "
            "layer in each turn of the loop.",
        ),
        Misconception(
            "a fixed number of layers",
            _ThreeLayers,
            "`depth` says how many there are to be. Attributes written one by one cannot follow it; a loop can.",
        ),
        Misconception(
            "layers made in forward",
            _MadeInForward,
            "Each call makes layers anew, with other random weights, and forgets them. Layers are made once, in "
            "`__init__`; `forward` uses them.",
        ),
        Misconception(
            "no activation",
            _WithoutActivation,
            "Linear layers one after the other are one linear layer: without ReLU between them depth is in vain.",
        ),
        Misconception(
            "one activation, at the end",
            _ActivationAtTheEnd,
            "*Each* layer is followed by ReLU. With one at the very end all layers before it are as good as one.",
        ),
    ),
)
