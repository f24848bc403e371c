"""Labkit's own networks in plain loops, with settings of its reference runs."""

import torch
from torch import nn, optim

from labkit import data, models
from labkit.measuring.losses import cross_entropy
from tests.faults.networks_c import explained
from tests.faults.program import sound
from tests.faults.tasks_c import both, handwriting, surface


def digit_loaders(batch_size: int = 32, **augmentation) -> dict:
    """Return labkit's own loaders: normalised with the statistics of the training part."""
    parts = data.load("digits", limit=800)
    train = data.loader(parts.train, batch_size, shuffle=True, drop_last=True, **augmentation)
    return {"train_loader": train, "val_loader": data.loader(parts.val, 200, statistics=train.statistics)}


@sound("a fully connected network on normalised digits")
def labkit_mlp_on_digits() -> dict:
    model = models.build("mlp", (1, 8, 8), 10)
    optimizer = optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    return {"model": model, "loss_fn": cross_entropy, "optimizer": optimizer, **digit_loaders()}


@sound("LeNet with dropout, pictures moved by a pixel in training only")
def labkit_lenet_on_digits() -> dict:
    model = models.build("lenet", (1, 8, 8), 10, dropout=0.2)
    optimizer = optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **digit_loaders(shift=1)}


@sound("a convolutional network with batch normalisation, one-cycle schedule in every batch")
def labkit_cnn_on_digits() -> dict:
    model = models.CNN((1, 8, 8), 10, widths=(16, 32))
    optimizer = optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    loaders = digit_loaders()
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=20 * len(loaders["train_loader"]))

    def train_step(model, batch, loss_fn, optimizer):
        inputs, targets = batch
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": cross_entropy,
        "optimizer": optimizer,
        "train_step": train_step,
        **loaders,
    }


@sound("residual blocks with a linear shortcut, SGD with momentum")
def labkit_residual_blocks() -> dict:
    model = nn.Sequential(
        models.ResidualBlock(1, 16),
        models.ResidualBlock(16, 24, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(24, 10),
    )
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(handwriting(800))}


def rebuilt(model: nn.Module, loader) -> float:
    """Return the share of the variance that an autoencoder keeps."""
    return explained(model, [(x.flatten(1), x.flatten(1)) for x, _ in loader])


@sound("an autoencoder whose decoder shares the encoder's weight; labels are not used", epochs=4)
def labkit_tied_autoencoder() -> dict:
    model = models.TiedAutoencoder(64, 16)
    loss_fn = nn.MSELoss()

    def train_step(model, batch, loss_fn, optimizer):
        flat = batch[0].flatten(1)
        optimizer.zero_grad()
        loss = loss_fn(model(flat), flat)
        loss.backward()
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": loss_fn,
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "train_step": train_step,
        "evaluate": rebuilt,
        **both(handwriting()),
    }


@sound("nine layers with He's initial weights")
def labkit_deep_relu() -> dict:
    model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), *models.deep(depth=8, width=32), nn.Linear(32, 1))
    models.initialise(model, "kaiming")
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optimizer,
        "evaluate": explained,
        **both(surface()),
    }


@sound("a frozen first part that stays in evaluation mode, the optimizer gets the rest", epochs=4)
def labkit_frozen_features() -> dict:
    model = models.CNN((1, 8, 8), 10, widths=(12, 24))
    with torch.no_grad():
        for pictures in handwriting(600)[0].tensors[0].split(50):
            model(pictures)  # its statistics fit the pictures
    models.freeze(model, "stages.0")
    optimizer = optim.AdamW(models.trained_parameters(model), lr=0.02)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(handwriting(600))}


@sound("LeNet on drawn shapes in colour, batches of labkit's loader", epochs=12)
def labkit_lenet_on_shapes() -> dict:
    pictures = data.shapes(200)
    train = data.loader(pictures, 20, shuffle=True, flip=True, shift=1)
    val = data.loader(data.shapes(60, seed=1), 60, statistics=train.statistics)
    model = models.build("lenet", (3, 32, 32), 10)
    return {
        "model": model,
        "loss_fn": cross_entropy,
        "optimizer": optim.Adam(model.parameters(), lr=3e-3),
        "train_loader": train,
        "val_loader": val,
    }
