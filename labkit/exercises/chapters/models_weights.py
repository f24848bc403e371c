"""Chapter 04, third part: the first values of the weights."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise


def run_start_weights(answer: Any, *given: nn.Module) -> Any:
    """Send four layers through the answer, one after the other, and measure what it made of their values.

    Random numbers may come from anywhere, so a weight is judged by its deviation times the square root of its fan-in.
    """
    layers = dict(
        zip(("the convolution", "the normalisation", "the linear layer", "the embedding"), given, strict=True)
    )
    observed: dict[str, Any] = {}
    for name, layer in layers.items():
        bias = layer.bias.detach().clone() if getattr(layer, "bias", None) is not None else None
        before = dict(layer.named_parameters())
        if families.call(answer, layer) is ...:
            return ...
        weight = layer.weight.detach()
        fan_in = weight[0].numel() if weight.ndim > 1 else 1
        observed[f"deviation of {name}, times the root of its fan-in"] = round(weight.std().item() * fan_in**0.5, 1)
        observed[f"{name} has new parameters"] = any(
            value is not before[key] for key, value in layer.named_parameters()
        )
        if bias is not None:
            kept = torch.equal(bias, layer.bias)
            observed[f"bias of {name}"] = "kept" if kept else "zero" if not layer.bias.any() else "something else"
    return observed


def _cases(generator: torch.Generator) -> list[tuple]:
    norm = nn.BatchNorm2d(32)
    nn.init.normal_(norm.weight, mean=1.0, std=0.2, generator=generator)
    nn.init.constant_(norm.bias, 0.5)
    embedding = nn.Embedding(400, 100)
    nn.init.normal_(embedding.weight, generator=generator)
    return [(nn.Conv2d(16, 32, 3, bias=False), norm, nn.Linear(400, 100), embedding)]


def _starts(fill: Callable[[Tensor], object]) -> Callable[[nn.Module], None]:
    """Return an answer that is right but for the values with which it fills the weights."""

    def start_weights(layer: nn.Module) -> None:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            fill(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    return start_weights


def _takes_a_bias_for_granted(layer: nn.Module) -> None:
    if isinstance(layer, nn.Linear | nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)


def _whatever_has_a_weight(layer: nn.Module) -> None:
    if hasattr(layer, "weight"):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def _whatever_is_a_matrix(layer: nn.Module) -> None:
    if hasattr(layer, "weight") and layer.weight.dim() > 1:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if getattr(layer, "bias", None) is not None:
            nn.init.zeros_(layer.bias)


def _new_parameters(layer: nn.Module) -> None:
    if isinstance(layer, nn.Linear | nn.Conv2d):
        layer.weight = nn.Parameter(nn.init.kaiming_normal_(torch.empty_like(layer.weight), nonlinearity="relu"))
        if layer.bias is not None:
            layer.bias = nn.Parameter(torch.zeros_like(layer.bias))


def _leaves_the_bias(layer: nn.Module) -> None:
    if isinstance(layer, nn.Linear | nn.Conv2d):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")


START_WEIGHTS = Exercise(
    name="start_weights",
    prompt="Write what `model.apply(start_weights)` will call with every layer of a network with ReLU: weights of "
    "`nn.Linear` and `nn.Conv2d` by Kaiming's rule for ReLU (deviation: the square root of 2 / fan-in), their biases "
    "zero. All other layers keep what they have.",
    stub='''def start_weights(layer):
    """Give a linear layer or a convolution its first values, in place; leave any other layer alone."""
    return ...  # your turn (and no return in the end)''',
    solved='''def start_weights(layer):
    """Give a linear layer or a convolution its first values, in place; leave any other layer alone."""
    if isinstance(layer, (nn.Linear, nn.Conv2d)):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)''',
    hints=(
        "`apply` calls you for *every* module: ask first what it is, with `isinstance`.",
        '`nn.init.kaiming_normal_(weight, nonlinearity="relu")`. Functions of `nn.init` end in an underscore.',
        "A layer made with `bias=False` has `bias` None.",
    ),
    cases=_cases,
    run=run_start_weights,
    praise="After twenty layers the signal is as large as it was.",
    misconceptions=(
        Misconception(
            "every layer has a bias",
            _takes_a_bias_for_granted,
            "A convolution before a batch normalisation is made with `bias=False`; its `bias` is None. Ask for it.",
        ),
        Misconception(
            "the normalisation too",
            _whatever_has_a_weight,
            "Whatever has a `weight`? That of a batch normalisation is one scale a channel: it has no fan-in, so "
            "Kaiming's rule raises an error, and it should keep what it has.",
        ),
        Misconception(
            "whatever is a matrix",
            _whatever_is_a_matrix,
            "An embedding has a matrix as well, but looks a row up instead of summing over inputs: it has no fan-in, "
            "and keeps what it has. Ask for the type, not for the shape.",
        ),
        Misconception(
            "new parameters",
            _new_parameters,
            "The values are right, in new tensors. An optimizer that was made before holds the old ones, and trains "
            "what nobody uses any more. Functions of `nn.init` fill the tensor that is there.",
        ),
        Misconception(
            "Xavier",
            _starts(nn.init.xavier_normal_),
            "Xavier's rule is for tanh. ReLU cuts off half of the signal, and without Kaiming's factor 2 each layer "
            "makes it smaller.",
        ),
        Misconception(
            "zeros",
            _starts(nn.init.zeros_),
            "Nothing gets through a layer of zeros, forward or backward; and units that start equal stay equal.",
        ),
        Misconception(
            "deviation 1",
            _starts(nn.init.normal_),
            "A sum of `fan_in` products is then as large as the square root of `fan_in`: here 12 and 20 times as large "
            "as what came in, and that in every layer.",
        ),
        Misconception(
            "the leaky slope that is the default",
            _starts(lambda weight: nn.init.kaiming_uniform_(weight, a=5**0.5)),
            "`a=5**0.5` is how torch itself begins: deviation 1/√(3 · fan_in). For plain ReLU that is too small.",
        ),
        Misconception(
            "the bias is forgotten",
            _leaves_the_bias,
            "The weights are right. The biases have their random first values; they are to be zero.",
        ),
    ),
)
