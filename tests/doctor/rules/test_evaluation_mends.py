"""Fixes of an evaluation: how it runs, what it remembers, what its score says, what it keeps."""

import copy

import pytest
import torch
import torch.nn as nn
from torch.nn import functional

from labkit.doctor.program import Program, accuracy
from labkit.doctor.rules import evaluation_mends as mends
from labkit.keeping import same_bits
from tests.doctor.small import program


def mended(mend, **changes) -> Program:
    first = program(**changes).copy()
    mend(first)
    return first.copy()


def normalising() -> dict:
    model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 2))
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}


def in_training_mode(model, loader):
    with torch.no_grad():
        return torch.cat([model(x).argmax(1) == y for x, y in loader]).double().mean().item()


def test_an_evaluation_leaves_everything_as_it_was():
    def spoils(model, loader):
        score = in_training_mode(model, loader)
        model.requires_grad_(False)
        model.train()
        model(next(iter(loader))[0])  # moves the running statistics
        model[1].reset_parameters()
        return score

    one = mended(mends.looks_only, evaluate=spoils, **normalising())
    before = copy.deepcopy(one.model.state_dict())
    one.model.train()
    one.model[2].eval()
    scores = {one.score(one.val_loader) for _ in range(3)}
    assert len(scores) == 1 and scores == {accuracy(copy.deepcopy(one.model), one.val_loader)}
    assert all(same_bits(value, before[name]) for name, value in one.model.state_dict().items())
    assert [module.training for module in one.model] == [True, True, False, True] and one.model.training
    assert all(parameter.requires_grad for parameter in one.model.parameters())


class Drops(nn.Linear):
    def forward(self, x):
        return super().forward(functional.dropout(x, 0.5))


def test_functional_dropout_follows_the_mode():
    model = nn.Sequential(Drops(6, 2))
    one = mended(mends.dropout_by_mode, model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    x = torch.ones(1, 6)
    assert not torch.equal(one.model(x), one.model(x))
    one.model.eval()
    assert torch.equal(one.model(x), nn.Linear.forward(one.model[0], x))


class Meter:
    def __init__(self):
        self.right, self.count = 0, 0

    def __call__(self, model, loader):
        with torch.no_grad():
            for x, y in loader:
                self.right += (model(x).argmax(1) == y).sum().item()
                self.count += len(y)
        return self.right / self.count


def test_an_evaluation_starts_afresh():
    one, sick = mended(mends.starts_afresh, evaluate=Meter()), program(evaluate=Meter())
    for each in (one, sick):
        first = each.score(each.val_loader)
        each.model[2].bias.data = torch.tensor([100.0, 0.0])
        assert (each.score(each.val_loader) == 0.5) == (each is one) and first != 0.5


def test_right_answers_are_counted_sample_by_sample():
    one = mended(mends.right_answers, evaluate=lambda model, loader: 42.0)
    x, y = one.val_loader.dataset.tensors
    uneven = [(x[:39], y[:39]), (x[39:], y[39:])]
    assert one.score(uneven) == pytest.approx(accuracy(one.model, one.val_loader))


@pytest.mark.parametrize("outputs, right", [([2.0, -1.0, 0.5, -3.0], 0.75), ([0.9, 0.1, 0.6, 0.2], 0.75)])
def test_logits_and_shares_have_thresholds_of_their_own(outputs, right):
    targets = torch.tensor([1.0, 0.0, 0.0, 0.0])
    hits = mends._right(torch.tensor(outputs), targets)
    assert hits.float().mean().item() == right


def test_without_classes_the_score_is_minus_the_mean_loss():
    one = mended(mends.right_answers, loss_fn=nn.MSELoss(), model=nn.Identity())
    batches = [(torch.zeros(3, 1), torch.full((3, 1), 2.0)), (torch.zeros(1, 1), torch.full((1, 1), 4.0))]
    assert one.score(batches) == pytest.approx(-(3 * 4 + 16) / 4)


def test_a_kept_state_gets_a_memory_of_its_own():
    best = {}

    def keeps(model, loader):
        best["state"] = model.state_dict()
        return accuracy(model, loader)

    one = program(evaluate=keeps)
    mends.keeps_copies(one)
    one.score(one.val_loader)
    kept = best["state"]["0.weight"].clone()
    with torch.no_grad():
        one.model[0].weight.add_(1)
    assert same_bits(best["state"]["0.weight"], kept) and best["state"].keys() == one.model.state_dict().keys()
    held = {id(parameter) for group in one.optimizer.param_groups for parameter in group["params"]}
    assert held == {id(parameter) for parameter in one.model.parameters()}


def test_a_plateau_waits_for_the_right_direction():
    one = program()
    one.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(one.optimizer, mode="min", patience=0, factor=0.1)
    mends.plateau_waits_for("max")(one)
    one = one.copy()
    for score in (0.1, 0.5, 0.9):
        one.scheduler.step(score)
    assert one.optimizer.param_groups[0]["lr"] == 0.1
    one.scheduler.step(0.2)
    assert one.optimizer.param_groups[0]["lr"] == pytest.approx(0.01)
