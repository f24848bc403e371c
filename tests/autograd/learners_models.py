"""Ten models of the kinds that learners write, each with a loss that can be computed again and again."""

import torch
from torch import nn
from torch.nn import functional as F


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, inputs):
        hidden = inputs + self.first(inputs).tanh()
        return hidden + self.second(hidden).relu()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.readout = nn.RNNCell(3, 5), nn.Linear(5, 2)

    def forward(self, sequence):
        state = sequence.new_zeros(sequence.shape[1], 5)
        for inputs in sequence:
            state = self.cell(inputs, state)
        return self.readout(state)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.readout = nn.Linear(4, 7, bias=False)
        self.readout.weight = self.embedding.weight

    def forward(self, words):
        return self.readout(self.embedding(words).mean(dim=1))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, inputs):
        ctx.save_for_backward(inputs)
        return inputs**2

    @staticmethod
    def backward(ctx, upstream):
        (inputs,) = ctx.saved_tensors
        return 2 * inputs * upstream


class WithFunction(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, inputs):
        return Square.apply(self.layer(inputs))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.readout = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 2)

    def forward(self, inputs):
        return self.readout(self.attention(inputs, inputs, inputs)[0].mean(dim=1))


def small_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(),
        nn.Linear(4 * 4 * 4, 3),
    )  # fmt: skip


def partly_frozen():
    model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))
    model[0].requires_grad_(False)
    return model


def classify(model, *shape, classes=3):
    inputs = torch.randn(4, *shape)
    targets = torch.arange(4) % classes
    return model, lambda: F.cross_entropy(model(inputs), targets)


def recurrent():
    model, sequence = Recurrent(), torch.randn(6, 4, 3)
    return model, lambda: F.cross_entropy(model(sequence), torch.tensor([0, 1, 1, 0]))


def tied():
    model, words = Tied(), torch.randint(0, 7, (4, 5))
    return model, lambda: F.cross_entropy(model(words), words[:, 0])


def embedded():
    model, words = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 3)), torch.randint(0, 9, (4, 3))
    return model, lambda: F.cross_entropy(model(words), torch.tensor([0, 1, 2, 0]))


def two_losses():
    model, inputs = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), torch.randn(5, 4)
    return model, lambda: F.mse_loss(model(inputs), inputs) + 0.1 * sum(p.abs().sum() for p in model.parameters())


MODELS = {
    "mlp": lambda: classify(nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)), 5),
    "cnn with batch norm and dropout": lambda: classify(small_cnn(), 1, 8, 8),
    "residual": lambda: classify(Residual(), 6),
    "recurrent": recurrent,
    "weight tying": tied,
    "custom function": lambda: classify(WithFunction(), 4),
    "two losses": two_losses,
    "embedding": embedded,
    "attention": lambda: classify(Attention(), 5, 8, classes=2),
    "frozen part": lambda: classify(partly_frozen(), 5),
}
