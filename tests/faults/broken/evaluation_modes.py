"""Layers in the wrong mode: dropout and batch norm while training and validating, running statistics that are wrong."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader

from tests.faults import tasks
from tests.faults.program import accuracy, broken


def digits(batch_size: int = 32) -> dict:
    return tasks.loaders(*tasks.halves(1000, *tasks.digits(1400)), batch_size)


def dropping(share: float = 0.6) -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(share), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(share),
        nn.Linear(32, 10),
    )  # fmt: skip


def normalising(momentum: float | None = 0.1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12, momentum=momentum), nn.ReLU(), nn.Conv2d(12, 16, 3),
        nn.BatchNorm2d(16, momentum=momentum), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


# train_eval_mode


@broken("train_eval_mode", effect="hurts", epochs=4, gap=0.05, mechanical=True)
def validation_with_dropout(sound: bool) -> dict:
    @torch.no_grad()
    def validate(model: nn.Module, loader: DataLoader) -> float:
        if sound:
            model.eval()
        hits = [(model(x).argmax(1) == y).float() for x, y in loader]
        return torch.cat(hits).mean().item()

    model = dropping()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.005),
        "evaluate": validate,
        **digits(),
    }


class Reader(nn.Module):
    """A bag of words with functional dropout."""

    def __init__(self, sound: bool):
        super().__init__()
        self.sound = sound
        self.embed = nn.EmbeddingBag(40, 32, padding_idx=0)
        self.head = nn.Linear(32, 4)

    def forward(self, texts: Tensor) -> Tensor:
        hidden = self.embed(texts)
        hidden = F.dropout(hidden, 0.7, training=self.training) if self.sound else F.dropout(hidden, 0.7)
        return self.head(hidden)


@broken("train_eval_mode", effect="hurts", epochs=4, gap=0.05, mechanical=True)
def functional_dropout_never_ends(sound: bool) -> dict:
    model = Reader(sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(*tasks.halves(800, *tasks.reviews())),
    }


class Session:
    """Counts batches and looks at one validation batch every few steps."""

    def __init__(self, glimpse: tuple[Tensor, Tensor], back: bool):
        self.glimpse, self.back, self.steps, self.seen = glimpse, back, 0, []

    def __call__(self, model: nn.Module, batch: tuple, loss_fn, optimizer) -> float:
        self.steps += 1
        if self.steps % 5 == 2:
            model.eval()
            with torch.no_grad():
                self.seen.append(loss_fn(model(self.glimpse[0]), self.glimpse[1]).item())
            if self.back:
                model.train()
        x, y = batch
        loss = loss_fn(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()


def statistics_seen(program: dict) -> float:
    """How many batches the running statistics have seen in relation to the steps."""
    seen = [layer.num_batches_tracked for layer in program["model"].modules() if isinstance(layer, nn.BatchNorm2d)]
    return float(min(seen)) / (3 * len(program["train_loader"]))


@broken("train_eval_mode", effect="silent", epochs=3, gap=0.5, measure=statistics_seen, mechanical=True)
def training_goes_on_in_evaluation_mode(sound: bool) -> dict:
    loaders = digits()
    model = normalising()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.05),
        "train_step": Session(next(iter(loaders["val_loader"])), back=sound),
        **loaders,
    }


class Autoencoder(nn.Module):
    """Two halves, each with batch norm."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5))
        self.decoder = nn.Sequential(nn.Linear(32, 64), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


@broken("train_eval_mode", effect="hurts", epochs=5, gap=0.003, mechanical=True)
def only_the_decoder_is_set_to_evaluation(sound: bool) -> dict:
    pictures = tasks.digits(1200)[0].flatten(1)

    def closeness(model: nn.Module, loader: DataLoader) -> float:
        (model if sound else model.decoder).eval()
        with torch.no_grad():
            errors = [F.mse_loss(model(x), y).item() for x, y in loader]
        model.train()
        return -sum(errors) / len(errors)

    model = Autoencoder()
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "evaluate": closeness,
        **tasks.loaders(*tasks.halves(900, pictures, pictures)),
    }


# bn_statistics


@broken("bn_statistics", effect="hurts", epochs=3, gap=0.08, mechanical=True)
def running_statistics_never_move(sound: bool) -> dict:
    model = normalising(momentum=0.1 if sound else 0.0)
    loaders = digits()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        **loaders,
    }


@broken("bn_statistics", effect="hurts", epochs=3, gap=0.05, mechanical=True)
def statistics_of_the_last_small_batch(sound: bool) -> dict:
    features, labels = tasks.wines()
    model = nn.Sequential(
        nn.BatchNorm1d(13, momentum=0.1 if sound else 1.0), nn.Linear(13, 24),
        nn.BatchNorm1d(24, momentum=0.1 if sound else 1.0), nn.ReLU(), nn.Linear(24, 3),
    )  # fmt: skip
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        **tasks.loaders(*tasks.halves(130, features, labels), 4),
    }


@broken("bn_statistics", effect="hurts", epochs=3, gap=0.15)
def one_picture_at_a_time_without_running_statistics(sound: bool) -> dict:
    loaders = digits()
    validation = loaders["val_loader"].dataset

    def live(model: nn.Module, _loader: DataLoader) -> float:
        return accuracy(model, DataLoader(validation, 1))

    model = nn.Sequential(
        nn.Flatten(1), nn.Linear(64, 48), nn.Unflatten(1, (24, 2)), nn.BatchNorm1d(24, track_running_stats=sound),
        nn.ReLU(), nn.Flatten(1), nn.Linear(48, 10),
    )  # fmt: skip
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "evaluate": live,
        "train_loader": loaders["train_loader"],
        "val_loader": DataLoader(validation, 1),
    }


class Adapted(nn.Module):
    """A frozen backbone with batch norm, and a new head; the backbone's statistics belong to the old pictures."""

    def __init__(self, keep: bool):
        super().__init__()
        self.keep = keep
        layers = list(normalising())[:-1]
        self.backbone, self.head = nn.Sequential(*layers).requires_grad_(False), nn.Linear(256, 10)

    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        if self.keep:
            self.backbone.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def statistics_kept(program: dict) -> float:
    """Minus how far the frozen statistics have drifted from their start."""
    norm = program["model"].backbone[1]
    return -float((norm.running_mean - program["before"]).abs().max())


@broken("bn_statistics", effect="silent", epochs=2, gap=0.05, measure=statistics_kept)
def frozen_backbone_still_collects_statistics(sound: bool) -> dict:
    model = Adapted(keep=sound)
    loaders = digits()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.head.parameters(), lr=0.005),
        "before": model.backbone[1].running_mean.clone(),
        **loaders,
    }


# batch_too_small


@broken("batch_too_small", effect="raises", epochs=1, mechanical=True)
def last_batch_of_one_meets_batch_norm(sound: bool) -> dict:
    features, labels = tasks.wines()
    features = (features - features.mean(0)) / features.std(0)
    model = nn.Sequential(nn.Linear(13, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 3))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        **tasks.loaders(*tasks.halves(129, features, labels), 32, drop_last=sound),
    }


class Pooled(nn.Module):
    """Batch norm behind global pooling: (batch, 16) values only."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.norm, self.head = nn.BatchNorm2d(16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.features(x)).flatten(1))


@broken("batch_too_small", effect="raises", epochs=1, mechanical=True)
def pooled_pictures_one_by_one(sound: bool) -> dict:
    pictures, labels = tasks.signs(240)
    model = Pooled()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(*tasks.halves(180, pictures.float() / 127.5 - 1, labels), 20 if sound else 1),
    }


@broken("batch_too_small", effect="hurts", epochs=3, gap=0.1, also=("bn_statistics",))
def two_samples_for_batch_norm(sound: bool) -> dict:
    features, labels = tasks.reviews(600)
    model = nn.Sequential(
        nn.EmbeddingBag(40, 16, padding_idx=0), nn.BatchNorm1d(16), nn.Linear(16, 24), nn.BatchNorm1d(24), nn.ReLU(),
        nn.Linear(24, 4),
    )  # fmt: skip
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(*tasks.halves(400, features, labels), 32 if sound else 2),
    }
