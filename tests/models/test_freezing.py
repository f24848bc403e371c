"""Frozen is frozen: weights, statistics and modes, through training, copies and files."""

import copy
import io

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from labkit.errors import ConfigError
from labkit.models.freezing import freeze, trained_parameters, unfreeze
from labkit.models.registration import registration
from labkit.training import Config, make_optimizer


def network() -> nn.Sequential:
    model = nn.Sequential()
    model.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten())
    model.head = nn.Sequential(nn.BatchNorm1d(144), nn.Linear(144, 3))
    return model


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    noise = torch.Generator().manual_seed(0)
    for _ in range(3):
        model.train()
        optimizer.zero_grad()
        inputs, targets = torch.randn(6, 1, 8, 8, generator=noise), torch.randint(3, (6,), generator=noise)
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


@pytest.mark.parametrize("name", ["features.", "features"])
def test_training_leaves_all_of_a_frozen_part_alone(name: str) -> None:
    model = freeze(network(), name)
    before = state(model)
    train(model, torch.optim.AdamW(trained_parameters(model), lr=0.1, weight_decay=0.1))
    changed = {name for name, value in state(model).items() if not torch.equal(value, before[name])}
    assert changed == {name for name in before if name.startswith("head.")}
    assert model.training and model.head.training and not any(one.training for one in model.features.modules())


def test_requires_grad_alone_is_not_enough() -> None:
    """Why `freeze` does more: the statistics of a batch normalisation are no parameters."""
    model = network()
    model.features.requires_grad_(False)
    before = state(model)
    train(model, torch.optim.SGD(trained_parameters(model), lr=0.1))
    assert not torch.equal(model.features[1].running_mean, before["features.1.running_mean"])


def test_the_courses_optimizer_gets_the_rest_only() -> None:
    model = freeze(network(), "features.")
    optimizer = make_optimizer(model, Config(), torch.device("cpu"))
    held = {id(one) for group in optimizer.param_groups for one in group["params"]}
    assert held == {id(one) for one in model.head.parameters()} == {id(one) for one in trained_parameters(model)}


def test_one_layer_deep_inside() -> None:
    model = freeze(network(), "features.1", "head.0").train()
    assert [name for name, one in model.named_modules() if not one.training] == ["features.1", "head.0"]


def test_unfreezing_brings_everything_back() -> None:
    model = unfreeze(freeze(network(), "features."), "features.").train()
    assert all(one.training for one in model.modules()) and all(one.requires_grad for one in model.parameters())
    assert all(one.training for one in unfreeze(freeze(network(), "features.1", "head.")).modules())
    assert "train" not in vars(model.features)


def test_copies_and_files_keep_it() -> None:
    model = freeze(network(), "features.")
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for twin in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        twin.train()
        assert twin.head.training and not twin.features[1].training
        assert twin.features.train.args[0] is twin.features
    assert registration(model).is_complete


def test_everything_frozen_has_nothing_to_train() -> None:
    model = freeze(network())
    assert not model.train().training
    with pytest.raises(ConfigError, match="All parameters of Sequential are frozen"):
        trained_parameters(model)


def test_an_unknown_name_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"called 'feature\.'. It has features\., head\."):
        freeze(network(), "feature.")
