"""Traps that only warn: the program goes on, and computes something else than was meant."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, StepLR

from tests.doctor.explain.provoked.program import provokes


@provokes("loss-broadcast", names=["prices", "estimates"], fix=("squeeze(1)", "unsqueeze(1)"))
def a_column_against_a_row():
    estimates = nn.Linear(3, 1)(torch.rand(8, 3))
    prices = torch.rand(8)
    nn.MSELoss()(estimates, prices)


@provokes("loss-broadcast", names=["target", "output"], fix=("squeeze(1)", "unsqueeze(1)"))
def an_absolute_error_in_a_helper():
    def loss_of(output, target):
        return F.l1_loss(output, target)

    loss_of(torch.rand(5, 1), torch.rand(5))


@provokes("loss-broadcast", names=["ages"], fix=("squeeze(1)", "unsqueeze(1)"))
def a_smooth_error_in_a_class():
    class Objective:
        def __init__(self):
            self.criterion = nn.SmoothL1Loss()

        def __call__(self, guess, ages):
            return self.criterion(guess, ages)

    Objective()(torch.rand(4), torch.rand(4, 1))


@provokes("loss-broadcast", names=["truth"], fix=("squeeze(1)", "unsqueeze(1)"))
def a_huber_loss_in_a_lambda():
    criterion = lambda guess, truth: F.huber_loss(guess, truth)  # noqa: E731
    criterion(torch.rand(6, 1), torch.rand(6))


def _optimizer():
    return torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)


@provokes("scheduler-before-optimizer", names=["scheduler"], fix="optimizer.step()")
def a_scheduler_that_goes_first():
    optimizer = _optimizer()
    scheduler = StepLR(optimizer, 3)
    scheduler.step()
    optimizer.step()


@provokes("scheduler-before-optimizer", names=["schedule"], fix=".step()")
def a_schedule_at_the_head_of_the_loop():
    descent = _optimizer()
    schedule = CosineAnnealingLR(descent, 10)
    for _ in range(3):
        schedule.step()
        descent.step()


@provokes("scheduler-before-optimizer", names=["self.warmup|warmup"], fix=".step()")
def a_warmup_in_a_trainer():
    class Trainer:
        def __init__(self):
            self.optimizer = _optimizer()
            self.warmup = LambdaLR(self.optimizer, lambda step: min(1, step / 5))

        def begin(self):
            self.warmup.step()

    Trainer().begin()


@provokes("softmax-dimension", names=["scores"], fix="dim=1")
def a_softmax_without_its_dimension():
    scores = torch.rand(4, 3)
    return F.softmax(scores)


@provokes("softmax-dimension", names=["logits"], fix="dim=")
def a_softmax_layer_without_its_dimension():
    classify = nn.Sequential(nn.Linear(3, 2), nn.Softmax())
    logits = torch.rand(5, 3)
    classify(logits)


@provokes("softmax-dimension", names=["x"], fix="dim=")
def a_log_softmax_at_the_end_of_a_model():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.out = nn.Linear(4, 4), nn.LogSoftmax()

        def forward(self, x):
            x = self.layer(x)
            return self.out(x)

    Net()(torch.rand(2, 4))


@provokes("softmax-dimension", names=["weights"], fix=("dim=-1", "dim=2", "dim="))
def attention_of_three_dimensions():
    mix = lambda weights, values: F.softmax(weights) @ values  # noqa: E731
    mix(torch.rand(2, 3, 3), torch.rand(2, 3, 4))


@provokes("rnn-dropout", names=["nn.LSTM|LSTM"], fix=("num_layers=2", "nn.Dropout", "num_layers"))
def dropout_in_one_layer():
    nn.LSTM(4, 8, dropout=0.5)


@provokes("rnn-dropout", names=["nn.GRU|GRU"], fix=("num_layers=2", "nn.Dropout", "num_layers"))
def dropout_in_a_reader():
    class Reader(nn.Module):
        def __init__(self, rate):
            super().__init__()
            self.gru = nn.GRU(input_size=4, hidden_size=8, batch_first=True, dropout=rate)

    Reader(0.2)


@provokes("rnn-dropout", names=["nn.RNN|RNN"], fix=("num_layers=2", "nn.Dropout", "num_layers"))
def dropout_in_a_builder():
    build = lambda kind, rate: getattr(nn, kind)(3, 3, dropout=rate)  # noqa: E731
    build("RNN", 0.1)


@provokes("grad-of-non-leaf", names=["hidden"], fix="retain_grad()")
def a_gradient_in_the_middle():
    hidden = nn.Linear(3, 2)(torch.rand(1, 3))
    hidden.sum().backward()
    print(hidden.grad)


@provokes("grad-of-non-leaf", names=["weight"], fix=("retain_grad()", "leaf", "requires_grad_()"))
def a_weight_that_was_scaled():
    weight = torch.rand(2, requires_grad=True) * 0.1
    (weight**2).sum().backward()
    return weight.grad


@provokes("grad-of-non-leaf", names=["self.image|image"], fix=("retain_grad()", "leaf", "requires_grad_()"))
def a_picture_that_was_normalised():
    class Saliency:
        def of(self, picture):
            self.image = picture.requires_grad_() / 255
            self.image.mean().backward()
            return self.image.grad.abs()

    Saliency().of(torch.rand(1, 4, 4))
