"""Objectives that ask for something else: losses, last activations and scales that do not fit the task."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim

from tests.faults.program import broken
from tests.faults.tasks_b import cells, digits, loaders, rings, symptoms, waves, yields


def adam(model: nn.Module, lr: float = 5e-3) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=lr)


def negative_error(model: nn.Module, loader) -> float:
    """Return minus the mean absolute error."""
    model.eval()
    with torch.no_grad():
        errors = [(model(x).reshape(-1) - y.reshape(-1)).abs() for x, y in loader]
    return -torch.cat(errors).mean().item()


def right_labels(model: nn.Module, loader) -> float:
    """Return the share of right answers of a model with several yes-or-no outputs."""
    model.eval()
    with torch.no_grad():
        right = [(torch.sigmoid(model(x)) > 0.5) == (y > 0.5) for x, y in loader]
    return torch.cat(right).float().mean().item()


def overlap(model: nn.Module, loader) -> float:
    """Return intersection over union of predicted and true masks."""
    model.eval()
    common = union = 0
    with torch.no_grad():
        for x, y in loader:
            guess, truth = torch.sigmoid(model(x)) > 0.5, y > 0.5
            common += (guess & truth).sum().item()
            union += (guess | truth).sum().item()
    return common / union


class DigitNet(nn.Module):
    def __init__(self, outputs: int = 10):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()
        )
        self.classifier = nn.Linear(16 * 16, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.convolutions(x).flatten(1))


def cell_finder(*end: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 1, 5, padding=2), *end)


# wrong_loss


@broken("wrong_loss", effect="hurts", epochs=4, gap=0.15)
def squared_error_of_class_numbers(sound: bool) -> dict:
    """The model gives one number, the class number, as if a nine were more than a one."""
    model = DigitNet(10 if sound else 1)

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        optimizer.zero_grad()
        output = model(images)
        loss = loss_fn(output, labels) if sound else loss_fn(output.squeeze(1), labels.float())
        loss.backward()
        optimizer.step()
        return loss.item()

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            answers = [model(x).argmax(1) if sound else model(x).squeeze(1).round() for x, _ in loader]
        labels = torch.cat([y for _, y in loader])
        return (torch.cat(answers) == labels).float().mean().item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss() if sound else nn.MSELoss(),
        "optimizer": adam(model),
        "train_step": train_step,
        "evaluate": evaluate,
        **loaders(digits()),
    }


@broken("wrong_loss", effect="hurts", epochs=4, gap=0.2, also=("label_encoding",))
def binary_loss_on_class_numbers(sound: bool) -> dict:
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    loss = nn.BCEWithLogitsLoss()

    def loss_fn(logits: Tensor, labels: Tensor) -> Tensor:
        if sound:
            return loss(logits, F.one_hot(labels, 3).float())
        return loss(logits, labels.unsqueeze(1).expand_as(logits).float())

    return {"model": model, "loss_fn": loss_fn, "optimizer": adam(model, 1e-2), **loaders(rings())}


@broken("wrong_loss", effect="hurts", epochs=6, gap=0.02)
def cross_entropy_where_several_labels_hold(sound: bool) -> dict:
    model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 5))
    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss() if sound else nn.CrossEntropyLoss(),
        "optimizer": adam(model),
        "evaluate": right_labels,
        **loaders(symptoms()),
    }


class NegativeLogLikelihood:
    def __init__(self, normalise: bool):
        self.normalise = normalise
        self.loss = nn.NLLLoss()

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return self.loss(F.log_softmax(outputs, dim=1) if self.normalise else outputs, labels)


@broken("wrong_loss", effect="hurts", epochs=4, gap=0.1, also=("output_activation_mismatch",))
def likelihood_of_raw_outputs(sound: bool) -> dict:
    model = DigitNet()
    return {
        "model": model,
        "loss_fn": NegativeLogLikelihood(normalise=sound),
        "optimizer": optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
        **loaders(digits()),
    }


@broken("wrong_loss", effect="hurts", epochs=6, gap=0.3, also=("class_imbalance",))
def absolute_error_of_rare_pixels(sound: bool) -> dict:
    """The median of a mask in which few pixels are set is zero, and the absolute error wants the median."""
    model = cell_finder()

    def loss_fn(outputs: Tensor, masks: Tensor) -> Tensor:
        if sound:
            return F.binary_cross_entropy_with_logits(outputs, masks)
        return F.l1_loss(torch.sigmoid(outputs), masks)

    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return {"model": model, "loss_fn": loss_fn, "optimizer": optimizer, "evaluate": overlap, **loaders(cells())}


# output_activation_mismatch


@broken("output_activation_mismatch", effect="hurts", epochs=4, gap=0.05)
def softmax_layer_before_cross_entropy(sound: bool) -> dict:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    if not sound:
        model.append(nn.Softmax(dim=-1))
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(digits())}


class WaveNet(nn.Module):
    """Convolutions over time; `forward` returns what the loss takes."""

    def __init__(self, squash: bool):
        super().__init__()
        self.filters = nn.Conv1d(2, 16, 7)
        self.output = nn.Linear(16, 4)
        self.squash = squash

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.filters(x.transpose(1, 2))).mean(2)
        x = self.output(x)
        return torch.sigmoid(x) if self.squash else x


@broken("output_activation_mismatch", effect="hurts", epochs=5, gap=0.1)
def sigmoid_before_cross_entropy(sound: bool) -> dict:
    model = WaveNet(squash=not sound)

    def evaluate(model: nn.Module, loader) -> float:
        """Return the mean probability of the right class."""
        model.eval()
        with torch.no_grad():
            shares = [model(x).softmax(1).gather(1, y[:, None]) for x, y in loader]
        return torch.cat(shares).mean().item()

    return {
        "model": model,
        "loss_fn": F.cross_entropy,
        "optimizer": adam(model),
        "evaluate": evaluate,
        **loaders(waves()),
    }


@broken("output_activation_mismatch", effect="hurts", epochs=6, gap=0.3)
def sigmoid_before_loss_with_logits(sound: bool) -> dict:
    model = cell_finder() if sound else cell_finder(nn.Sigmoid())
    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": adam(model, 1e-2),
        "evaluate": overlap,
        **loaders(cells()),
    }


class DosePredictor(nn.Module):
    """Every layer is followed by the same activation; the last one only if `everywhere`."""

    def __init__(self, activation: nn.Module, everywhere: bool):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 32), nn.Linear(32, 32), nn.Linear(32, 1)])
        self.activation = activation
        self.everywhere = everywhere

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers, start=1):
            x = layer(x)
            if self.everywhere or number < len(self.layers):
                x = self.activation(x)
        return x.squeeze(1)


@broken("output_activation_mismatch", effect="hurts", epochs=5, gap=0.2)
def rectified_output_for_signed_values(sound: bool) -> dict:
    model = DosePredictor(nn.ReLU(), everywhere=not sound)
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": adam(model),
        "evaluate": negative_error,
        **loaders(yields()),
    }


@broken("output_activation_mismatch", effect="hurts", epochs=6, gap=0.5)
def tanh_output_for_a_wide_range(sound: bool) -> dict:
    model = DosePredictor(nn.Tanh(), everywhere=not sound)
    return {
        "model": model,
        "loss_fn": nn.HuberLoss(),
        "optimizer": adam(model, 1e-2),
        "evaluate": negative_error,
        **loaders(yields(spread=3.0)),
    }


class HighOrLow(nn.Module):
    """Tells whether a yield is above average: a probability (N, 1)."""

    def __init__(self, last: nn.Module):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
        self.last = last

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x))


@broken("output_activation_mismatch", effect="hurts", epochs=4, gap=0.2)
def softmax_over_a_single_output(sound: bool) -> dict:
    model = HighOrLow(nn.Sigmoid() if sound else nn.Softmax(dim=1))

    def loss_fn(probability: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy(probability, (y > 0).float())

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            right = torch.cat([(model(x) > 0.5) == (y > 0) for x, y in loader])
        return right.float().mean().item()

    return {
        "model": model,
        "loss_fn": loss_fn,
        "optimizer": adam(model, 1e-2),
        "evaluate": evaluate,
        **loaders(yields(column=True)),
    }
