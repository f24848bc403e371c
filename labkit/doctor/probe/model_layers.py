"""Layers that act on a batch or by chance, normalisation and dropout, and layers that are too narrow."""

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader

from labkit.doctor.probe.model_runs import answer, fresh, recorded_inputs, rows, samples
from labkit.doctor.probe.model_trace import Operation, option, traced
from labkit.doctor.probe.updates import optimizers_of
from labkit.doctor.program import Program
from labkit.doctor.records import Recording

MASKS = {"masked_fill", "where", "mul", "__mul__"}
DROPOUTS = {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "dropout_"}


@dataclass
class LayersEvidence:
    """What was seen of normalisation, dropout and narrow layers.

    drifted: normalisation layers with frozen weights whose running mean moved, and how far (in standard deviations).
    still: layers whose running statistics never moved although batches passed in training mode. momentum: layer -> how
    much of the running statistics the last batch makes up. batch, values: samples of a batch, and the fewest numbers
    that a normalisation layer takes one mean of. last_batch: samples of an epoch's last batch. refuses_one: what the
    model raises in training mode for one sample. untracked: layers without running statistics; fewest: the smallest
    batch of the evaluation. dropouts: layer -> p, where it acts in training. masked: the largest share of
    values that a mask takes away. noise: in training mode, what chance
    changes in the answers ÷ what the samples do. narrow: (layer, the layer after it, numbers that pass between them),
    where these are all that the end of the model gets to know of a sample: one, or a few that are cut off at zero.
    """

    drifted: dict[str, float] = field(default_factory=dict)
    still: list[str] = field(default_factory=list)
    momentum: dict[str, float] = field(default_factory=dict)
    batch: int | None = None
    batches: int | None = None
    values: int | None = None
    last_batch: int | None = None
    refuses_one: str = ""
    untracked: list[str] = field(default_factory=list)
    fewest: int | None = None
    dropouts: dict[str, float] = field(default_factory=dict)
    masked: float = 0.0
    noise: float | None = None
    narrow: list[tuple[str, str, int]] = field(default_factory=list)


def look_at_layers(program: Program, recording: Recording) -> LayersEvidence:
    """Compare running statistics before and after the recorded updates, and run a copy in training mode."""
    seen = LayersEvidence()
    norms = {name: m for name, m in program.model.named_modules() if isinstance(m, _BatchNorm)}
    inputs = recorded_inputs(recording)
    with suppress(TypeError):  # a stream has no length
        seen.batches = len(program.train_loader)
    seen.last_batch = _last_batch(program.train_loader)
    if norms and recording.updates:
        _statistics(program, recording, norms, seen)
    if inputs and samples(inputs[0]):
        seen.batch = samples(inputs[0])
        with suppress(Exception):  # a model that cannot be called alone: the rest is not seen
            if norms:
                _sizes(program, inputs[0], seen)
            _chance(program, inputs[0], seen)
            _narrow_layers(program, inputs[0], seen)
    return seen


def _statistics(program: Program, recording: Recording, norms: dict[str, _BatchNorm], seen: LayersEvidence) -> None:
    held = {id(p) for one in optimizers_of(program, recording) for g in one.param_groups for p in g["params"]}
    passed = {
        name for update in recording.updates for call in update.forwards for name, on in call.training.items() if on
    }
    calls = [call for call in recording.evaluation_forwards if samples(call.inputs)]
    seen.fewest = min((samples(call.inputs) for call in calls), default=None)
    for name, before in norms.items():
        after = recording.program.model.get_submodule(name)
        if before.running_mean is None:
            seen.untracked.append(name)
            continue
        own = list(after.parameters())
        others = [p for p in _around(recording.program.model, name)]
        frozen = bool(own) and not any(p.requires_grad and id(p) in held for p in (*own, *others))
        moved = (after.running_mean - before.running_mean).abs() / (before.running_var + before.eps).sqrt()
        if frozen and moved.max() > 1e-3:
            seen.drifted[name] = moved.max().item()
        if name in passed and before.momentum is not None:
            seen.momentum[name] = float(before.momentum)
            as_made = not before.running_mean.any()  # else somebody has put them there
            if before.momentum == 0 and as_made and torch.equal(after.running_mean, before.running_mean):
                seen.still.append(name)


def _around(model: nn.Module, name: str) -> list[nn.Parameter]:
    """Return the parameters of the module in which a layer lies."""
    return list(model.get_submodule(name.rpartition(".")[0]).parameters()) if "." in name else []


def _last_batch(loader: Any) -> int | None:
    """Return how many samples the last batch of an epoch has, where the loader's settings say so."""
    if not isinstance(loader, DataLoader) or not loader.batch_size or loader.drop_last:
        return None
    try:
        return len(loader.sampler) % loader.batch_size or min(loader.batch_size, len(loader.sampler))
    except TypeError:  # a stream has no length
        return None


def _sizes(program: Program, inputs: tuple, seen: LayersEvidence) -> None:
    model = fresh(program).train()
    counts: list[int] = []
    hooks = [
        m.register_forward_pre_hook(lambda m, x: counts.append(x[0].numel() // m.num_features))
        for m in model.modules()
        if isinstance(m, _BatchNorm) and m.training
    ]
    answer(model, inputs)
    for hook in hooks:
        hook.remove()
    seen.values = min(counts, default=None)
    try:
        answer(fresh(program).train(), rows(inputs, slice(0, 1)))
    except ValueError as error:
        seen.refuses_one = str(error) if "Expected more than 1" in str(error) else ""


def _chance(program: Program, inputs: tuple, seen: LayersEvidence) -> None:
    """Run the copy in training mode with several seeds, and note dropout on the way."""
    model = fresh(program).train()
    with traced(model, DROPOUTS | MASKS) as trace:
        first = answer(model, inputs, seed=0)
    for number, operation in enumerate(trace.operations):
        if operation.name in MASKS:
            seen.masked = max(seen.masked, _masked(operation))
        elif option(operation, "training", 2, True):
            label = operation.layer or f"{operation.name} number {number + 1}"
            seen.dropouts[label] = float(option(operation, "p", 1, 0.5))
    for name, module in model.named_modules():
        if isinstance(module, nn.RNNBase) and module.dropout and module.num_layers > 1:
            seen.dropouts[name] = module.dropout
    drawn = [first[0], *(answer(model, inputs, seed=seed)[0] for seed in (1, 2, 3))] if first else []
    if drawn and drawn[0].is_floating_point() and drawn[0].dim() > 0 and len(drawn[0]) > 3:
        together = torch.stack(drawn).double()
        noise, signal = together.var(0).mean(), together.mean(0).var(0).mean()
        seen.noise = (noise / signal.clamp(min=1e-12)).item() if noise > 0 else 0.0


def _masked(operation: Operation) -> float:
    """Return the share of the values that a mask has overwritten, or set to zero."""
    given, output = operation.given, operation.output
    if given is None or not isinstance(output, Tensor) or given.shape != output.shape or not given.numel():
        return 0.0
    if operation.name in ("masked_fill", "where"):
        return (output != given).float().mean().item()
    there = given != 0
    return ((output == 0) & there).sum().item() / max(there.sum().item(), 1)


def _narrow_layers(program: Program, inputs: tuple, seen: LayersEvidence) -> None:
    """Find neighbours of which the second reads very few numbers, without which all answers are the same."""
    kinds = (nn.Linear, nn.modules.conv._ConvNd)
    model = fresh(program).eval()
    layers = [(name, module) for name, module in model.named_modules() if isinstance(module, kinds)]
    answers = min(one[0].numel() for one in answer(model, inputs))
    for (name, layer), (next_name, following) in pairwise(layers):
        width, before = _width(layer, "out"), _width(layer, "in")
        if width != _width(following, "in") or not (4 * width <= min(before, answers) or width == 1 < before - 1):
            continue
        outputs, zeros = _without_difference(model, following, inputs)
        same = max((one.float() - one[:1]).abs().max().item() for one in outputs) < 1e-5
        if same and (width == 1 or zeros > 0.1):
            seen.narrow.append((name, next_name, width))


def _without_difference(model: nn.Module, layer: nn.Module, inputs: tuple) -> tuple[list[Tensor], float]:
    """Give a layer the mean of its inputs for every sample; return the answers, and how many inputs were zero."""
    zeros = []

    def level(_: nn.Module, given: tuple) -> Tensor:
        zeros.append((given[0] == 0).float().mean().item())
        return given[0].mean(0, keepdim=True).expand_as(given[0])

    hook = layer.register_forward_pre_hook(level)
    outputs = answer(model, inputs)
    hook.remove()
    return outputs, max(zeros, default=0.0)


def _width(layer: nn.Module, end: str) -> int:
    return getattr(layer, f"{end}_features", None) or getattr(layer, f"{end}_channels")
