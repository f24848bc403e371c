"""Run a copy of the model, or of one update, in the way of the experiment: seeded, in a mode, on recorded inputs."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from labkit import randomness
from labkit.doctor.copying import copied
from labkit.doctor.nested import leaves, mapped
from labkit.doctor.program import Program
from labkit.doctor.records import Recording
from labkit.doctor.watching import watched_loss, watched_model


def fresh(program: Program) -> nn.Module:
    """Return a copy of the model as it was before the first update."""
    return copied({"model": program.model})["model"]


def without_data(program: Program) -> Program:
    """Return a copy of the program whose loaders are empty: for updates on batches that were recorded."""
    return replace(program, train_loader=[], val_loader=None).copy()


def recorded_inputs(recording: Recording) -> list[tuple]:
    """Return what the model was called with, the first call of each update."""
    return [update.forwards[0].inputs for update in recording.updates if update.forwards]


def answer(model: nn.Module, inputs: tuple, seed: int = 0) -> list[Tensor]:
    """Return the tensors that the model gives for inputs, with random numbers of that seed; no graph, mode as it is."""
    with randomness.frozen_randomness(seed), warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        outputs = model(*mapped(inputs, lambda tensor: tensor.detach().clone()))
    return [leaf.detach().clone() for leaf in leaves(outputs) if isinstance(leaf, Tensor)]


def difference(first: list[Tensor], second: list[Tensor]) -> float:
    """Return the largest difference of two answers, in units of their spread; infinite if the shapes differ."""
    largest = 0.0
    for one, other in zip(first, second, strict=True):
        if one.shape != other.shape:
            return float("inf")
        if not one.is_floating_point() or not one.numel():
            continue
        one, other = one.double(), other.double()
        scale = max(one.std(correction=0).item(), 1e-3 * one.abs().max().item(), 1e-8)
        largest = max(largest, (one - other).abs().max().item() / scale)
    return largest


def samples(inputs: tuple) -> int | None:
    """Return how many samples some inputs hold: the length that all of their tensors begin with, or None."""
    sizes = {leaf.shape[0] if leaf.dim() else None for leaf in leaves(inputs) if isinstance(leaf, Tensor)}
    return sizes.pop() if len(sizes) == 1 else None


def rows(inputs: Any, index: Any) -> Any:
    """Return some samples of inputs: every tensor indexed along its first axis."""
    return mapped(inputs, lambda tensor: tensor[index])


def value_of_update(program: Program, batch: Any, change: Callable[[Program], None] | None = None) -> list[Tensor]:
    """Return what loss_fn gives in one update of a copy, after a change to it; else what the step returns."""
    trial = without_data(program)
    losses, forwards = [], []
    with randomness.frozen_randomness(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial.model.train()
        if change is not None:
            change(trial)
        with watched_loss(trial, losses), watched_model(trial.model, forwards):
            try:
                result = trial.step(batch)
            except Exception:  # whatever the step raises: the loss may have been computed before
                result = None
    values = [leaf for call in losses for leaf in leaves(call.value)] or list(leaves(result))
    values = values if any(value is not None for value in values) else [x for f in forwards for x in leaves(f.outputs)]
    return [torch.as_tensor(value).detach().double() for value in values if isinstance(value, Tensor | float | int)]


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    """Say whether two lists of tensors are equal, number by number."""
    return len(first) == len(second) and all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
