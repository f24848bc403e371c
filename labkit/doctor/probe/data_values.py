"""What the numbers in the samples are: finite or not, how large, and whether the targets are what the loss takes."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from labkit import randomness
from labkit.doctor.nested import leaves
from labkit.doctor.probe.data_reading import Samples, pair
from labkit.doctor.program import Program
from labkit.doctor.records import Recording


@dataclass
class ValuesEvidence:
    """What was seen of the values.

    not_finite: part ("train inputs", ...) -> how many of the samples that were read have a NaN or an infinity.
    breaks: whether an update on such a batch gives a loss or weights that are not finite; None if not tried.
    read: part -> samples read. mean, std: of all training inputs that are floating point (None if they are not).
    loudest, usual: largest and median deviation of a feature. shape: of one training input.
    encoding: what is wrong with the targets, in words, or "". mend: the line of code against it.
    """

    not_finite: dict[str, int] = field(default_factory=dict)
    breaks: bool | None = None
    read: dict[str, int] = field(default_factory=dict)
    mean: float | None = None
    std: float | None = None
    loudest: float = 0.0
    usual: float = 0.0
    shape: tuple[int, ...] = ()
    encoding: str = ""
    mend: str = ""


def look_at_values(
    program: Program, recording: Recording, batches: dict[str, list], seen: dict[str, Samples | None]
) -> ValuesEvidence:
    """Look at the values of batches ("train", "val") and at the targets of the loss calls in a recording."""
    found = ValuesEvidence()
    _finite(program, batches, seen, found)
    _scale(seen["train"], found)
    found.encoding, found.mend = encoding_of(recording)
    return found


def not_finite(thing: Any) -> int:
    """Return how many samples of a batch have a value that is not finite (in its first axis)."""
    count = 0
    for leaf in leaves(thing):
        if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.numel():
            bad = ~leaf.isfinite()
            count = max(count, int(bad.flatten(1).any(1).sum() if leaf.dim() > 1 else bad.sum()))
    return count


def _finite(program: Program, batches: dict[str, list], seen: dict[str, Samples | None], found: ValuesEvidence) -> None:
    broken = None
    for part, drawn in batches.items():
        for batch in drawn:
            inputs, targets = pair(batch)
            for name, piece in (("inputs", inputs), ("targets", targets)):
                if count := not_finite(piece):
                    found.not_finite[f"{part} {name}"] = found.not_finite.get(f"{part} {name}", 0) + count
                    broken = batch if broken is None and part == "train" else broken
        whole = seen[part]
        found.read[part] = max(sum(_length(batch) for batch in drawn), len(whole) if whole is not None else 0)
        if whole is not None and len(whole) >= found.read[part]:
            for name, piece in (("inputs", whole.inputs), ("targets", whole.targets)):
                if (count := not_finite(piece)) > found.not_finite.get(f"{part} {name}", 0):
                    found.not_finite[f"{part} {name}"] = count
                    if broken is None and part == "train" and piece is not None:
                        broken = _around(program, whole, piece)
    if broken is not None:
        found.breaks = _breaks(program, broken)


def _length(batch: Any) -> int:
    first = next((leaf for leaf in leaves(batch) if isinstance(leaf, Tensor) and leaf.dim()), None)
    return 0 if first is None else len(first)


def _around(program: Program, whole: Samples, piece: Tensor) -> Any:
    """Return a batch with the first sample that is not finite, collated as the loader does it."""
    bad = ~piece.flatten(1).isfinite().all(1) if piece.dim() > 1 else ~piece.isfinite()
    place = int(bad.nonzero()[0])
    rows = [number % len(piece) for number in range(place, place + min(16, len(piece)))]
    return whole.inputs[rows], whole.targets[rows]


def _breaks(program: Program, batch: Any) -> bool | None:
    trial = program.copy()
    trial.model.train()
    try:
        with randomness.frozen_randomness(0):
            result = trial.step(batch)
    except Exception:  # a step that raises says nothing about the values
        return None
    broken = isinstance(result, float | Tensor) and not math.isfinite(float(result))
    return broken or any(not parameter.isfinite().all() for parameter in trial.model.parameters())


def _scale(samples: Samples | None, found: ValuesEvidence) -> None:
    inputs = samples.inputs if samples is not None else None
    if inputs is None or not inputs.is_floating_point() or len(inputs) < 8 or not inputs.isfinite().all():
        return
    inputs = inputs.double()
    found.shape = tuple(inputs.shape[1:])
    found.mean, found.std = inputs.mean().item(), inputs.std().item()
    features = inputs if inputs.dim() <= 2 else inputs.flatten(2).transpose(1, 2).flatten(0, 1)
    spread = features.reshape(len(features), -1).std(0)
    found.loudest, found.usual = spread.max().item(), spread.median().item()


def encoding_of(recording: Recording) -> tuple[str, str]:
    """Return (what is wrong with the targets for this loss, line that mends it), or two empty texts.

    After an exception: the targets of that batch beside the outputs that the model gave. Without one: whether the loss
    is the binary cross-entropy, to the digit, of targets outside 0 to 1.
    """
    calls = [call for update in recording.updates[:4] for call in update.losses]
    texts = [_beyond_zero_and_one(call.outputs, call.targets, call.value) for call in calls]
    if texts and sum(map(bool, texts)) > len(texts) // 2:  # once could be chance
        return next(filter(None, texts)), "targets = (targets > 0).float()  # 0 and 1"
    for update in recording.updates:
        if update.error is not None and update.forwards:
            return _unfit(update.forwards[-1].outputs, pair(update.batch)[1])
    return "", ""


def _beyond_zero_and_one(outputs: Any, targets: Any, value: Any) -> str:
    tensors = (outputs, targets, value)
    if not all(isinstance(tensor, Tensor) for tensor in tensors) or outputs.shape != targets.shape:
        return ""
    if not targets.is_floating_point() or value.numel() != 1 or (targets.min() >= 0 and targets.max() <= 1):
        return ""
    losses = functional.binary_cross_entropy_with_logits(outputs.float(), targets.float(), reduction="none")
    if not any(torch.allclose(value.float().reshape(()), each, rtol=1e-4) for each in (losses.mean(), losses.sum())):
        return ""
    values = targets.unique()
    shown = ", ".join(f"{value:g}" for value in values[:3].tolist()) + (" ..." if len(values) > 3 else "")
    between = f"between {values.min():g} and {values.max():g}"
    return f"The targets of the binary cross-entropy are {shown}: {between}, where 0 to 1 is meant"


def _unfit(outputs: Any, targets: Any) -> tuple[str, str]:
    """Compare targets with outputs (N, C, ...) of a loss that raised."""
    if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor) or outputs.dim() < 1:
        return "", ""
    shape, whole = tuple(outputs.shape), not targets.is_floating_point()
    without_classes = shape[:1] + shape[2:]
    if outputs.dim() >= 2 and shape[1] > 1 and tuple(targets.shape) == without_classes:
        classes, low, high = shape[1], targets.min().item(), targets.max().item()
        if whole and (high >= classes or (low < 0 and low != -100)):
            values = targets.unique()
            mend = "known = torch.unique(all_targets)\ntargets = torch.searchsorted(known, targets)"
            if low == 1 and high == classes:
                mend = "targets = targets - 1"
            return (
                f"The targets go from {low} to {high} ({len(values)} values in this batch), and the model has "
                f"{classes} outputs, for the classes 0 to {classes - 1}",
                mend,
            )
        if not whole and bool((targets == targets.round()).all()):
            return f"The class numbers are {targets.dtype} of shape {tuple(targets.shape)}", "targets = targets.long()"
    if (
        whole
        and tuple(targets.shape) == shape
        and shape[-1] > 1
        and bool((targets.sum(1) == 1).all())
        and targets.min() == 0
    ):
        return f"The targets are one-hot rows {tuple(targets.shape)} of {targets.dtype}", "targets = targets.argmax(1)"
    if whole and outputs.dim() == 2 and shape[1] > 1 and tuple(targets.shape) == (shape[0], 1):
        return f"The class numbers have the shape {tuple(targets.shape)}", "targets = targets.squeeze(1)"
    beyond = not whole and bool(targets.min() < 0 or targets.max() > 1)
    if tuple(targets.shape) == shape and beyond and outputs.min() >= 0 and outputs.max() <= 1:
        text = f"The targets go from {targets.min():g} to {targets.max():g}, where the loss takes 0 to 1"
        return text, "targets = (targets > 0).float()"
    return "", ""
