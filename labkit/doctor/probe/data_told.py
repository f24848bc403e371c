"""What the data give away: the answer in a feature, one answer for all; and samples that go from part to part."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import SequentialSampler

from labkit.doctor.probe.data_reading import Samples, draw, has_places, prints, stacked
from labkit.doctor.records import Recording

FEWEST = 100
SAME = 1e-5  # of a deviation: a feature that is so near the target is the target


@dataclass
class ToldEvidence:
    """Answers that are given away, or are none.

    feature: number of a feature that tells the target without any error in both parts, -1 if there is none. features:
    how many there are. exact: "class" or "number", what it tells. constant: the one class that all training targets
    are, None if there are several. outputs: classes that the network can say. read: validation samples of the second
    reading; wandered: those of them that were training samples in the first one, and no validation samples.
    """

    feature: int = -1
    features: int = 0
    exact: str = ""
    constant: int | None = None
    outputs: int = 0
    read: int = 0
    wandered: int = 0


def look_at_told(recording: Recording, seen: dict[str, Samples | None], loaders: dict[str, Any]) -> ToldEvidence:
    """Look for features that are the answer, for constant targets, and for samples that go from part to part."""
    found = ToldEvidence()
    train, val = seen.get("train"), seen.get("val")
    if train is not None and train.inputs is not None and train.targets is not None:
        _feature([part for part in (train, val) if part is not None], found)
        _constant(recording, train.targets, found)
    if loaders.get("val") is not None and not _stays(loaders["val"]):
        _wandered(loaders, found)
    return found


def _feature(parts: list[Samples], found: ToldEvidence) -> None:
    inputs, targets = parts[0].inputs, parts[0].targets
    if inputs.dim() != 2 or inputs.shape[1] < 3 or inputs.shape[1] > 500 or len(inputs) < FEWEST:
        return
    if targets.numel() != len(targets) or len(targets.unique()) < 2 or not _measured(inputs):
        return
    found.features = inputs.shape[1]
    for number in range(inputs.shape[1]):
        columns = [(part.inputs[:, number].double(), part.targets.flatten().double()) for part in parts]
        x, y = (torch.cat(side) for side in zip(*columns, strict=True))
        if kind := tells(x, y):
            found.feature, found.exact = number, kind
            return


def _measured(inputs: Tensor) -> bool:
    """Say whether most features are measurements; among words, bits or categories one may be the answer on purpose."""
    rich = [len(column.unique()) > len(column) // 4 for column in inputs.T]
    return inputs.is_floating_point() and sum(rich) > len(rich) // 2


def tells(x: Tensor, y: Tensor) -> str:
    """Return "class" if each value of x stands for one of as many values of y, "number" if y is a line in x, or ""."""
    values, number = y.unique(return_inverse=True)
    known, mine = x.unique(return_inverse=True)
    if len(values) <= 20:
        pairs = (mine * len(values) + number).unique()
        return "class" if len(known) == len(values) == len(pairs) else ""
    if x.std() < 1e-9 or not x.isfinite().all() or not y.isfinite().all():
        return ""
    unit = (x - x.mean()) / x.std()
    slope = (unit * y).mean() / unit.square().mean()
    return "number" if (y - y.mean() - slope * unit).abs().max() < SAME * y.std() else ""


def _constant(recording: Recording, targets: Tensor, found: ToldEvidence) -> None:
    """Look whether a classifier has one class as target throughout, and its loss depends on which one it is."""
    if targets.is_floating_point() or targets.numel() < FEWEST or len(targets.unique()) > 1:
        return
    calls = [call for update in recording.updates[:2] for call in update.losses]
    for call in calls:
        y, outputs = call.targets, call.outputs
        if not isinstance(y, Tensor) or not isinstance(outputs, Tensor) or outputs.dim() != y.dim() + 1:
            continue
        if outputs.shape[1] < 2 or not torch.equal(y, torch.full_like(y, int(targets.flatten()[0]))):
            continue
        other = recording.program.loss_fn(outputs, (y + 1) % outputs.shape[1])
        if not torch.equal(other, recording.program.loss_fn(outputs, y)):
            found.constant, found.outputs = int(y.flatten()[0]), outputs.shape[1]
            return


def _stays(loader: Any) -> bool:
    """Say whether a loader goes through its data set from the first to the last sample each time."""
    return has_places(loader) and isinstance(loader.sampler, SequentialSampler) and loader.batch_sampler is not None


def _wandered(loaders: dict[str, Any], found: ToldEvidence) -> None:
    """Read both parts as in a first epoch, and validation once more."""
    epochs = (("train", 0), ("val", 0), ("val", 1))
    read = [stacked(draw(loaders[part], most=1000, seed=seed)).inputs for part, seed in epochs]
    if any(part is None for part in read):
        return
    train, val, later = (set(prints(part)) for part in read)
    found.read, found.wandered = len(later), len((later - val) & train)
