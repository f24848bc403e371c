"""Measurements for the topic "Losses and optimizers": which learning rate to begin with."""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, Optimizer

from labkit.exercises.claims import claim


def losses(optimizer_class: type[Optimizer], rate: float, updates: int = 100) -> list[float]:
    """Fit a linear rule by a small network, at this rate, and return the loss of each update."""
    torch.manual_seed(0)
    inputs = torch.randn(128, 5)
    answers = inputs @ torch.randn(5, 1)
    model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer, history = optimizer_class(model.parameters(), lr=rate), []
    for _ in range(updates):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(inputs), answers)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


@claim(
    "C205",
    true="Yes, all three: at a rate of 10 the loss was NaN, at 0.0001 it had hardly moved, and in between lay a range "
    "that worked. So try powers of ten; five short runs find it.",
    false="A rate that is too small looks like a model that cannot learn, and one that is too large like a bug. At a "
    "tenth or ten times the rate, the same program learned.",
    depends="Where the borders lie depends on the problem. That there is one on both sides does not.",
)
def too_large_or_too_small() -> dict[str, bool]:
    """Train at six powers of ten and look at the first and the last loss."""
    runs = {rate: losses(SGD, rate) for rate in (1e-4, 1e-3, 1e-2, 1e-1, 10.0)}
    oscillating = losses(SGD, 0.4, updates=30)
    ups = sum(later > earlier for earlier, later in pairwise(oscillating))
    return {
        "far too large a rate gives NaN or infinity": not math.isfinite(runs[10.0][-1]),
        "a rate that is a little too large makes the loss go up and down": ups > 5 and math.isfinite(oscillating[-1]),
        "too small a rate crawls": runs[1e-4][-1] > 0.8 * runs[1e-4][0],
        "in between there is one that works": runs[1e-1][-1] < 0.05 * runs[1e-1][0],
    }


@claim(
    "C206",
    true="For Adam at 0.001 to 0.01 it is a good start. Plain SGD crawled at the same rates and wanted 0.1. And a "
    "pretrained network wants less than either.",
    false="Adam did learn in that range, and most networks do. It is SGD that needs more.",
    depends="Right: it depends on the optimizer and on the network. About 0.001 for AdamW, about 0.1 for SGD, less for "
    "fine-tuning; and then sweep powers of ten.",
)
def a_start_for_adam() -> dict[str, bool]:
    """Train by Adam and by SGD at the rates of the sentence, and by SGD at 0.1."""
    adam = losses(Adam, 0.01)
    sgd, larger = losses(SGD, 0.001), losses(SGD, 0.1)
    return {
        "Adam learns in that range": adam[-1] < 0.1 * adam[0],
        "SGD learns at its lower end as well as Adam": sgd[-1] <= adam[-1],
        "for SGD, 0.1 is no better than that": sgd[-1] <= larger[-1],
    }


def train(inputs: Tensor, labels: Tensor, rate: float, updates: int, batch: int, enough: float = 0.0) -> tuple:
    """Train a classifier by Adam on random batches until the loss is below `enough`; return it and the updates."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = Adam(model.parameters(), lr=rate)
    for update in range(updates):
        chosen = torch.randint(0, len(inputs), (batch,)) if batch < len(inputs) else slice(None)
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs[chosen]), labels[chosen])
        if loss.item() < enough:
            return model, update
        loss.backward()
        optimizer.step()
    return model, math.inf


@claim(
    "C207",
    true="It came close, a power of ten too large. Memorising 32 samples likes large steps; learning from many noisy "
    "ones likes smaller ones. Take it as the first guess, and tune again.",
    false="As a first guess it is worth much: it cost seconds, it ruled out the rates that learn nothing, and it was "
    "one power of ten away from the best.",
    depends="Right: it gives the order of magnitude and rules out hopeless rates. The best rate for the full data was "
    "a smaller one.",
)
def the_subset_gives_the_order() -> dict[str, bool]:
    """Find the rate that overfits 32 samples fastest, and the one that is best for new samples after all the data."""
    inputs = torch.randn(1200, 10)
    labels = (1.5 * inputs[:, 0] + inputs[:, 1] + torch.randn(1200) > 0).long()
    rates = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)

    def loss_on_new(rate: float) -> float:
        model, _ = train(inputs[:800], labels[:800], rate, 120, 16)
        with torch.no_grad():
            return functional.cross_entropy(model(inputs[800:]), labels[800:]).item()

    needed = {rate: train(inputs[:32], labels[:32], rate, 50, 32, enough=0.05)[1] for rate in rates}
    reached = {rate: loss_on_new(rate) for rate in rates}
    fastest, best = min(needed, key=needed.get), min(reached, key=reached.get)
    return {
        "it has the right order of magnitude, up to a power of ten": abs(math.log10(fastest / best)) < 1.5,
        "a rate that cannot learn the subset is not the best": math.isinf(needed[1e-4]) and best != 1e-4,
        "the fastest rate for the subset is the best one for the full data": fastest == best,
    }
