"""Formulas that are right on paper and give NaN or infinity on a machine."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset

from tests.faults.program import broken
from tests.faults.tasks_b import digits, loaders, rings, topics, yields


def adam(model: nn.Module, lr: float = 5e-3) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=lr)


def negative_error(model: nn.Module, loader) -> float:
    """Return minus the mean absolute error."""
    model.eval()
    with torch.no_grad():
        return -torch.cat([(model(x).flatten() - y.flatten()).abs() for x, y in loader]).mean().item()


# numeric_instability


class ByAngle(nn.Module):
    """Classes are directions; logits are cosines in units of a small temperature."""

    def __init__(self, temperature: float = 0.008):
        super().__init__()
        self.embed = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16))
        self.directions = nn.Parameter(torch.randn(10, 16))
        self.temperature = temperature

    def forward(self, x: Tensor) -> Tensor:
        cosines = F.linear(F.normalize(self.embed(x)), F.normalize(self.directions))
        return cosines / self.temperature


@broken("numeric_instability", effect="hurts", epochs=4, gap=0.3)
def logarithm_of_softmax(sound: bool) -> dict:
    model = ByAngle()

    def loss_fn(logits: Tensor, labels: Tensor) -> Tensor:
        wanted = F.one_hot(labels, 10).float()
        logs = F.log_softmax(logits, dim=1) if sound else torch.log(F.softmax(logits, dim=1))
        return -(wanted * logs).sum(1).mean()

    return {"model": model, "loss_fn": loss_fn, "optimizer": adam(model, 2e-3), **loaders(digits())}


class EdgeStrength(nn.Module):
    """Learned slopes in two directions and their length, as in an edge detector."""

    def __init__(self, inside: float):
        super().__init__()
        self.across = nn.Conv2d(1, 8, 3, bias=False)
        self.down = nn.Conv2d(1, 8, 3, bias=False)
        self.out = nn.Linear(8 * 36, 10)
        self.inside = inside

    def forward(self, x: Tensor) -> Tensor:
        edges = torch.sqrt(self.across(x).square() + self.down(x).square() + self.inside)
        return self.out(edges.flatten(1))


@broken("numeric_instability", effect="hurts", epochs=3, gap=0.3)
def root_at_zero_of_blank_corners(sound: bool) -> dict:
    model = EdgeStrength(inside=1e-8 if sound else 0.0)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model), **loaders(digits())}


class MeanOfWords(nn.Module):
    def __init__(self, at_least: float):
        super().__init__()
        self.words = nn.Embedding(30, 12, padding_idx=0)
        self.out = nn.Linear(12, 5)
        self.at_least = at_least

    def forward(self, words: Tensor) -> Tensor:
        count = (words != 0).sum(1, keepdim=True).clamp(min=self.at_least)
        return self.out(self.words(words).sum(1) / count)


@broken("numeric_instability", effect="hurts", epochs=5, gap=0.3)
def mean_of_an_empty_sentence(sound: bool) -> dict:
    model = MeanOfWords(at_least=1 if sound else 0)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model, 2e-2),
        **loaders(topics(empty=0.01)),
    }


class MaskedAttention(nn.Module):
    """Self-attention over the words; padding is masked, and a sentence may be padding alone."""

    def __init__(self, masked: float):
        super().__init__()
        self.words = nn.Embedding(30, 12)
        self.query, self.key, self.value = (nn.Linear(12, 12) for _ in range(3))
        self.out = nn.Linear(12, 5)
        self.masked = masked

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 12**0.5
        weights = scores.masked_fill((words == 0)[:, None], self.masked).softmax(2)
        return self.out((weights @ self.value(x)).mean(1))


@broken("numeric_instability", effect="hurts", epochs=4, gap=0.3)
def softmax_over_nothing_but_minus_infinity(sound: bool) -> dict:
    model = MaskedAttention(masked=-1e4 if sound else -torch.inf)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    return {"model": model, "loss_fn": F.cross_entropy, "optimizer": optimizer, **loaders(topics(empty=0.01))}


class Positive(nn.Module):
    """Predicts amounts, which are never negative."""

    def __init__(self, own: bool):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 1))
        self.own = own

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x).squeeze(1)
        return torch.log(1 + torch.exp(x)) if self.own else F.softplus(x)


@broken("numeric_instability", effect="hurts", epochs=6, gap=5)
def softplus_written_by_hand(sound: bool) -> dict:
    model = Positive(own=not sound)
    return {
        "model": model,
        "loss_fn": nn.L1Loss(),
        "optimizer": adam(model, 3e-2),
        "evaluate": negative_error,
        **loaders(yields(spread=15.0, offset=90.0)),
    }


@broken("numeric_instability", effect="hurts", epochs=3, gap=0.2, also=("batch_too_small",))
def spread_of_a_single_sample(sound: bool) -> dict:
    """The features of each batch are standardised; the last batch has one sample."""

    class Standardised(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
            self.out = nn.Linear(32, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = self.features(x)
            return self.out((x - x.mean(0)) / (x.std(0, unbiased=not sound) + 1e-3))

    model = Standardised()
    train, validation = rings()
    train = TensorDataset(*train[:1121])
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model, 1e-2),
        "train_loader": DataLoader(train, batch_size=32, shuffle=True),
        "val_loader": DataLoader(validation, batch_size=100),
    }
