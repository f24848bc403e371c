"""Which outputs a model can give: the last layer is exaggerated, and what loss_fn then gets is looked at."""

import contextlib
from dataclasses import dataclass

import torch
from torch import Tensor

from labkit import randomness
from labkit.doctor.nested import leaves, mapped
from labkit.doctor.probe.evaluation_answers import exaggerated, last_layer, only_tensor
from labkit.doctor.program import Program
from labkit.doctor.records import LossCall, Recording
from labkit.doctor.watching import watched_loss

FACTOR = 1_000.0


@dataclass
class OutputsEvidence:
    """What loss_fn gets from the model, as it is and with the last layer's outputs multiplied by 1000 and by -1000.

    layer: name of that layer. low, high: the least and the largest value in all of it. sums_to_one: dimension along
    which all outputs are at least 0 and sum to 1. log_sums_to_one: the same for log-probabilities. zeros: share of
    exact zeros, with the factors. same: whether all outputs are one and the same number. grows: whether the outputs of
    a sample become more with the number of samples in the batch. beyond: share of the targets that lie below `low` or
    above `high`; lowest, highest: of the targets.
    """

    layer: str = ""
    low: float | None = None
    high: float | None = None
    sums_to_one: int | None = None
    log_sums_to_one: bool = False
    zeros: float = 0.0
    same: bool = False
    grows: bool = False
    beyond: float | None = None
    lowest: float | None = None
    highest: float | None = None


def look_at_outputs(program: Program, recording: Recording) -> OutputsEvidence:
    """Run an update of copies with an exaggerated last layer; look at what the loss gets."""
    seen = OutputsEvidence()
    with contextlib.suppress(Exception):  # whatever the user's pieces raise
        plain = [call for update in recording.updates[:8] for call in update.losses[:1]]
        first = only_tensor(plain[0].outputs)
        wild = [call for factor in (FACTOR, -FACTOR) for call in _calls(program, recording, factor, seen)[:1]]
        tensors = [only_tensor(call.outputs) for call in (*plain, *wild)]
        seen.low = min(tensor.min().item() for tensor in tensors)
        seen.high = max(tensor.max().item() for tensor in tensors)
        seen.same = seen.low == seen.high and bool(wild)
        seen.zeros = max((only_tensor(call.outputs) == 0).float().mean().item() for call in wild)
        for dimension in range(1, first.dim()):
            if wild and all(_sums(tensor, dimension) for tensor in tensors):
                seen.sums_to_one = dimension
        near = [only_tensor(call.outputs) for call in plain]
        seen.log_sums_to_one = any(
            all(_is_one(tensor.exp().sum(dimension)) for tensor in near) for dimension in range(1, first.dim())
        )
        _reach(plain, seen)
        _growth(program, recording, first, plain[0], seen)
    return seen


def _calls(program: Program, recording: Recording, factor: float, seen: OutputsEvidence) -> list[LossCall]:
    update = recording.updates[0]
    copy, calls = program.copy(), []
    copy.model.train()
    inputs = update.forwards[0].inputs
    with randomness.frozen_randomness(0), torch.no_grad():
        found = last_layer(copy.model, lambda: copy.model(*inputs))
    if found is None:
        return []
    seen.layer, layer = found
    hook = exaggerated(layer, factor)
    with randomness.frozen_randomness(0), watched_loss(copy, calls), contextlib.suppress(Exception):
        copy.step(update.batch)
    hook.remove()
    return calls


def _sums(tensor: Tensor, dimension: int) -> bool:
    return tensor.min().item() >= 0 and tensor.shape[dimension] > 1 and _is_one(tensor.sum(dimension))


def _is_one(tensor: Tensor) -> bool:
    return torch.allclose(tensor, torch.ones_like(tensor), atol=1e-4)


def _reach(calls: list[LossCall], seen: OutputsEvidence) -> None:
    """Compare what the targets ask for with what the outputs reach."""
    targets = [call.targets for call in calls if isinstance(call.targets, Tensor)]
    if not targets or any(only_tensor(call.outputs).numel() != call.targets.numel() for call in calls):
        return
    values = torch.cat([target.reshape(-1).double() for target in targets])
    seen.lowest, seen.highest = values.min().item(), values.max().item()
    margin = 0.05 * values.std().item()
    seen.beyond = ((values < seen.low - margin) | (values > seen.high + margin)).double().mean().item()


def _growth(program: Program, recording: Recording, outputs: Tensor, call: LossCall, seen: OutputsEvidence) -> None:
    """Take a sample away: do the other samples get fewer outputs?"""
    targets = call.targets
    if outputs.dim() < 2 or outputs.shape[1] != len(outputs) or len(outputs) < 3 or not isinstance(targets, Tensor):
        return
    if not targets.is_floating_point() or targets.numel() != len(outputs):
        return
    inputs = recording.updates[0].forwards[0].inputs
    if any(not isinstance(leaf, Tensor) or len(leaf) != len(outputs) for leaf in leaves(inputs)):
        return
    with torch.no_grad():
        fewer = only_tensor(program.copy().model(*mapped(inputs, lambda tensor: tensor[:-1])))
    seen.grows = fewer.shape[1] == len(outputs) - 1
