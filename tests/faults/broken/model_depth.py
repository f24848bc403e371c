"""Models through which little passes: gradients that die on their way, dropout that leaves nothing."""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim

from tests.faults.program import broken
from tests.faults.tasks_b import digits, loaders, ordered_words, symptoms


def perceptron(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


# vanishing_gradient


@broken("vanishing_gradient", effect="hurts", epochs=6, gap=0.3)
def ten_sigmoid_layers(sound: bool) -> dict:
    model = perceptron(64, *[32] * 10, 10, activation=nn.SiLU if sound else nn.Sigmoid)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=2e-3),
        **loaders(digits(flat=True)),
    }


class Tower(nn.Module):
    """Plain convolutions, one on the other; `skip` adds each one's input to its output."""

    def __init__(self, depth: int, skip: bool):
        super().__init__()
        self.stem = nn.Conv2d(1, 6, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(6, 6, 3, padding=1) for _ in range(depth))
        self.head = nn.Linear(6 * 16, 10)
        self.skip = skip

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.stem(x), 2)
        for block in self.blocks:
            change = torch.tanh(block(x))
            x = x + change if self.skip else change
        return self.head(x.flatten(1))


@broken("vanishing_gradient", effect="hurts", epochs=3, gap=0.2)
def twelve_plain_convolutions(sound: bool) -> dict:
    model = Tower(12, skip=sound)
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(digits())}


class DeepReadings(nn.Module):
    def __init__(self, depth: int, norm: bool):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16 if i else 12, 16) for i in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(16) if norm else nn.Identity() for _ in range(depth))
        self.out = nn.Linear(16, 5)
        for layer in self.layers:
            nn.init.trunc_normal_(layer.weight, std=0.02)  # as language models do, which normalise every layer
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = F.gelu(norm(layer(x)))
        return self.out(x)


@broken("vanishing_gradient", effect="hurts", epochs=5, gap=0.1, also=("bad_init",))
def small_weights_without_norm(sound: bool) -> dict:
    model = DeepReadings(5, norm=sound)

    def evaluate(model: nn.Module, loader) -> float:
        model.eval()
        with torch.inference_mode():
            outputs, targets = zip(*((model(x), y) for x, y in loader), strict=True)
        return ((torch.cat(outputs) > 0).float() == torch.cat(targets)).float().mean().item()

    return {
        "model": model,
        "loss_fn": F.binary_cross_entropy_with_logits,
        "optimizer": optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        "evaluate": evaluate,
        **loaders(symptoms()),
    }


# dropout_too_high


@broken("dropout_too_high", effect="hurts", epochs=4, gap=0.1)
def share_to_keep_given_as_share_to_drop(sound: bool) -> dict:
    keep = 0.95
    drop = 1 - keep if sound else keep
    model = nn.Sequential(
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Dropout(drop),
        nn.Linear(64, 32),
        nn.ReLU(),
        nn.Dropout(drop),
        nn.Linear(32, 10),
    )
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=2e-3),
        **loaders(digits(flat=True)),
    }


class OrderReader(nn.Module):
    """Reads sentences; in training whole words are left out at random."""

    def __init__(self, leave_out: float):
        super().__init__()
        self.words = nn.Embedding(20, 16, padding_idx=0)
        self.rnn = nn.LSTM(16, 16, batch_first=True)
        self.first = nn.Linear(16, 2)
        self.leave_out = leave_out

    def forward(self, words: Tensor) -> Tensor:
        if self.training:
            words = words.masked_fill(torch.rand(words.shape) < self.leave_out, 0)
        states, _ = self.rnn(self.words(words))
        return self.first(states.mean(1))


@broken("dropout_too_high", effect="hurts", epochs=5, gap=0.15)
def nearly_every_word_left_out(sound: bool) -> dict:
    model = OrderReader(leave_out=0.05 if sound else 0.95)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=1e-2),
        **loaders(ordered_words()),
    }


class DroppedMaps(nn.Module):
    def __init__(self, rate: float):
        super().__init__()
        self.one = nn.Conv2d(1, 16, 3, padding=1)
        self.two = nn.Conv2d(16, 24, 3, padding=1)
        self.out = nn.Linear(24 * 4, 10)
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.one(x)), 2)
        x = F.dropout2d(x, self.rate, self.training)
        x = F.max_pool2d(F.relu(self.two(x)), 2)
        return self.out(F.dropout(x.flatten(1), self.rate, self.training))


@broken("dropout_too_high", effect="hurts", epochs=4, gap=0.1)
def maps_dropped_nine_times_in_ten(sound: bool) -> dict:
    model = DroppedMaps(0.1 if sound else 0.92)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(digits())}
