"""Losses of the wrong shape, and losses of the wrong size or sign."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from tests.faults.program import broken
from tests.faults.tasks_b import cells, colours, digits, generator, loaders, ordered_words, rings, split, yields


def adam(model: nn.Module, lr: float = 5e-3) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=lr)


def negative_error(model: nn.Module, loader) -> float:
    """Return minus the mean absolute error."""
    model.eval()
    with torch.no_grad():
        return -torch.cat([(model(x).flatten() - y.flatten()).abs() for x, y in loader]).mean().item()


# shape_broadcast


@broken("shape_broadcast", effect="hurts", epochs=5, gap=0.2)
def column_against_row_in_squared_error(sound: bool) -> dict:
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    if sound:
        model.append(nn.Flatten(0))
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": adam(model, 1e-2),
        "evaluate": negative_error,
        **loaders(yields()),
    }


class LogCosh(nn.Module):
    """A loss that is square near zero and straight far from it."""

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        error = output - target
        return (error + F.softplus(-2 * error)).mean() - 0.6931


@broken("shape_broadcast", effect="hurts", epochs=5, gap=0.2)
def squeezed_output_against_column(sound: bool) -> dict:
    class Yield(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(6, 32)
            self.out = nn.Linear(32, 1)

        def forward(self, x: Tensor) -> Tensor:
            x = self.out(torch.tanh(self.hidden(x)))
            return x if sound else x.squeeze(-1)

    model = Yield()
    return {
        "model": model,
        "loss_fn": LogCosh(),
        "optimizer": adam(model, 1e-2),
        "evaluate": negative_error,
        **loaders(yields(column=True)),
    }


class Pairs(nn.Module):
    """Distance (N,) of two pictures (N, 2, 1, 8, 8) in a learned space."""

    def __init__(self, keepdim: bool):
        super().__init__()
        self.embed = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
        self.keepdim = keepdim

    def forward(self, pairs: Tensor) -> Tensor:
        first, second = (self.embed(picture) for picture in pairs.unbind(1))
        return F.pairwise_distance(first, second, keepdim=self.keepdim)


@broken("shape_broadcast", effect="hurts", epochs=5, gap=0.1)
def distances_in_a_column_of_a_contrastive_loss(sound: bool) -> dict:
    images, labels = digits()[0].tensors
    order = labels.argsort(stable=True)
    partner = torch.where(torch.arange(1400) % 2 == 0, order.roll(1), torch.randperm(1400, generator=generator(31)))
    same = (labels[order] == labels[partner]).float()
    model = Pairs(keepdim=not sound)

    def loss_fn(distance: Tensor, same: Tensor) -> Tensor:
        near = same * distance.square()
        far = (1 - same) * F.relu(2 - distance).square()
        return (near + far).mean()

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            right = torch.cat([(model(x).flatten() < 1) == (y > 0.5) for x, y in loader])
        return right.float().mean().item()

    mixed = torch.randperm(1400, generator=generator(32))
    pair = split(1100, torch.stack([images[order], images[partner]], 1)[mixed], same[mixed])
    return {"model": model, "loss_fn": loss_fn, "optimizer": adam(model), "evaluate": evaluate, **loaders(pair)}


class ChangeFromLastYear(nn.Module):
    """The first measurement is last year's yield; the network predicts what is to be added."""

    def __init__(self, squeeze: bool):
        super().__init__()
        self.change = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 1))
        self.squeeze = squeeze

    def forward(self, x: Tensor) -> Tensor:
        change = self.change(x)
        return x[:, 0] + (change.squeeze(1) if self.squeeze else change)


@broken("shape_broadcast", effect="hurts", epochs=5, gap=0.2)
def row_added_to_a_column_in_the_model(sound: bool) -> dict:
    model = ChangeFromLastYear(squeeze=sound)

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return -sum((model(x) - y).abs().mean().item() for x, y in loader) / len(loader)

    return {
        "model": model,
        "loss_fn": F.smooth_l1_loss,
        "optimizer": adam(model, 1e-2),
        "evaluate": evaluate,
        **loaders(yields()),
    }


@broken("shape_broadcast", effect="hurts", epochs=6, gap=0.1)
def weights_of_samples_in_a_column(sound: bool) -> dict:
    """Most labels were never looked at; a second column of the targets says how far each one is to be trusted."""
    x, labels = rings()[0].tensors
    unseen = torch.rand(1200, generator=generator(33)) < 0.6
    targets = torch.stack([labels.masked_fill(unseen, 0), torch.where(unseen, 0.01, 1.0)], 1)
    validation_x, validation_labels = rings()[1].tensors
    validation = TensorDataset(validation_x, torch.stack([validation_labels, torch.ones(300)], 1))
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))

    def loss_fn(logits: Tensor, targets: Tensor) -> Tensor:
        losses = F.cross_entropy(logits, targets[:, 0].long(), reduction="none")
        return (losses * (targets[:, 1] if sound else targets[:, 1:])).mean()

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return torch.cat([model(x).argmax(1) == y[:, 0] for x, y in loader]).float().mean().item()

    return {
        "model": model,
        "loss_fn": loss_fn,
        "optimizer": adam(model, 1e-2),
        "evaluate": evaluate,
        **loaders((TensorDataset(x, targets), validation)),
    }


# loss_scaling


@broken("loss_scaling", effect="hurts", epochs=4, gap=0.2, mechanical=True, also=("lr_too_low",))
def mean_divided_by_the_batch_size_again(sound: bool) -> dict:
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        optimizer.zero_grad()
        loss = loss_fn(model(images), labels)
        if not sound:
            loss = loss / len(labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
        "train_step": train_step,
        **loaders(digits(), batch_size=64),
    }


@broken("loss_scaling", effect="hurts", epochs=4, gap=0.2, mechanical=True, also=("lr_too_high",))
def sum_with_the_learning_rate_of_a_mean(sound: bool) -> dict:
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    return {
        "model": model,
        "loss_fn": nn.MSELoss(reduction="mean" if sound else "sum"),
        "optimizer": optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
        "evaluate": negative_error,
        **loaders(yields(column=True)),
    }


@broken("loss_scaling", effect="hurts", epochs=4, gap=0.3, mechanical=True)
def likelihood_without_minus(sound: bool) -> dict:
    model = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(), nn.Linear(80, 24), nn.ReLU(), nn.Linear(24, 2))

    def loss_fn(logits: Tensor, labels: Tensor) -> Tensor:
        likelihood = F.log_softmax(logits, dim=1)[torch.arange(len(labels)), labels].mean()
        return -likelihood if sound else likelihood

    return {"model": model, "loss_fn": loss_fn, "optimizer": adam(model), **loaders(ordered_words())}


@broken("loss_scaling", effect="hurts", epochs=6, gap=0.3, mechanical=True)
def overlap_minimised_instead_of_its_complement(sound: bool) -> dict:
    model = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 1, 5, padding=2), nn.Sigmoid())

    class Dice(nn.Module):
        def forward(self, masks: Tensor, truth: Tensor) -> Tensor:
            masks, truth = masks.flatten(1), truth.flatten(1)
            dice = (2 * (masks * truth).sum(1) + 1) / (masks.sum(1) + truth.sum(1) + 1)
            return (1 - dice if sound else dice).mean()

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            pairs = [(model(x) > 0.5, y > 0.5) for x, y in loader]
        return sum((a & b).sum().item() for a, b in pairs) / sum((a | b).sum().item() for a, b in pairs)

    return {
        "model": model,
        "loss_fn": Dice(),
        "optimizer": adam(model, 1e-2),
        "evaluate": evaluate,
        **loaders(cells()),
    }


class SparseStripes(nn.Module):
    """Returns logits (N, 4) and features (N, 12), of which few should be active."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 12, 3, stride=2), nn.ReLU(), nn.Conv2d(12, 12, 3), nn.ReLU())
        self.out = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(x.permute(0, 3, 1, 2)).amax((2, 3))
        return self.out(features), features


@broken("loss_scaling", effect="hurts", epochs=6, gap=0.3, also=("dead_units",))
def penalty_heavier_than_the_task(sound: bool) -> dict:
    model = SparseStripes()
    weight = 0.01 if sound else 100.0

    def loss_fn(outputs: tuple[Tensor, Tensor], labels: Tensor) -> Tensor:
        logits, features = outputs
        return F.cross_entropy(logits, labels) + weight * features.abs().mean()

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return torch.cat([model(x)[0].argmax(1) == y for x, y in loader]).float().mean().item()

    return {
        "model": model,
        "loss_fn": loss_fn,
        "optimizer": adam(model),
        "evaluate": evaluate,
        **loaders(colours()),
    }
