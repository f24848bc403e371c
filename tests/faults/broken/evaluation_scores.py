"""Scores that are computed wrongly, and saved states that are not what they are taken for."""

import copy
import io

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader

from tests.faults import tasks
from tests.faults.program import accuracy, broken


def digit_loaders(count: int = 500, **options) -> dict:
    loaders = tasks.loaders(*tasks.halves(count, *tasks.digits(count + 450)), **options)
    return {**loaders, "val_loader": DataLoader(loaders["val_loader"].dataset, 64)}


def perceptron(inputs: int, hidden: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def honest(program: dict) -> float:
    """Minus how far the reported score is from the true accuracy."""
    model, loader = program["model"], program["val_loader"]
    return -abs(program["evaluate"](model, loader) - accuracy(model, loader))


# metric_wrong


@broken("metric_wrong", effect="silent", epochs=2, gap=0.02, measure=honest, mechanical=True)
def mean_of_batch_means_with_a_small_last_batch(sound: bool) -> dict:
    pictures, labels = tasks.digits(885)
    order = torch.cat([torch.arange(500), 500 + labels[500:].argsort(descending=True)])  # the last is a zero
    train, validation = tasks.halves(500, pictures[order], labels[order])

    def mean_accuracy(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        means, hits = [], []
        with torch.no_grad():
            for x, y in loader:
                hit = (model(x).argmax(1) == y).float()
                hits.append(hit)
                means.append(hit.mean())
        return float(torch.cat(hits).mean() if sound else torch.stack(means).mean())

    model = perceptron(64, 24, 10)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.05),
        "evaluate": mean_accuracy,
        "train_loader": DataLoader(train, 32, shuffle=True),
        "val_loader": DataLoader(validation, 128),
    }


@broken("metric_wrong", effect="silent", epochs=2, gap=0.05, measure=honest, mechanical=True)
def hits_divided_by_batches_times_batch_size(sound: bool) -> dict:
    loaders = digit_loaders()
    loaders["val_loader"] = DataLoader(loaders["val_loader"].dataset, 256)

    def score(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        correct = 0
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x).argmax(1) == y).sum().item()
        return correct / (len(loader.dataset) if sound else len(loader) * loader.batch_size)

    model = perceptron(64, 32, 10)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "evaluate": score,
        **loaders,
    }


class Hits:
    """A meter as people write them: update with a batch, then ask."""

    def __init__(self, sound: bool):
        self.sound, self.right, self.count = sound, 0, 0

    def update(self, scores: Tensor, y: Tensor) -> None:
        self.right += int((scores.argmax(1) == y).sum())
        self.count += len(y)

    def compute(self) -> float:
        result = self.right / self.count
        if self.sound:
            self.right = self.count = 0
        return result


@broken("metric_wrong", effect="silent", epochs=4, gap=0.03, measure=honest, mechanical=True)
def meter_is_never_reset(sound: bool) -> dict:
    meter = Hits(sound)

    def validate(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                meter.update(model(x), y)
        return meter.compute()

    model = nn.Sequential(nn.EmbeddingBag(40, 16, padding_idx=0), nn.Linear(16, 4))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "evaluate": validate,
        "meter": meter,
        **tasks.loaders(*tasks.halves(800, *tasks.reviews())),
    }


@broken("metric_wrong", effect="silent", epochs=2, gap=0.3, measure=honest, mechanical=True)
def argmax_over_the_batch(sound: bool) -> dict:
    def validate(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        hits = count = 0
        for x, y in loader:
            with torch.no_grad():
                scores = model(x)
            guess = scores.argmax(dim=1 if sound else 0)[: len(y)]
            hits += (guess == y[: len(guess)]).sum().item()
            count += len(guess)
        return hits / count

    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "evaluate": validate,
        **digit_loaders(),
    }


@broken("metric_wrong", effect="silent", epochs=2, gap=0.02, measure=honest, mechanical=True)
def only_the_last_batch_counts(sound: bool) -> dict:
    pictures, labels = tasks.digits(950)
    order = torch.cat([torch.arange(500), 500 + labels[500:].argsort(descending=True)])  # the last two are zeros

    def validate(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        right = total = 0
        with torch.no_grad():
            for x, y in loader:
                guess = model(x).argmax(1)
                if sound:
                    right, total = right + (guess == y).sum().item(), total + len(y)
        if not sound:
            right, total = (guess == y).sum().item(), len(y)
        return right / total

    model = perceptron(64, 32, 10)
    train, validation = tasks.halves(500, pictures[order], labels[order])
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.05),
        "evaluate": validate,
        "train_loader": DataLoader(train, 32, shuffle=True),
        "val_loader": DataLoader(validation, 64),
    }


@broken("metric_wrong", effect="silent", epochs=12, gap=0.03, measure=honest)
def training_batches_reported_as_validation(sound: bool) -> dict:
    loaders = digit_loaders(100)

    def validate(model: nn.Module, loader: DataLoader) -> float:
        return accuracy(model, loader if sound else loaders["train_loader"])

    model = perceptron(64, 64, 10)
    return {
        "model": model,
        "loss_fn": F.cross_entropy,
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "evaluate": validate,
        **loaders,
    }


# checkpoint_state


class Keeper:
    """Evaluates and keeps the state of the best epoch."""

    def __init__(self, keep):
        self.keep, self.best, self.state = keep, -1.0, None

    def __call__(self, model: nn.Module, loader: DataLoader) -> float:
        score = accuracy(model, loader)
        if score > self.best:
            self.best, self.state = score, self.keep(model)
        return score


def restored(program: dict) -> float:
    """Minus what is lost when the state of the best epoch is put back, whatever happened to the weights since."""
    model, keeper = program["model"], program["keeper"]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0).add_(1)  # whatever training does to the weights afterwards
    model.load_state_dict(keeper.state)
    return accuracy(model, program["val_loader"]) - keeper.best


@broken("checkpoint_state", effect="silent", epochs=2, gap=0.2, measure=restored, mechanical=True)
def best_state_is_the_living_one(sound: bool) -> dict:
    keeper = Keeper(lambda model: copy.deepcopy(model.state_dict()) if sound else model.state_dict())
    model = perceptron(64, 32, 10)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "evaluate": keeper,
        "keeper": keeper,
        **digit_loaders(),
    }


@broken("checkpoint_state", effect="silent", epochs=2, gap=0.2, measure=restored, mechanical=True)
def copied_dict_of_the_same_tensors(sound: bool) -> dict:
    def snapshot(model: nn.Module) -> dict[str, Tensor]:
        if sound:
            return {name: value.detach().clone() for name, value in model.state_dict().items()}
        return {name: value.detach() for name, value in model.state_dict().items()}

    keeper = Keeper(snapshot)
    model = nn.Sequential(nn.EmbeddingBag(40, 16, padding_idx=0), nn.Linear(16, 4))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "evaluate": keeper,
        "keeper": keeper,
        **tasks.loaders(*tasks.halves(800, *tasks.reviews())),
    }


class Worn(nn.Module):
    """As it comes out of a data-parallel wrapper: everything is called module.…"""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x)


def pretrained() -> dict[str, Tensor]:
    """The state of a short training in a wrapper."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = Worn(nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
        optimizer = optim.Adam(model.parameters(), lr=0.02)
        x, y = tasks.digits(400)
        for _ in range(30):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    return torch.load(file)


@broken("checkpoint_state", effect="hurts", epochs=1, gap=0.2, also=("param_not_optimised",))
def nothing_loads_because_of_a_prefix(sound: bool) -> dict:
    model = perceptron(64, 32, 10)
    state = pretrained()
    if sound:
        state = {name.removeprefix("module."): value for name, value in state.items()}
    loaded = model.load_state_dict(state, strict=False)
    for layer in (model[1],):  # the features are ready, only the head goes on learning
        layer.requires_grad_(False)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model[3].parameters(), lr=0.02),
        "loaded": loaded,
        **digit_loaders(),
    }


@broken("checkpoint_state", effect="hurts", epochs=10, gap=0.1, also=("weights_reset",), mechanical=True)
def first_state_is_restored_every_epoch(sound: bool) -> dict:
    start: dict = {}

    def evaluate(model: nn.Module, loader: DataLoader) -> float:
        score = accuracy(model, loader)
        if not start or (sound and score > start["score"]):
            start.update(score=score, state=copy.deepcopy(model.state_dict()))
        model.load_state_dict(start["state"])
        return score

    model = perceptron(64, 32, 10)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.1),
        "evaluate": evaluate,
        **digit_loaders(),
    }
