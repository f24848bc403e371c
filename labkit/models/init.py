"""Initial weights by name, and what becomes of a signal on its way through many layers, forward and back."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch import Tensor

from labkit import randomness
from labkit.errors import ConfigError
from labkit.models.dry_run import left_as_it_was, need_model
from labkit.models.inspect import shape_trace
from labkit.table import Table

#: What each does with a weight.
INITS: dict[str, Callable[[Tensor], object]] = {
    "kaiming": lambda weight: nn.init.kaiming_normal_(weight, nonlinearity="relu"),
    "xavier": nn.init.xavier_normal_,
    "orthogonal": nn.init.orthogonal_,
    "torch's own": lambda weight: nn.init.kaiming_uniform_(weight, a=5**0.5),  # as nn.Linear and nn.Conv2d begin
    "normal 0.01": lambda weight: nn.init.normal_(weight, std=0.01),
    "normal 1": nn.init.normal_,
    "zeros": nn.init.zeros_,
}
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "gelu": nn.GELU}


@dataclass(frozen=True)
class Signal:
    """What a layer gives, and the gradient that arrives there: float tensors of equal shape."""

    layer: str
    values: Tensor
    gradient: Tensor

    def row(self) -> dict[str, str | float]:
        """Return mean and standard deviation of both, and the share of values that are exactly 0."""
        values, gradient = self.values.double(), self.gradient.double()  # the squares of large ones overflow in float32
        return {
            "layer": self.layer,
            "mean": values.mean().item(),
            "deviation": values.std().item(),
            "zeros": (values == 0).double().mean().item(),
            "gradient mean": gradient.mean().item(),
            "gradient deviation": gradient.std().item(),
        }


def initialise(model: nn.Module, name: str, seed: int = 0) -> nn.Module:
    """Set the weights of all linear and convolution layers in the named way, their biases to 0; return the model.

    Other layers (normalisation, embeddings) keep what they have. Raises ConfigError for an unknown name.
    """
    if name not in INITS:
        raise ConfigError(f"Initialisation {name!r} is not known. Choose one of {', '.join(map(repr, INITS))}.")
    need_model(model)
    with randomness.frozen_randomness(randomness.seed_for(seed, "initial weights")), torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Linear | nn.modules.conv._ConvNd):
                INITS[name](layer.weight)
                if layer.bias is not None:
                    layer.bias.zero_()
    return model


def deep(depth: int = 20, width: int = 128, activation: str = "relu") -> nn.Sequential:
    """Return `depth` linear layers of `width` units, each with an activation: float (B, width) -> (B, width)."""
    if activation not in ACTIVATIONS:
        raise ConfigError(f"Activation {activation!r} is not known. Choose one of {', '.join(map(repr, ACTIVATIONS))}.")
    if not all(type(size) is int and size >= 1 for size in (depth, width)):
        raise ConfigError(f"depth={depth!r} and width={width!r} must be whole numbers of at least 1.")
    model = nn.Sequential()
    for _ in range(depth):
        model.append(nn.Sequential(nn.Linear(width, width), ACTIVATIONS[activation]()))
    return model


def signals(model: nn.Module, inputs: Tensor, seed: int = 0) -> list[Signal]:
    """Send a batch through the model and a random gradient of deviation 1 back; return what passes each layer.

    A layer here is an activation; in a model without one, a linear or convolution layer. The gradient is that of the
    layer's output. The model is left as it was, without gradients. Raises ConfigError when the inputs do not fit.
    """
    shape_trace(model, inputs)
    kinds = tuple(ACTIVATIONS.values())
    if not any(isinstance(layer, kinds) for layer in model.modules()):
        kinds = (nn.Linear, nn.modules.conv._ConvNd)
    passed: list[tuple[str, Tensor]] = []
    handles = [
        layer.register_forward_hook(lambda layer, inputs, output, name=name: passed.append((name, output)))
        for name, layer in model.named_modules()
        if isinstance(layer, kinds)
    ]
    try:
        with left_as_it_was(model), torch.enable_grad():
            outputs = model(inputs.detach().clone().requires_grad_())
    finally:
        for handle in handles:
            handle.remove()
    if not isinstance(outputs, Tensor) or not passed:
        raise ConfigError(f"{type(model).__name__} must return one tensor and have layers for a signal to pass.")
    noise = torch.randn(outputs.shape, generator=randomness.generator(seed, "gradient")).to(outputs)
    gradients = torch.autograd.grad(outputs, [one for _, one in passed], noise, materialize_grads=True)
    return [Signal(name, one.detach(), gradient) for (name, one), gradient in zip(passed, gradients, strict=True)]


def signal_table(model: nn.Module, inputs: Tensor, seed: int = 0) -> Table:
    """Return one row for each layer: mean and deviation of what it gives and of the gradient that arrives there."""
    rows = [signal.row() for signal in signals(model, inputs, seed)]
    return Table(rows, f"{type(model).__name__}: a batch forward, and a gradient of deviation 1 back")
