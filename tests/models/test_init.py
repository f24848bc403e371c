"""Named initial weights, and the signal through many layers, against what theory says."""

import pytest
import torch
import torch.nn as nn

from labkit.errors import ConfigError
from labkit.models.init import ACTIVATIONS, INITS, deep, initialise, signal_table, signals


def batch(width: int = 128) -> torch.Tensor:
    return torch.randn(256, width, generator=torch.Generator().manual_seed(0))


def deviations(init: str, activation: str = "relu", depth: int = 20) -> list[tuple[float, float]]:
    rows = signal_table(initialise(deep(depth, activation=activation), init), batch()).rows
    return [(row["deviation"], row["gradient deviation"]) for row in rows]


def test_kaiming_keeps_relu_and_xavier_keeps_tanh_within_an_order() -> None:
    for init, activation in (("kaiming", "relu"), ("xavier", "tanh")):
        for value, gradient in deviations(init, activation):
            assert 0.1 < value < 10 and 0.1 < gradient < 10


def test_xavier_halves_the_variance_in_every_layer_of_relu() -> None:
    first, last = (deviations("xavier")[place][0] for place in (0, -1))
    assert 0.5 < last / first / 2 ** (-19 / 2) < 2


def test_small_weights_vanish_and_large_ones_explode() -> None:
    assert deviations("normal 0.01")[-1][0] < 1e-18
    assert deviations("normal 1")[-1][0] > 1e15
    assert all(value == 0 for value, _ in deviations("zeros"))


def test_torchs_own_is_what_torch_does() -> None:
    ours = initialise(nn.Linear(400, 300), "torch's own").weight
    assert ours.abs().max() <= 1 / 400**0.5 and ours.std().item() == pytest.approx(400**-0.5 / 3**0.5, rel=0.02)


@pytest.mark.parametrize("name", INITS)
def test_weights_depend_on_the_seed_alone_and_biases_are_zero(name: str) -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 2))

    before = torch.get_rng_state()
    one, two, other = initialise(model(), name), initialise(model(), name), initialise(model(), name, seed=1)
    assert all(torch.equal(first, second) for first, second in zip(one.parameters(), two.parameters(), strict=True))
    assert name == "zeros" or not torch.equal(one[0].weight, other[0].weight)
    assert not one[0].bias.any() and not one[3].bias.any() and (one[1].weight == 1).all()
    assert not torch.equal(before, torch.get_rng_state()), "building a model draws, as always"
    before = torch.get_rng_state()
    initialise(one, name)
    assert torch.equal(before, torch.get_rng_state())


def test_the_gradient_is_that_of_each_layers_output() -> None:
    model = initialise(deep(2, 4), "kaiming")
    first, second = signals(model, batch(4))
    expected = (second.gradient * (second.values > 0)) @ model[1][0].weight
    torch.testing.assert_close(first.gradient, expected)
    assert second.gradient.std().item() == pytest.approx(1, abs=0.05)


def test_measuring_changes_nothing() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Dropout(0.5))
    state, random = {name: one.clone() for name, one in model.state_dict().items()}, torch.get_rng_state()
    assert len(signals(model, batch(4))) == 1
    assert all(torch.equal(one, state[name]) for name, one in model.state_dict().items())
    assert all(one.grad is None for one in model.parameters()) and torch.equal(random, torch.get_rng_state())
    assert not any(layer._forward_hooks for layer in model.modules())


def test_a_model_without_activations_is_measured_at_its_layers() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    assert [signal.layer for signal in signals(model, batch(4))] == ["0", "1"]


def test_activations_are_built() -> None:
    assert [type(deep(1, 2, name)[0][1]) for name in ACTIVATIONS] == list(ACTIVATIONS.values())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: initialise(nn.Linear(1, 1), "he"), "Initialisation 'he' is not known. Choose one of 'kaiming'"),
        (lambda: deep(activation="swish"), "Activation 'swish' is not known"),
        (lambda: deep(depth=0), "depth=0"),
        (lambda: signals(deep(2, 4), batch(5)), r"Make it `nn\.Linear\(5, 4\)`"),
    ],
)
def test_what_cannot_be_is_a_sentence(call, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()
