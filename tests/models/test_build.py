"""Networks by name: weights that depend on the seed alone, and a sentence for what is not there."""

import random

import numpy
import pytest
import torch

from labkit import randomness
from labkit.errors import ConfigError
from labkit.models import CNN, MLP, NETWORKS, LeNet, build


def weights(name: str, seed: int = 0) -> torch.Tensor:
    return torch.cat([value.detach().flatten() for value in build(name, (3, 8, 8), 5, seed).parameters()])


def test_names_mean_networks() -> None:
    assert {name: type(build(name, (1, 8, 8), 3)) for name in NETWORKS} == {"mlp": MLP, "lenet": LeNet, "cnn": CNN}


@pytest.mark.parametrize("name", NETWORKS)
def test_initial_weights_depend_on_the_seed_alone(name: str) -> None:
    with randomness.frozen_randomness(1):
        first = weights(name)
    with randomness.frozen_randomness(2):
        assert torch.equal(weights(name), first)
        assert not torch.equal(weights(name, seed=1), first)


@pytest.mark.parametrize("name", NETWORKS)
def test_building_leaves_the_global_generators_alone(name: str) -> None:
    before = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state()
    build(name, (3, 8, 8), 5)
    assert (random.getstate(), numpy.random.get_state()[1].tolist()) == before[:2]
    assert torch.equal(torch.get_rng_state(), before[2])


@pytest.mark.parametrize("name", NETWORKS)
def test_shape_classes_and_dropout_arrive(name: str) -> None:
    model = build(name, (2, 6, 9), 7, dropout=0.25)
    assert model(torch.zeros(3, 2, 6, 9)).shape == (3, 7)
    rates = {layer.p for layer in model.modules() if isinstance(layer, torch.nn.Dropout)}
    assert rates == {0.25}


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"Model 'resnet' is not known\. Choose one of 'mlp', 'lenet', 'cnn'\."):
        build("resnet", (3, 32, 32), 10)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"name": ["cnn"]}, "Model \\['cnn'\\] is not known"),
        ({"name": None}, "Model None is not known"),
        ({"image_shape": (32, 32)}, "must be three whole numbers"),
        ({"image_shape": (3, 0, 32)}, "must be three whole numbers"),
        ({"image_shape": (3, -8, 32)}, "must be three whole numbers"),
        ({"image_shape": 32}, "must be three whole numbers"),
        ({"class_count": 0}, "class_count=0 must be a whole number of at least 1"),
        ({"class_count": "10"}, "class_count='10' must be"),
        ({"class_count": 2.0}, "class_count=2.0 must be"),
        ({"dropout": 1.0}, "dropout=1.0 must be a number from 0 to below 1"),
        ({"dropout": float("nan")}, "dropout=nan must be"),
    ],
)
def test_sizes_that_mean_nothing_are_refused(arguments: dict, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        build(**({"name": "mlp", "image_shape": (3, 8, 8), "class_count": 4} | arguments))


def test_an_error_while_building_leaves_the_generators_alone_too() -> None:
    before = torch.get_rng_state()
    with pytest.raises(ConfigError, match="too small"):
        build("cnn", (3, 2, 2), 10)
    assert torch.equal(torch.get_rng_state(), before)
