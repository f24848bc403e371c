"""How the model starts: its initial weights, the first loss, gradients on their way down, units that never fire."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import torch
import torch.nn as nn
from torch import Tensor

from labkit.doctor.nested import leaves
from labkit.doctor.probe.model_runs import answer, fresh, recorded_inputs, rows, samples
from labkit.doctor.probe.model_trace import RECTIFIERS, Operation, option, traced
from labkit.doctor.program import Program
from labkit.doctor.records import Recording

ENOUGH = 256  # samples on which a unit must be silent
WEIGHTED = (nn.Linear, nn.modules.conv._ConvNd, nn.RNNBase)


@dataclass
class StartEvidence:
    """What was seen of the start. Names are names of parameters.

    equal_rows: matrices all of whose rows were equal at the start and are still so after the updates: name -> (rows,
    distinct ones at the end). twins: pairs of parameters with equal values, at the start and at the end.
    gains: matrix -> spread of its weights x root of its inputs (near 1 as torch makes them, 1.41 after He).
    first_loss, outputs: loss and shape of the outputs of the first update. dead: layer that rectifies -> (share of its
    units that were zero on all samples, at the start and after the updates, name of the operation). samples: how many.
    ends: (name, norm) of the gradients of the first matrix and of the parameter with the largest, in the update where
    the first does best. inputs: mean and deviation of what the model was given, where that is one tensor of floats.
    """

    equal_rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    twins: list[tuple[str, str]] = field(default_factory=list)
    gains: dict[str, float] = field(default_factory=dict)
    first_loss: float | None = None
    outputs: tuple[int, ...] = ()
    class_targets: bool = False
    dead: dict[str, tuple[float, str]] = field(default_factory=dict)
    samples: int = 0
    ends: list[tuple[str, float]] = field(default_factory=list)
    inputs: tuple[float, float] | None = None


def look_at_start(program: Program, recording: Recording) -> StartEvidence:
    """Compare the weights before and after the recorded updates, and run a copy of the model on some samples."""
    seen = StartEvidence()
    if recording.updates:
        _symmetry(program, recording, seen)
        _gains(program, recording, seen)
        _ends(program, recording, seen)
        seen.inputs = _size(recorded_inputs(recording)[:8])
        with suppress(Exception):  # a model that cannot be called alone: its units are not seen
            _units(program, recording, seen)
    return seen


def _size(calls: list[tuple]) -> tuple[float, float] | None:
    """Return mean and deviation of the inputs of some calls, None if they are not one tensor each."""
    parts = [[leaf for leaf in leaves(inputs) if isinstance(leaf, Tensor)] for inputs in calls]
    if not parts or any(len(part) != 1 or not part[0].is_floating_point() for part in parts):
        return None
    numbers = torch.cat([part[0].flatten() for part in parts]).double()
    return numbers.mean().item(), numbers.std().item()


def _symmetry(program: Program, recording: Recording, seen: StartEvidence) -> None:
    """Find rows, and whole parameters, that were equal and stay equal although there is a gradient."""
    after = dict(recording.program.model.named_parameters())
    asked = [update.gradients for update in recording.updates]
    prints: dict[tuple, list[str]] = {}
    for name, parameter in program.model.named_parameters():
        has = [gradients.get(name) is not None for gradients in asked]
        if parameter.dim() < 2 or not parameter.requires_grad or not any(has) or len(asked) < 3:
            continue
        owner = program.model.get_submodule(name.rpartition(".")[0])
        now = after[name].detach()
        if len(parameter) > 1 and not isinstance(owner, nn.Embedding | nn.EmbeddingBag) and _distinct(parameter) == 1:
            left = _distinct(now)
            if left <= max(1, len(parameter) // 4) and _constant(parameter, now, asked, name):
                seen.equal_rows[name] = (len(parameter), left)
        elif any(gradients.get(name) for gradients in asked):
            prints.setdefault((tuple(parameter.shape), parameter.detach().double().sum().item()), []).append(name)
    for names in prints.values():
        seen.twins += [(names[0], other) for other in names[1:] if _are_twins(program, after, names[0], other)]


def _distinct(matrix: Tensor) -> int:
    """Return how many different rows a matrix has, up to rounding."""
    flat = matrix.detach().flatten(1).double()
    scale = flat.abs().max().clamp(min=1e-12)
    return len(torch.unique((flat / scale * 1e4).round(), dim=0))


def _constant(before: Tensor, now: Tensor, asked: list[dict], name: str) -> bool:
    """Say whether the rows stayed equal for another reason than that nothing has moved them yet."""
    moved = not torch.equal(before.detach(), now)
    return moved or all(gradients.get(name) == 0 for gradients in asked)


def _are_twins(program: Program, after: dict[str, nn.Parameter], first: str, second: str) -> bool:
    one, other = program.model.get_parameter(first), program.model.get_parameter(second)
    return torch.equal(one, other) and torch.allclose(after[first], after[second], rtol=1e-4, atol=1e-6)


def _gains(program: Program, recording: Recording, seen: StartEvidence) -> None:
    for name, weight in _matrices(program.model):
        spread = weight.detach().float().square().mean().sqrt().item()
        seen.gains[name] = spread * math.sqrt(weight[0].numel())
    calls = recording.updates[0].losses
    if calls and isinstance(calls[0].value, Tensor) and calls[0].value.numel() == 1:
        seen.first_loss = calls[0].value.item()
        if isinstance(calls[0].outputs, Tensor) and isinstance(calls[0].targets, Tensor):
            seen.outputs = tuple(calls[0].outputs.shape)
            seen.class_targets = not calls[0].targets.is_floating_point()


def _ends(program: Program, recording: Recording, seen: StartEvidence) -> None:
    """Note the gradient of the first weight matrix beside the largest one, in the update where it does best."""
    first = next((name for name, _ in _matrices(program.model) if _has_gradient(recording, name)), None)
    if first is None or len(list(_matrices(program.model))) < 3:
        return
    best = -1.0
    for update in recording.updates:
        norms = {name: norm for name, norm in update.gradients.items() if norm is not None}
        largest = max(norms, key=norms.get, default=first)
        if norms.get(largest) and norms.get(first, 0.0) / norms[largest] > best:
            best = norms.get(first, 0.0) / norms[largest]
            seen.ends = [(first, norms.get(first, 0.0)), (largest, norms[largest])]


def _matrices(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the weight matrices of linear, convolutional and recurrent layers, in the order of the model."""
    for name, module in model.named_modules():
        if isinstance(module, WEIGHTED):
            for key, weight in module.named_parameters(recurse=False):
                if weight.dim() > 1:
                    yield f"{name}.{key}".lstrip("."), weight


def _has_gradient(recording: Recording, name: str) -> bool:
    return any(update.gradients.get(name) is not None for update in recording.updates)


def _units(program: Program, recording: Recording, seen: StartEvidence) -> None:
    """Send samples through copies, as at the start and after the updates, and note which units are always zero."""
    fired: dict[tuple[int, str, str], list[Tensor]] = {}
    models = [fresh(program).eval(), fresh(recording.program).eval()]
    for inputs in recorded_inputs(recording)[:20]:
        count = samples(inputs)
        if not count or seen.samples >= ENOUGH:
            break
        few = rows(inputs, slice(0, ENOUGH - seen.samples))
        seen.samples += min(count, ENOUGH - seen.samples)
        for model in models:
            with traced(model, RECTIFIERS) as trace:
                answer(model, few)
            rectified = [o for o in trace.operations if o.name in RECTIFIERS and _rectifies(o)]
            for number, operation in enumerate(rectified):
                key = (number, operation.layer, operation.name)
                fired.setdefault(key, []).append(_fires(operation.output))
    for (number, layer, name), seen_units in fired.items():
        if len({units.shape for units in seen_units}) == 1:
            units = torch.stack(seen_units).any(0)
            share = 1 - units.float().mean().item()
            label = layer or f"{name} number {number + 1}"
            seen.dead[label] = (max(share, seen.dead.get(label, (0.0,))[0]), name)


def _rectifies(operation: Operation) -> bool:
    if not isinstance(operation.output, Tensor) or not operation.output.is_floating_point():
        return False
    if operation.name == "clamp":
        return option(operation, "min", 1, None) == 0 and option(operation, "max", 2, None) is None
    if operation.name == "clamp_min":
        return option(operation, "min", 1, None) == 0
    if operation.name.startswith("hardtanh"):
        return option(operation, "min_val", 1, -1.0) == 0
    return operation.output.dim() > 1


def _fires(output: Tensor) -> Tensor:
    """Return for each unit whether it is not zero anywhere: channels of pictures, features of vectors and sequences."""
    axis = 1 if output.dim() != 3 else 2
    return output.transpose(axis, -1).flatten(0, -2).ne(0).any(0) if output.dim() > 1 else output.ne(0).any(0, True)
