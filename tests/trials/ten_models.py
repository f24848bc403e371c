"""Ten small models of every kind that keeps something, and a way to see whether anything about them has changed."""

import copy
import random

import numpy
import torch
import torch.nn as nn
from torch import Tensor

from labkit import models, randomness
from labkit.data.loading import loader

SAMPLES, CLASSES = 40, 3


class Recurrent(nn.Module):
    """Reads a picture row by row, and counts how often it was called in an attribute that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.head = nn.GRU(8, 6, batch_first=True), nn.Linear(6, CLASSES)
        self.calls, self.seen = 0, []

    def forward(self, pictures: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(len(pictures))
        return self.head(self.rows(pictures[:, 0])[0][:, -1])


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.there, self.back, self.head = nn.Linear(64, 12), nn.Linear(12, 64), nn.Linear(64, CLASSES)
        self.back.weight = nn.Parameter(self.there.weight.detach().T.clone())
        self.again = nn.Linear(12, 64)
        self.again.weight = self.back.weight

    def forward(self, pictures: Tensor) -> Tensor:
        hidden = self.there(pictures.flatten(1)).relu()
        return self.head((self.back(hidden) + self.again(hidden)).tanh())


class Embedded(nn.Module):
    """Takes pictures for words: each grey value has a vector of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors, self.head = nn.Embedding(16, 5, max_norm=1.0), nn.Linear(5, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.head(self.vectors((pictures.flatten(1) * 4).long().clamp(0, 15)).mean(dim=1))


class Attentive(nn.Module):
    """Attention between the rows of a picture; it keeps its last weights, which forbids copying it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.norm, self.head, self.last = nn.LayerNorm(8), nn.Linear(8, CLASSES), None

    def forward(self, pictures: Tensor) -> Tensor:
        rows = pictures[:, 0]
        mixed, self.last = self.attention(rows, rows, rows)
        return self.head(self.norm(rows + mixed).mean(dim=1))


class ReplacesBuffer(nn.Module):
    """Normalises with a running mean that every call replaces by another tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(64))
        self.register_buffer("unused", torch.tensor([float("nan"), -0.0]), persistent=False)
        self.normed = nn.BatchNorm1d(64, momentum=None)
        self.head = nn.utils.parametrizations.spectral_norm(nn.Linear(64, CLASSES))

    def forward(self, pictures: Tensor) -> Tensor:
        flat = pictures.flatten(1)
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * flat.mean(dim=0).detach()
        return self.head(self.normed(flat - self.mean))


def _shared() -> nn.Module:
    block = nn.Sequential(nn.Linear(64, 64), nn.ReLU(inplace=True))
    return nn.Sequential(nn.Flatten(), nn.ReLU(inplace=True), block, block, nn.Linear(64, CLASSES))


def _half_frozen() -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(), nn.Linear(144, CLASSES)
    )
    return models.freeze(model, "0", "1")


def _residual() -> nn.Module:
    return nn.Sequential(models.ResidualBlock(1, 4), nn.Flatten(), nn.Linear(256, CLASSES))


MAKERS = {
    "mlp": lambda: models.build("mlp", (1, 8, 8), CLASSES),
    "cnn": lambda: models.build("cnn", (1, 8, 8), CLASSES, dropout=0.2),
    "residual": _residual,
    "recurrent": Recurrent,
    "tied": Tied,
    "embedded": Embedded,
    "attentive": Attentive,
    "half frozen": _half_frozen,
    "replaces buffer": ReplacesBuffer,
    "shared": _shared,
}


def used(name: str) -> tuple[nn.Module, torch.optim.Optimizer, object]:
    """Return a model in the middle of its life, with its optimizer and its loader.

    It has gradients for some parameters and none for others, an optimizer with state, layers in both modes, and a
    loader in the middle of an epoch.
    """
    with randomness.frozen_randomness(3):
        model = MAKERS[name]()
        pictures, labels = torch.randn(SAMPLES, 1, 8, 8), torch.arange(SAMPLES) % CLASSES
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    batches = loader(torch.utils.data.TensorDataset(pictures, labels), 8, shuffle=True)
    iteration = iter(batches)
    for _ in range(2):
        inputs, targets = next(iteration)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    next(p for p in model.parameters() if p.requires_grad).grad = None
    next(module for module in model.modules() if not list(module.children())).eval()
    return model, optimizer, batches


def everything(model: nn.Module, optimizer: torch.optim.Optimizer, batches: object) -> list:
    """Return everything that a trial could leave a trace in: bits, identities, modes, random numbers, position."""
    facts = []
    for name, one in [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]:
        facts.append((name, id(one), one.requires_grad, _bits(one), id(one.grad), _bits(one.grad)))
    for name, module in model.named_modules(remove_duplicate=False):
        attributes = {key: id(value) for key, value in vars(module).items()}
        facts.append((name, module.training, attributes, {key: copy.copy(value) for key, value in _plain(module)}))
    for parameter, state in optimizer.state.items():
        facts.append((id(parameter), {key: (id(value), _bits(value)) for key, value in state.items()}))
    for group in optimizer.param_groups:
        facts.append([*map(id, group["params"]), {key: value for key, value in group.items() if key != "params"}])
    facts += [sorted(vars(optimizer)), batches.state(), len(batches.missing)]
    return [*facts, random.getstate(), [*map(str, numpy.random.get_state())], _bits(torch.get_rng_state())]


def _plain(module: nn.Module) -> list:
    return [(key, value) for key, value in vars(module).items() if isinstance(value, int | float | str | list)]


def _bits(value: object) -> object:
    if not isinstance(value, Tensor):
        return value
    return str(value.dtype), tuple(value.shape), value.detach().reshape(-1).view(torch.uint8).numpy().tobytes()
