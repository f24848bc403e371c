"""Small networks that the programs on updates and the healthy programs share."""

from itertools import pairwise

import torch
from torch import Tensor, nn


def dense(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def small_cnn(channels: int = 1, classes: int = 10, width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


class Recurrent(nn.Module):
    """An LSTM or a GRU over a series, and a linear layer on its last state."""

    def __init__(self, kind: type[nn.RNNBase] = nn.GRU, inputs: int = 3, width: int = 24, classes: int = 3):
        super().__init__()
        self.rnn = kind(inputs, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.rnn(x)
        return self.head(states[:, -1])


class Reader(nn.Module):
    """Words to vectors, their mean, and a decision: padding (0) does not count."""

    def __init__(self, words: int = 30, width: int = 16, classes: int = 3):
        super().__init__()
        self.words = nn.EmbeddingBag(words, width, mode="mean", padding_idx=0)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.words(x))


class Attention(nn.Module):
    """A transformer encoder of one layer over words, padding masked, and the mean of what is no padding."""

    def __init__(self, words: int = 30, width: int = 16, classes: int = 3, longest: int = 12):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.places = nn.Parameter(0.02 * torch.randn(longest, width))
        self.encoder = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        padding = x == 0
        states = self.encoder(self.words(x) + self.places[: x.shape[1]], src_key_padding_mask=padding)
        kept = (~padding)[..., None].float()
        return self.head((states * kept).sum(1) / kept.sum(1))


class Segmenter(nn.Module):
    """Convolutions down and up again, with one shortcut: one logit a pixel."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        self.middle = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU())
        self.decoder = nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(2 * width, width, 3, padding=1), nn.ReLU())
        self.output = nn.Conv2d(2 * width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        high = self.encoder(x)
        return self.output(torch.cat([high, self.decoder(self.middle(high))], 1))


def minus_loss(loss_fn):
    """Return an evaluation: the negative mean of this loss in evaluation mode."""

    @torch.no_grad()
    def evaluate(model: nn.Module, loader) -> float:
        model.eval()
        losses = [loss_fn(model(x), y) for x, y in loader]
        return -float(sum(losses) / len(losses))

    return evaluate


@torch.no_grad()
def overlap(model: nn.Module, loader) -> float:
    """Return the intersection over union of the predicted and the true masks."""
    model.eval()
    both = either = 0.0
    for x, y in loader:
        found, true = model(x) > 0, y > 0.5
        both += (found & true).sum().item()
        either += (found | true).sum().item()
    return both / max(either, 1.0)


@torch.no_grad()
def explained(model: nn.Module, loader) -> float:
    """Return the share of the variance that a regression explains."""
    model.eval()
    pairs = [(model(x), y) for x, y in loader]
    outputs, targets = (torch.cat(each) for each in zip(*pairs, strict=True))
    return 1 - float(((outputs - targets) ** 2).mean() / targets.var(unbiased=False))
