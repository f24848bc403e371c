"""Models that start badly: initial weights that prevent learning, units that never fire, gradients that die out."""

import copy
import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim

from tests.faults.program import broken
from tests.faults.tasks_b import colours, digits, loaders, ordered_words, rings, symptoms


def perceptron(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


# bad_init


@broken("bad_init", effect="hurts", epochs=4, gap=0.3)
def all_weights_zero(sound: bool) -> dict:
    model = perceptron(64, 48, 48, 10)

    def initialise(layer: nn.Module) -> None:
        if isinstance(layer, nn.Linear):
            if sound:
                nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
            else:
                nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    model.apply(initialise)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        **loaders(digits(flat=True)),
    }


class RowReader(nn.Module):
    """Reads a picture row by row."""

    def __init__(self, bound: float, spread: bool):
        super().__init__()
        self.rnn = nn.GRU(8, 32, batch_first=True)
        self.head = nn.Linear(32, 10)
        for parameter in self.parameters():
            if spread:
                parameter.data.uniform_(-bound, bound)
            else:
                parameter.data.fill_(bound)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.rnn(x.squeeze(1))
        return self.head(states.mean(1))


@broken("bad_init", effect="hurts", epochs=4, gap=0.15)
def recurrent_weights_all_equal(sound: bool) -> dict:
    model = RowReader(bound=1 / math.sqrt(32), spread=sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=1e-2),
        **loaders(digits()),
    }


class Experts(nn.Module):
    """Several small experts; their opinions are added."""

    def __init__(self, count: int, same: bool):
        super().__init__()
        expert = self.expert()
        self.experts = nn.ModuleList(copy.deepcopy(expert) if same else self.expert() for _ in range(count))

    def expert(self) -> nn.Sequential:
        return nn.Sequential(nn.Linear(8, 2), nn.Tanh(), nn.Linear(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([expert(x) for expert in self.experts]).sum(0)


@broken("bad_init", effect="hurts", epochs=10, gap=0.15)
def experts_are_copies_of_one(sound: bool) -> dict:
    model = Experts(12, same=not sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.AdamW(model.parameters(), lr=1e-2),
        **loaders(rings()),
    }


class StripeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 12, 3, padding=1)
        self.second = nn.Conv2d(12, 24, 3, stride=2, padding=1)
        self.third = nn.Conv2d(24, 24, 3, stride=2, padding=1)
        self.output = nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 3, 1, 2)
        for layer in (self.first, self.second, self.third):
            x = F.relu(layer(x))
        return self.output(x.mean((2, 3)))


@broken("bad_init", effect="hurts", epochs=5, gap=0.15)
def normal_weights_without_fan_in(sound: bool) -> dict:
    model = StripeNet()
    for name, parameter in model.named_parameters():
        if name.endswith("weight"):
            nn.init.normal_(parameter, 0, math.sqrt(2 / parameter[0].numel()) if sound else 1)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    return {"model": model, "loss_fn": F.cross_entropy, "optimizer": optimizer, **loaders(colours())}


# dead_units


@broken("dead_units", effect="hurts", epochs=5, gap=0.3, also=("bad_init",))
def negative_weights_on_positive_pixels(sound: bool) -> dict:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    with torch.no_grad():
        model[1].weight.uniform_(-0.2, 0.2 if sound else 0)
        model[1].bias.fill_(-0.01)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(label_smoothing=0.05),
        "optimizer": optim.Adam(model.parameters(), lr=3e-3),
        **loaders(digits()),
    }


class SparseCode(nn.Module):
    """Codes with few active entries: whatever does not reach the threshold is zero."""

    def __init__(self, threshold: float):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(12, 40), nn.Threshold(threshold, 0.0))
        self.decode = nn.Linear(40, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


@broken("dead_units", effect="hurts", epochs=6, gap=0.1)
def threshold_that_no_unit_reaches(sound: bool) -> dict:
    model = SparseCode(0.1 if sound else 10.0)

    def evaluate(model: nn.Module, loader) -> float:
        model.eval()
        with torch.no_grad():
            right = torch.cat([(model(x) > 0) == (y > 0.5) for x, y in loader])
        return right.float().mean().item()

    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "evaluate": evaluate,
        **loaders(symptoms()),
    }


class WordPairs(nn.Module):
    def __init__(self, again: bool):
        super().__init__()
        self.words = nn.Embedding(20, 16)
        self.pairs = nn.Conv1d(16, 32, 5)
        self.decide = nn.Linear(32, 2)
        self.again = again

    def forward(self, words: Tensor) -> Tensor:
        features = self.pairs(self.words(words).transpose(1, 2))
        if self.again:  # "one more activation cannot hurt"
            features = F.logsigmoid(features)
        return self.decide(F.relu(features).amax(2))


@broken("dead_units", effect="hurts", epochs=10, gap=0.15)
def rectifier_after_log_sigmoid(sound: bool) -> dict:
    model = WordPairs(again=not sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-4),
        **loaders(ordered_words()),
    }
