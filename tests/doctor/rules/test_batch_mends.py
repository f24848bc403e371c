"""Fixes of what a batch holds, and of how outputs meet targets."""

import pytest
import torch
import torch.nn as nn
from torch.nn import functional

from labkit.doctor.rules import batch_mends, mends, model_mends
from tests.doctor.small import program


def first(loader):
    return next(iter(loader))


def test_targets_take_the_form_of_the_loss_in_both_loaders():
    x = torch.zeros(4, 6)
    sick = [(x, torch.tensor([[0.0], [1.0], [1.0], [0.0]]))]
    one = program(train_loader=sick, val_loader=sick)
    batch_mends.targets_without_column(one)
    batch_mends.whole_targets(one)
    for loader in (one.train_loader, one.val_loader):
        assert first(loader)[1].tolist() == [0, 1, 1, 0] and first(loader)[1].dtype == torch.int64
    batch_mends.real_targets(one)
    assert first(one.copy().train_loader)[1].dtype == torch.float32


def test_a_loss_takes_one_hot_rows_and_columns():
    logits, rows = torch.randn(3, 4), functional.one_hot(torch.tensor([2, 0, 3]), 4)
    loss = batch_mends.classes_of_one_hot(functional.cross_entropy, logits, rows)
    assert loss == functional.cross_entropy(logits, torch.tensor([2, 0, 3]))
    column = torch.tensor([[1.0], [2.0], [4.0]])
    assert batch_mends.in_one_shape(functional.mse_loss, column, torch.tensor([1.0, 2.0, 3.0])) == pytest.approx(1 / 3)


def test_samples_that_are_not_finite_are_left_out_or_filled():
    x = torch.arange(8.0).reshape(4, 2)
    x[1, 0], x[2, 1] = torch.nan, torch.inf
    batches = [(x, torch.tensor([0.0, 1.0, 2.0, torch.nan])), (x[1:2], torch.zeros(1))]
    one, other = program(train_loader=batches, val_loader=None), program(train_loader=batches, val_loader=None)
    batch_mends.finite_samples(one)
    assert [(rows.tolist(), targets.tolist()) for rows, targets in one.train_loader] == [([[0.0, 1.0]], [0.0])]
    batch_mends.filled(other)
    assert first(other.train_loader)[0].tolist() == [[0, 1], [0, 3], [4, 0], [6, 7]]


def test_a_loss_gets_what_its_softmax_or_sigmoid_is_taken_of():
    logits = torch.randn(5, 3)
    targets = torch.tensor([0, 1, 2, 0, 1])
    one = program()
    mends.with_loss(mends.logarithm)(one)
    torch.testing.assert_close(one.loss_fn(logits.softmax(1), targets), functional.cross_entropy(logits, targets))
    one.model = nn.Sigmoid()
    mends.with_outputs(mends.logit)(one)
    torch.testing.assert_close(one.copy().model(logits), logits)
    torch.testing.assert_close(mends.logit(torch.sigmoid(logits)), logits)


@pytest.mark.filterwarnings("ignore:Seems like")
def test_a_schedule_moves_the_optimizer_that_trains():
    one = program()
    other = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.5)
    one.scheduler = torch.optim.lr_scheduler.ExponentialLR(other, gamma=0.1)
    mends.schedule_of_the_optimizer(one)
    one = one.copy()
    one.scheduler.step()
    assert one.optimizer.param_groups[0]["lr"] == pytest.approx(0.05)


def test_a_part_stays_in_evaluation_mode():
    model = nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 2))
    one = program(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    model_mends.kept_in_evaluation_mode(["0"])(one)
    one = one.copy()
    one.model.train()
    one.model(torch.ones(3, 6))
    assert one.model.training and not one.model[0].training and one.model[0].num_batches_tracked == 0
    assert not model[0].training
