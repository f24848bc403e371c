"""The sound scripts: short, whole and real. A case replaces a few of their lines.

Each of them keeps some samples away from training and validation, in `test`; only the clinic looks at them.
"""

from typing import Any

import torch

from labkit.doctor.clinic.case import Script

IMPORTS = """\
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.data import digits
from labkit.doctor.clinic import report

"""

DATA = """\
pictures = digits()
images, labels = pictures.images.float() / 255, pictures.labels
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, val, test = order[:1000], order[1000:1400], order[1400:]
train_loader = DataLoader(TensorDataset(images[train], labels[train]), batch_size=50, shuffle=True)
val_loader = DataLoader(TensorDataset(images[val], labels[val]), batch_size=200)

"""

TUNE = """\
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


"""

STEP = """\
def train_step(model, batch, loss_fn, optimizer):
    images, labels = batch
    optimizer.zero_grad()
    loss = loss_fn(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


"""

EVALUATE = """\
def evaluate(model, loader):
    model.eval()
    right = count = 0
    with torch.no_grad():
        for images, labels in loader:
            right += (model(images).argmax(dim=1) == labels).sum().item()
            count += len(labels)
    return right / count


"""

LOOP = """\
for epoch in range(8):
    model.train()
    losses = [train_step(model, batch, loss_fn, optimizer) for batch in train_loader]
    report(sum(losses) / len(losses), evaluate(model, train_loader), evaluate(model, val_loader))
"""

LAYERS = """\
model = nn.Sequential(
    nn.Flatten(),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Linear(64, 10),
)
"""

CONVOLUTIONS = """\
model = nn.Sequential(
    nn.Conv2d(1, 16, kernel_size=3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, kernel_size=3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(32 * 4 * 4, 10),
)
"""

READER = """\
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.GRU(8, 48, batch_first=True)
        self.output = nn.Linear(48, 10)

    def forward(self, images):
        states, last = self.rows(images.squeeze(1))
        return self.output(last[-1])


model = Reader()
"""

TWO_HALVES = """\
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 32)
        self.second = nn.Linear(32, 32)
        self.output = nn.Linear(32, 10)

    def forward(self, images):
        hidden = torch.sigmoid(self.first(images.flatten(1)))
        hidden = torch.sigmoid(self.second(hidden))
        return self.output(hidden)


model = Network()
"""
BLOCKS = """\
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.output = nn.Linear(64, 10)

    def forward(self, images):
        hidden = images.flatten(1)
        for block in self.blocks:
            hidden = torch.relu(block(hidden))
        return self.output(hidden)


model = Network()
"""


def held_out_accuracy(names: dict[str, Any]) -> float:
    """Return the share that is right among the pictures that the script kept away, in evaluation mode."""
    model, kept = names["model"].eval(), names["test"]
    with torch.no_grad():
        return (model(names["images"][kept]).argmax(dim=1) == names["labels"][kept]).double().mean().item()


def _digits(name: str, model: str) -> Script:
    source = IMPORTS + DATA + model + TUNE + STEP + EVALUATE + LOOP
    return Script(name, source, held_out_accuracy, "accuracy", 0.1)


DIGITS = _digits("digits", LAYERS)
PICTURES = _digits("convolutions", CONVOLUTIONS)
ROWS = _digits("rows", READER)
