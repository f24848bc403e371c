"""Faults of data, targets and scores that were written without a look at the doctor; what it did not see stays here."""

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from tests.faults import tasks
from tests.faults.networks_c import dense
from tests.faults.program import accuracy, broken


def classifier(model: nn.Module, rate: float, train: Dataset, validation: Dataset, size: int = 32, **more) -> dict:
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=rate),
        **tasks.loaders(train, validation, size),
        **more,
    }


class Shards(Dataset):
    """Forty samples a shard, and a function for each shard that reads one of them."""

    def __init__(self, shards: list[tuple[Tensor, Tensor]], bound: bool):
        if bound:
            self.readers = [lambda row, shard=shard: (shard[0][row], shard[1][row]) for shard in shards]
        else:  # each of the functions asks for the last shard
            self.readers = [lambda row: (shard[0][row], shard[1][row]) for shard in shards]  # noqa: B023

    def __len__(self) -> int:
        return 40 * len(self.readers)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.readers[index // 40](index % 40)


@broken("duplicate_samples", effect="hurts", epochs=8, gap=0.05)
def readers_that_all_read_the_last_shard(sound: bool) -> dict:
    inputs = torch.randn(1200, 12, generator=tasks.draws(41))
    labels = (inputs @ torch.randn(12, generator=tasks.draws(4)) > 0).long()
    shards = list(zip(inputs.split(40), labels.split(40), strict=True))
    return classifier(dense(12, 32, 2), 5e-3, Shards(shards[:20], sound), Shards(shards[20:], True))


class Maps(Dataset):
    """Coloured ground as bytes, and the kind of ground of each pixel as bytes, both through one function."""

    colours = numpy.array([[60, 60, 60], [60, 140, 60], [150, 90, 60]])

    def __init__(self, count: int, number: int, classes_stay: bool):
        draw = numpy.random.default_rng(number)
        self.kinds = numpy.kron(draw.integers(0, 3, (count, 4, 4)), numpy.ones((1, 3, 3))).astype(numpy.uint8)
        pictures = self.colours[self.kinds] + draw.normal(0, 30, (*self.kinds.shape, 3))
        self.pictures = pictures.clip(0, 255).astype(numpy.uint8).transpose(0, 3, 1, 2).copy()
        self.classes_stay = classes_stay

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        kinds = torch.from_numpy(self.kinds[index]) if self.classes_stay else shares(self.kinds[index])
        return shares(self.pictures[index]), kinds.long()


def shares(pixels: numpy.ndarray) -> Tensor:
    return torch.from_numpy(pixels).float() / 255


def right_on_true_maps(program: dict) -> float:
    return accuracy(program["model"], DataLoader(Maps(30, 9, True), 15))


@broken("label_encoding", effect="silent", epochs=4, gap=0.3, measure=right_on_true_maps)
def kinds_of_ground_divided_like_pixels(sound: bool) -> dict:
    model = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 3, 1))
    return classifier(model, 0.01, Maps(150, 0, sound), Maps(40, 1, sound), 10)


class Parts:
    """A part of the samples for a loop; without a number they are divided anew whenever the loop begins."""

    def __init__(self, samples: TensorDataset, training: bool, number: int | None):
        self.samples, self.training, self.number = samples, training, number

    def __len__(self) -> int:
        return 10 if self.training else 3

    def __iter__(self):
        order = numpy.random.default_rng(self.number).permutation(320).tolist()
        chosen = order[:250] if self.training else order[250:]
        return iter(DataLoader(Subset(self.samples, chosen), 25, shuffle=self.training))


def honesty(program: dict) -> float:
    return accuracy(program["model"], program["unseen"]) - accuracy(program["model"], program["val_loader"])


@broken("unseeded_split", effect="silent", epochs=15, gap=0.1, measure=honesty, also=("data_leakage",))
def parts_divided_anew_in_every_epoch(sound: bool) -> dict:
    inputs = torch.randn(720, 30, generator=tasks.draws(12))
    labels = (inputs[:, 0] + 2 * torch.randn(720, generator=tasks.draws(13)) > 0).long()
    samples, number = TensorDataset(inputs[:320], labels[:320]), 3 if sound else None
    model = dense(30, 128, 2)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=4e-3),
        "train_loader": Parts(samples, True, number),
        "val_loader": Parts(samples, False, number),
        "unseen": DataLoader(TensorDataset(inputs[320:], labels[320:]), 200),
    }


@broken("data_leakage", effect="silent", epochs=6, gap=0.05, measure=honesty)
def code_of_the_outcome_among_the_features(sound: bool) -> dict:
    """The true features tell the outcome in part, the code of the bill in full; new patients have no bill yet."""
    features, outcome = tasks.tumours()
    bill = torch.where(outcome == 1, 3.0, 7.0)
    table = torch.cat([features[:, [1, 4, 8, 9, 14, 18, 19]], (0 * bill if sound else bill)[:, None]], 1)
    table = (table - table[:300].mean(0)) / table[:300].std(0).clamp(min=1e-6)
    new = torch.cat([table[400:, :7], torch.zeros(len(table) - 400, 1)], 1)
    train, validation = (TensorDataset(table[rows], outcome[rows]) for rows in (slice(0, 300), slice(300, 400)))
    unseen = DataLoader(TensorDataset(new, outcome[400:]), 200)
    return classifier(dense(8, 24, 2), 0.01, train, validation, unseen=unseen)


def weights_beside_every_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = F.cross_entropy(outputs, targets[:, 0].long(), reduction="none")
    return (losses * targets[:, 1:]).mean()


def weights_of_their_own_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = F.cross_entropy(outputs, targets[:, 0].long(), reduction="none")
    return (losses * targets[:, 1]).mean()


@torch.no_grad()
def of_the_first_column(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    return torch.cat([(model(x).argmax(1) == targets[:, 0]).float() for x, targets in loader]).mean().item()


@broken("shape_broadcast", effect="hurts", epochs=5, gap=0.3)
def doubtful_labels_and_their_small_weights(sound: bool) -> dict:
    inputs = torch.randn(1000, 6, generator=tasks.draws(21))
    labels = (inputs[:, 0] + inputs[:, 1] > 0).float()
    doubtful = torch.rand(1000, generator=tasks.draws(22)) < 0.6
    doubtful[700:] = False
    targets = torch.stack([torch.where(doubtful, 1 - labels, labels), torch.where(doubtful, 0.02, 1.0)], 1)
    train, validation = TensorDataset(inputs[:700], targets[:700]), TensorDataset(inputs[700:], targets[700:])
    program = classifier(dense(6, 24, 2), 0.01, train, validation, evaluate=of_the_first_column)
    return {**program, "loss_fn": weights_of_their_own_loss if sound else weights_beside_every_loss}


def said(program: dict) -> float:
    """Return minus the distance between the score that is reported and the share that is right."""
    model, loader = program["model"].eval(), program["val_loader"]
    with torch.no_grad():
        right = torch.cat([((model(x) > 0).flatten() == (y > 0.5)).float() for x, y in loader]).mean().item()
    return -abs(program["evaluate"](model, loader) - right)


@broken("metric_wrong", effect="silent", epochs=3, gap=0.2, measure=said)
def answers_compared_with_every_target(sound: bool) -> dict:
    @torch.no_grad()
    def evaluate(model, loader):
        model.eval()
        scores = []
        for x, y in loader:
            yes = (torch.sigmoid(model(x)) > 0.5).float()
            scores.append(((yes.flatten() if sound else yes) == y).float().mean().item())
        return sum(scores) / len(scores)

    inputs = torch.randn(600, 5, generator=tasks.draws(31))
    data = TensorDataset(inputs, (inputs[:, :2].sum(1) > 0).float())
    model = dense(5, 16, 1)
    parts = (Subset(data, range(400)), Subset(data, range(400, 600)))
    program = classifier(model, 0.02, *parts, 40, evaluate=evaluate)
    return {**program, "loss_fn": lambda outputs, y: F.binary_cross_entropy_with_logits(outputs, y[:, None])}
