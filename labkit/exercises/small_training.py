"""A small training on digits in which every part can be another: what stands behind `swap_in`."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labkit import data
from labkit.exercises.parts import PARTS
from labkit.exercises.parts.layers import matched
from labkit.exercises.surroundings import undisturbed
from labkit.models.memory import kept_for_backward
from labkit.randomness import permutation, seed_for

SAMPLES, BATCH_SIZE = 200, 32
PATIENCE = 10  # seconds of updates: a convolution of Python loops would take minutes for all


@dataclass(frozen=True)
class Trained:
    """A training that has run.

    weights: each in torch's shape, under torch's name. losses: one an update. seconds: of the fastest update, which was
    disturbed least. kept: bytes kept for backward. masks: what dropout kept in each update. is_cut_short: whether it
    took too long and was stopped.
    """

    weights: dict[str, Tensor]
    losses: list[float]
    seconds: float
    kept: int
    masks: list[Tensor]
    is_cut_short: bool

    def distance(self, other: "Trained") -> float:
        """Return the largest difference between two weights, or two losses, of equal meaning."""
        pairs = [(one, other.weights[name]) for name, one in self.weights.items()]
        pairs.append((torch.tensor(self.losses), torch.tensor(other.losses)))
        if any(one.shape != two.shape for one, two in pairs):
            return float("inf")
        return max((one.double() - two.double()).abs().nan_to_num(float("inf")).max().item() for one, two in pairs)


def train(
    own: dict[str, Any], updates: int, dtype: torch.dtype = torch.float32, masks: list[Tensor] | None = None
) -> Trained:
    """Train the small network with these parts in place of torch's, and stop early once they have taken too long.

    masks: what dropout keeps in each update. Every training starts from the same weights and sees the same batches.
    Random numbers start anew at each update, so that dropout does not depend on what else was drawn.
    """
    parts = TORCH | own
    inputs, targets = _digits(dtype)
    with undisturbed():
        start = _Network(TORCH).to(dtype)
        network = _Network(parts if masks is None else parts | {"dropout": partial(_Replayed, masks)}).to(dtype)
        _set_weights(network, start)
        drawn = _note_masks(network.dropout)
        network.eval()  # as it is after an evaluation: the training step has to see to the mode
        optimizer = parts["optimizer"](network.parameters(), lr=0.05, momentum=0.9)
        losses, seconds, begin = [], [], time.perf_counter()
        for number, batch in enumerate(islice(_batches(parts["batches"], inputs, targets, updates), updates)):
            torch.default_generator.manual_seed(seed_for(0, "update", index=number))
            losses.append(float(parts["training_step"](network, parts["loss"], optimizer, *batch)))
            seconds.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            if sum(seconds) > PATIENCE:
                break
        is_cut_short = sum(seconds) > PATIENCE and len(losses) < updates
        weights = _weights(network, start)
        few = slice(BATCH_SIZE)
        network.eval()
        with torch.no_grad():
            weights["outputs in evaluation"] = network(inputs[few])
        network.train()
        kept = kept_for_backward(lambda: parts["loss"](network(inputs[few]), targets[few]), network.parameters())
    return Trained(weights, losses, min(seconds, default=0.0), kept, drawn[: len(losses)], is_cut_short)


def _torch_batches(inputs: Tensor, targets: Tensor, order: Tensor, batch_size: int) -> DataLoader:
    return DataLoader(TensorDataset(inputs, targets), batch_size, sampler=order.tolist())


#: What stands in for every part that is not swapped.
TORCH = {
    "linear": nn.Linear,
    "conv2d": nn.Conv2d,
    "batch_norm": nn.BatchNorm2d,
    "dropout": nn.Dropout,
    "loss": F.cross_entropy,
    "optimizer": torch.optim.SGD,
    "batches": _torch_batches,
    "training_step": PARTS["training_step"].reference(),  # torch has none
}


class _Network(nn.Module):
    """Two convolutions, batch normalisation, dropout and a linear layer for pictures of 1 × 8 × 8."""

    def __init__(self, parts: dict[str, Any]):
        super().__init__()
        self.first = parts["conv2d"](1, 8, 3, padding=1)
        self.normalise = parts["batch_norm"](8)
        self.second = parts["conv2d"](8, 16, 3, padding=1)
        self.dropout = parts["dropout"](0.25)
        self.linear = parts["linear"](64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.normalise(self.first(x)).relu(), 2)
        x = F.max_pool2d(self.second(x).relu(), 2)
        return self.linear(self.dropout(x.flatten(1)))


class _Replayed(nn.Module):
    """Dropout with masks that another training drew."""

    def __init__(self, masks: list[Tensor], p: float):
        super().__init__()
        self.masks, self.p = iter(masks), p

    def forward(self, x: Tensor) -> Tensor:
        mask = next(self.masks, None) if self.training else None
        return x if mask is None else x * mask / (1 - self.p)


def _note_masks(dropout: nn.Module) -> list[Tensor]:
    """Return a list to which each call of a dropout in training will add what it kept."""
    masks: list[Tensor] = []

    def note(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        if layer.training:
            masks.append((output != 0) | (inputs[0] == 0))  # where 0 came in, kept or dropped is the same

    dropout.register_forward_hook(note)
    return masks


def _weights(network: _Network, start: _Network) -> dict[str, Tensor]:
    """Return the weights under torch's names and in torch's shapes, those of `start`, as views to write to."""
    found = {}
    for name, layer in start.named_children():
        like = dict(layer.named_parameters())
        mine = matched(getattr(network, name), like)
        if mine is None:
            raise LookupError(f"it needs the parameters {', '.join(like)}" if like else "it needs no parameters")
        found |= {f"{name}.{parameter}": value for parameter, value in mine.items()}
    return found


def _set_weights(network: _Network, start: _Network) -> None:
    """Set the weights of a network to those of `start`."""
    for name, value in _weights(network, start).items():
        value.copy_(start.get_parameter(name).detach())


def _batches(cut: Callable, inputs: Tensor, targets: Tensor, epochs: int) -> Iterator[tuple[Tensor, Tensor]]:
    for epoch in range(epochs):
        yield from cut(inputs, targets, permutation(len(inputs), 0, epoch), BATCH_SIZE)


def _digits(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the first digits as numbers around 0, and their classes: a few epochs of them are few updates."""
    image_set = data.digits()
    images = image_set.images[:SAMPLES].to(dtype)
    return (images - images.mean()) / images.std(), image_set.labels[:SAMPLES]
