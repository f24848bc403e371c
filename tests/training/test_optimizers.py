import pytest
import torch
import torch.nn as nn

from labkit.errors import ConfigError
from labkit.training import Config, make_optimizer

CPU = torch.device("cpu")


def test_decay_acts_on_kernels_and_matrices_only():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2))
    decay = {
        id(parameter): group["weight_decay"]
        for group in make_optimizer(net, Config(weight_decay=0.1), CPU).param_groups
        for parameter in group["params"]
    }
    found = {name: decay[id(parameter)] for name, parameter in net.named_parameters()}
    assert found == {"0.weight": 0.1, "0.bias": 0.0, "1.weight": 0.0, "1.bias": 0.0, "3.weight": 0.1, "3.bias": 0.0}


def test_frozen_parameters_are_left_out():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[0].requires_grad_(False)
    groups = make_optimizer(net, Config(), CPU).param_groups
    assert {id(p) for group in groups for p in group["params"]} == {id(net[1].weight), id(net[1].bias)}


def test_a_model_with_nothing_to_train_is_refused():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(2, 2)]

    with pytest.raises(ConfigError, match="nn.ModuleList"):
        make_optimizer(Hidden(), Config(), CPU)


def test_momentum_zero_keeps_no_buffers():
    optimizer = make_optimizer(nn.Linear(2, 2), Config(optimizer="sgd", momentum=0.0), CPU)
    assert not optimizer.state and not optimizer.param_groups[0]["nesterov"]
