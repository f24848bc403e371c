"""Measurements for the topic "nn.Module": the first values of weights, and what becomes of a signal with them."""

from math import sqrt

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of
from labkit.models.init import deep, initialise, signals


def fills(values: Tensor, bound: float) -> bool:
    """Tell whether values reach up to a bound on both sides, and nowhere beyond it."""
    beyond = values.abs().max() > bound * 1.0001  # a rounded bound
    return bool(not beyond and values.max() > 0.9 * bound and values.min() < -0.9 * bound)


@claim(
    "C129",
    true="Yes. A new layer has small random weights, uniform within 1/√fan_in, the number of values that each output "
    "sees. For many plain ReLU layers in a row that is on the small side.",
    false="You may have read that weights must be set by hand. A layer that you make can be trained as it is: its "
    "weights differed from each other and kept the bound that the documentation gives.",
    depends="Both kinds of layer have it, weights and bias alike. Whether the default is the *best* one does depend on "
    "the network, and the sentence does not say so.",
)
def both_layers_begin_with_random_weights() -> dict[str, bool]:
    """Compare the first values of both layers with their bound, twice each."""
    linear, convolution = nn.Linear(400, 300), nn.Conv2d(16, 128, 3)
    return {
        "the weights of nn.Linear fill the range up to 1/√400": fills(linear.weight, 1 / sqrt(400)),
        "the bias of nn.Linear fills the same range": fills(linear.bias, 1 / sqrt(400)),
        "the weights of nn.Conv2d fill the range up to 1/√(16·3·3)": fills(convolution.weight, 1 / sqrt(16 * 3 * 3)),
        "the bias of nn.Conv2d does so as well": fills(convolution.bias, 1 / sqrt(16 * 3 * 3)),
        "a second layer begins with other weights": not torch.equal(linear.weight, nn.Linear(400, 300).weight),
    }


def init_weights(layer: nn.Module) -> None:
    """Initialise a linear layer, as the function is shown everywhere."""
    if isinstance(layer, nn.Linear):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)


@claim(
    "C130",
    true="On most models, yes, and `apply` reaches every layer. But a layer made with `bias=False` has a bias of None, "
    "and there the function stops with an error.",
    false="The function does what it should in models whose layers all have a bias: weights within the bound of "
    "Xavier, biases 0. A single kind of layer stops it.",
    depends="Right. One more line, `if layer.bias is not None`, and it goes through all of them. Layers before a "
    "BatchNorm often have no bias, so the case is not rare.",
)
def a_layer_without_bias_stops_it() -> dict[str, bool]:
    """Apply the function to a model with biases, and to one with a layer that has none."""
    model = nn.Sequential(nn.Linear(100, 50), nn.Sequential(nn.ReLU(), nn.Linear(50, 2)))
    model.apply(init_weights)
    weights, biases = (
        [getattr(layer, name) for layer in model.modules() if isinstance(layer, nn.Linear)]
        for name in ("weight", "bias")
    )
    without = nn.Sequential(nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4))
    return {
        "it sets the weights, in inner modules as well": fills(weights[0], sqrt(6 / 150))
        and fills(weights[1], sqrt(6 / 52)),
        "it sets the biases to 0": not any(bias.any() for bias in biases),
        "it can be used on a model with a layer that has no bias": not error_of(lambda: without.apply(init_weights)),
    }


def growth(initialisation: str, activation: str) -> tuple[float, float]:
    """Return by what factor a signal grows through twenty layers, and a gradient on its way back through them."""
    model = initialise(deep(20, 128, activation), initialisation)
    first, *_, last = signals(model, torch.randn(256, 128))
    return (last.values.std() / first.values.std()).item(), (first.gradient.std() / last.gradient.std()).item()


def keeps(factors: tuple[float, float]) -> bool:
    """Tell whether both, forward and back, stay within a factor of ten."""
    return all(0.1 < factor < 10 for factor in factors)


@claim(
    "C131",
    true="Yes. With Xavier a signal kept its size through twenty tanh layers, forward and back, where weights of "
    "deviation 0.01 or 1 lost it. Behind ReLU, Kaiming does the same by a factor 2 in the variance.",
    false="In a network of two or three layers almost any small weights will do, and so it may look like superstition. "
    "Through twenty layers the factors multiply: between Xavier and Kaiming lies about a thousand.",
    depends="On the activation, yes, and the sentence says so: Xavier for tanh, Kaiming for ReLU, which cuts off half "
    "of the signal. Normalisation layers make it matter less, and no less true.",
)
def xavier_for_tanh_and_kaiming_for_relu() -> dict[str, bool]:
    """Send a signal through twenty layers and a gradient back, with different first weights."""
    weight = nn.init.xavier_normal_(torch.empty(300, 400))
    return {
        "Xavier gives the weights a variance of 2/(fan_in + fan_out)": abs(weight.var().item() * 700 / 2 - 1) < 0.05,
        "with Xavier, signal and gradient keep their size through twenty tanh layers": keeps(growth("xavier", "tanh")),
        "with a deviation of 0.01 they vanish there": max(growth("normal 0.01", "tanh")) < 1e-10,
        "with a deviation of 1 the gradient explodes there": growth("normal 1", "tanh")[1] > 1e4,
        "with Kaiming both keep their size through twenty ReLU layers": keeps(growth("kaiming", "relu")),
        "with Xavier both shrink there, by more than a hundred": max(growth("xavier", "relu")) < 0.01,
    }
