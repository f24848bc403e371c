"""Sequences: whether a model sees what it shall predict, and how many places ahead it is asked to predict."""

import contextlib
from dataclasses import dataclass

import torch
from torch import Tensor

from labkit import randomness
from labkit.doctor.probe.evaluation_answers import only_tensor
from labkit.doctor.probe.objective_loss import View
from labkit.doctor.program import Program
from labkit.doctor.records import Recording

PLACES = (0, 1, -1, 2, 3, -2)


@dataclass
class SequenceEvidence:
    """How targets, inputs and outputs of sequences lie to each other.

    lead: how many places the targets are ahead of the last input that an output belongs to; 1 for "the next one".
    in_data, in_loss: how far the targets are shifted in the data and how far once more inside the loss. sees: whether
    the output that shall give a target changes with that very input. causal: whether outputs do not change with later
    inputs. column: the place of an input window at which the target stands, in every sample; columns: how many places
    there are. alike: whether the places look like one another, as those of a window in time do.
    """

    lead: int | None = None
    in_data: int = 0
    in_loss: int = 0
    sees: bool = False
    causal: bool = False
    column: int | None = None
    columns: int = 0
    alike: bool = False


def look_at_sequences(program: Program, recording: Recording, view: View) -> SequenceEvidence:
    """Compare inputs and targets, then change one place of the inputs and see which outputs change."""
    seen = SequenceEvidence()
    with contextlib.suppress(Exception):  # whatever the user's pieces raise
        _window(recording, seen)
    with contextlib.suppress(Exception):
        forward = recording.updates[0].forwards[0]
        for number, inputs in enumerate(forward.inputs):
            if (
                isinstance(inputs, Tensor)
                and inputs.dim() == 2
                and not inputs.is_floating_point()
                and seen.lead is None
            ):
                _tokens(program, recording, view, number, seen)
    return seen


def _window(recording: Recording, seen: SequenceEvidence) -> None:
    """Look for a place of the inputs at which the target stands."""
    pairs = [(update.forwards[0].inputs[0], update.losses[0].targets) for update in recording.updates[:8]]
    inputs = torch.cat([x.reshape(len(x), -1) for x, _ in pairs])
    targets = torch.cat([y.reshape(len(y), -1) for _, y in pairs])
    if not targets.is_floating_point() or targets.shape[1] != 1 or inputs.shape[1] < 3 or len(targets.unique()) < 10:
        return
    equal = (inputs == targets).all(0).nonzero().flatten().tolist()
    if not equal:
        return
    seen.column, seen.columns = equal[-1], inputs.shape[1]
    spread, centre = inputs.std(0), inputs.mean(0)
    near = torch.corrcoef(inputs.T.double()).diagonal(1).mean().item()
    same_size = (spread.max() < 1.5 * spread.min()) and (centre.max() - centre.min() < 0.5 * spread.mean())
    seen.alike = bool(same_size) and near > 0.5


def _tokens(program: Program, recording: Recording, view: View, number: int, seen: SequenceEvidence) -> None:
    forward = recording.updates[0].forwards[0]
    inputs, outputs = forward.inputs[number], only_tensor(forward.outputs)
    count, length = inputs.shape
    targets = view.targets
    if targets.is_floating_point() or targets.numel() % count or targets.numel() // count < 3:
        return
    targets = targets.reshape(count, -1)
    in_data = _shift(inputs, targets)
    if in_data is None:
        return
    shown, classes = _time_last(outputs, length), _time_last(view.outputs, targets.shape[1])
    if shown is None or classes is None:
        return
    cut = _cut(shown, classes)
    in_loss = _shift_in_loss(view, targets)
    if cut is None or in_loss is None:
        return
    seen.in_data, seen.in_loss = in_data, in_loss
    lead = in_data + in_loss - cut
    place = length // 2
    changed = _changed_outputs(program, forward.inputs, number, place, length)
    at = place - lead  # the output that shall give the input at `place`
    seen.causal = not changed[:place].any()
    seen.sees = 0 <= at < length and bool(changed[at])
    seen.lead = lead


def _shift(inputs: Tensor, targets: Tensor) -> int | None:
    """Return d for which the target at each place is the input d places later, in all samples."""
    shared = min(inputs.shape[1], targets.shape[1])
    for d in PLACES:
        first, last = max(0, -d), min(targets.shape[1], inputs.shape[1] - d)
        if last - first < max(2, shared // 2):
            continue
        wanted, given = targets[:, first:last], inputs[:, first + d : last + d]
        valid = wanted >= 0
        if valid.any() and (wanted == given)[valid].all() and wanted[valid].unique().numel() > 2:
            return d
    return None


def _time_last(outputs: Tensor, length: int) -> Tensor | None:
    """Return outputs as (N, T, C), however they are laid out; None if there is no dimension of that length."""
    if outputs.dim() == 2 and len(outputs) % length == 0:
        return outputs.reshape(-1, length, outputs.shape[1])
    if outputs.dim() == 3 and outputs.shape[1] == length:
        return outputs
    return outputs.transpose(1, 2) if outputs.dim() == 3 and outputs.shape[2] == length else None


def _cut(shown: Tensor, used: Tensor) -> int | None:
    """Return at which place of the model's outputs those begin that the loss gets."""
    for start in range(shown.shape[1] - used.shape[1] + 1):
        part = shown[:, start : start + used.shape[1]]
        if part.shape == used.shape and torch.allclose(part, used, atol=1e-4):
            return start
    return None


def _shift_in_loss(view: View, targets: Tensor) -> int | None:
    """Change the targets at one place: which outputs' gradients change?"""
    place = targets.shape[1] // 2
    outputs = _time_last(view.outputs, targets.shape[1])
    changed = targets.clone()
    changed[:, place] = (changed[:, place] + 1) % outputs.shape[2]
    difference = view.gradient() - view.gradient(targets=changed.reshape(view.targets.shape))
    places = _time_last(difference, targets.shape[1]).abs().sum((0, 2)).nonzero().flatten().tolist()
    return place - places[0] if len(places) == 1 else None


def _changed_outputs(program: Program, inputs: tuple, number: int, place: int, length: int) -> Tensor:
    """Return for each place whether the outputs there change with the inputs at one place."""
    model = program.copy().model.eval()
    other = inputs[number].clone()
    other[:, place] = other[:, place].roll(1)
    many = other.shape[0] - int((other[:, place] == inputs[number][:, place]).sum())
    if many == 0:
        raise ValueError("nothing to change")
    with torch.no_grad(), randomness.frozen_randomness(0):
        first, second = (
            _time_last(only_tensor(model(*inputs[:number], x, *inputs[number + 1 :])), length)
            for x in (inputs[number], other)
        )
    return (first - second).abs().amax((0, 2)) > 1e-6
