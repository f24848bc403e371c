import functools
import random

import numpy
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.copying import copied, reachable

COUNTS = {"calls": 0}


def counting_step(model):
    COUNTS["calls"] += 1
    return model


def test_what_belongs_together_still_does():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    copy = copied({"model": model, "optimizer": optimizer})
    assert copy["model"].weight is copy["optimizer"].param_groups[0]["params"][0]
    assert copy["model"].weight is not model.weight and torch.equal(copy["model"].weight, model.weight)


def test_closures_defaults_and_globals_are_copied():
    average, seen = nn.Linear(2, 2), []

    def step(model, history=seen):
        average.weight.data.zero_()
        history.append(model)
        return counting_step(model)

    copy = copied({"step": step, "average": average})
    copy["step"](1)
    assert seen == [] and COUNTS == {"calls": 0}
    assert average.weight.abs().sum() > 0 and copy["average"].weight.abs().sum() == 0


def test_gradients_stay_and_graphs_are_cut():
    weight = nn.Parameter(torch.ones(2))
    weight.grad = torch.full((2,), 3.0)
    hidden = weight * 2
    copy = copied({"weight": weight, "hidden": hidden})
    assert torch.equal(copy["weight"].grad, weight.grad) and copy["weight"].grad is not weight.grad
    assert copy["hidden"].grad_fn is None and torch.equal(copy["hidden"], hidden)


def test_what_cannot_be_copied_is_shared(tmp_path):
    running = (number for number in range(3))
    with open(tmp_path / "log.txt", "w", encoding="utf-8") as file:
        copy = copied({"file": file, "running": running, "list": [1]})
    assert copy["file"] is file and copy["running"] is running and copy["list"] == [1]


def test_an_optimizer_keeps_what_its_class_added():
    class Counting(torch.optim.SGD):
        def __init__(self, parameters):
            super().__init__(parameters, lr=0.1)
            self.counts = [0]

    optimizer = Counting(nn.Linear(1, 1).parameters())
    copy = copied({"optimizer": optimizer})["optimizer"]
    assert copy.counts == [0] and copy.counts is not optimizer.counts


def test_methods_partials_and_loaders_lead_to_what_they_hold():
    layer, data = nn.Linear(1, 1), torch.zeros(4, 1)
    loader = DataLoader(TensorDataset(data))
    found = list(reachable([layer.forward, functools.partial(print, loader)]))
    assert any(thing is layer.weight for thing in found) and any(thing is data for thing in found)


def test_the_global_generators_are_meant_not_copied() -> None:
    methods = {"python": random.uniform, "numpy": numpy.random.normal, "own": numpy.random.default_rng(0).normal}
    twins = copied(methods)
    assert twins["python"].__self__ is random.uniform.__self__
    assert twins["numpy"].__self__ is numpy.random.normal.__self__
    assert twins["own"].__self__ is not methods["own"].__self__


def test_notes_on_a_parameter_are_copied():
    layer = nn.Linear(2, 2)
    layer.weight.group = ["slow"]
    twin = copied({"model": layer})["model"]
    assert twin.weight.group == ["slow"] and twin.weight.group is not layer.weight.group
