"""A small program that learns, for the tests of the doctor; each of them changes one thing in it."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.program import Program


def program(**changes) -> Program:
    """Return a network of two layers on two clouds of points, with the changes."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(240) % 2
    inputs = torch.randn(240, 6, generator=generator) + 1.5 * labels[:, None]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    pieces = {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "train_loader": DataLoader(TensorDataset(inputs[:200], labels[:200]), batch_size=20, shuffle=True),
        "val_loader": DataLoader(TensorDataset(inputs[200:], labels[200:]), batch_size=40),
    }
    return Program(**(pieces | changes))
