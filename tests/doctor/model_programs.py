"""Small programs whose model has one fault, or none, and what the doctor sees of them."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.probe import model, updates
from labkit.doctor.program import Program
from labkit.doctor.recording import record, record_evaluation
from labkit.doctor.rules import model as rules
from labkit.doctor.undisturbed import undisturbed


class With(nn.Module):
    """A module with some parts as attributes and a function as its forward."""

    def __init__(self, forward: Callable[..., Tensor], **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def mlp(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), activation())]
    return nn.Sequential(*layers[:-1])


def program(network: nn.Module, x: Tensor | None = None, batch_size: int = 32, **more) -> Program:
    """Return a program of two classes: whether the first two features have the same sign."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(320, 6, generator=draw) if x is None else x
    flat = x.flatten(1).float()
    y = (flat[:, 0] * flat[:, 1] > 0).long()
    data = TensorDataset(x, y)
    more.setdefault("optimizer", torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=0.01))
    pieces = {"loss_fn": nn.CrossEntropyLoss(), "val_loader": DataLoader(data, 80), **more}
    return Program(model=network, train_loader=DataLoader(data, batch_size, shuffle=True), **pieces)


def examined(one: Program) -> Evidence:
    """Return what the probes of model and updates see; the other pieces of the evidence are None."""
    with undisturbed(one):
        recording = record(one.copy(), updates=8)
        if recording.error is None and one.val_loader is not None:
            record_evaluation(recording, recording.program.val_loader)
        seen = model.look(one, recording), updates.look(one, recording)
    return Evidence(None, seen[0], None, seen[1], None, error=recording.error)


def found(one: Program) -> dict[str, Finding]:
    """Return the findings about the model, before any trial, by their label."""
    evidence = examined(one)
    return {finding.fault: finding for rule in rules.RULES if (finding := rule(evidence)) is not None}
