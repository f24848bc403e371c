"""How much each class pulls at the network: how often it is delivered, and how much the loss makes of it."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from labkit.doctor.probe.data_reading import Samples, has_places, order_of, size, spread_out
from labkit.doctor.program import Program
from labkit.doctor.records import LossCall, Recording

MOST_CLASSES = 20


@dataclass
class BalanceEvidence:
    """Shares of the classes, by class number; empty where they are not known.

    stored: in the data set. drawn: as the sampler draws them. delivered: in the targets that loss_fn saw. pull: of the
    gradient at the outputs that all the targets of a class make together, if the network says nothing yet.
    samples: places of the data set whose labels were read. cells: whether classes are those of pixels or places.
    """

    stored: dict[int, float] = field(default_factory=dict)
    drawn: dict[int, float] = field(default_factory=dict)
    delivered: dict[int, float] = field(default_factory=dict)
    pull: dict[int, float] = field(default_factory=dict)
    samples: int = 0
    cells: bool = False


def look_at_balance(
    program: Program, recording: Recording, samples: dict[str, Samples | None], loaders: dict[str, Any]
) -> BalanceEvidence:
    """Look at the labels in the store, at what a sampler makes of them, and at the gradients of the loss."""
    found = BalanceEvidence()
    _sampler(samples["train"], loaders["train"], found)
    counts: dict[int, float] = {}
    pulls: dict[int, float] = {}
    for call in [call for update in recording.updates for call in update.losses if call.requires_grad]:
        outputs, classes = cells_of(call.outputs, call.targets)
        if classes is None:
            return found
        found.cells = found.cells or call.targets.dim() > 2
        gradient = _pull(recording.program, call, outputs)
        for number in classes[classes >= 0].unique().tolist():  # what is below 0 is left out by the loss
            counts[number] = counts.get(number, 0) + int((classes == number).sum())
            pulls[number] = pulls.get(number, 0) + float(gradient[classes == number].sum())
    if 2 <= len(counts) <= MOST_CLASSES and sum(pulls.values()) > 0:
        found.delivered, found.pull = _shares(counts), _shares(pulls)
    return found


def _shares(parts: dict[int, float]) -> dict[int, float]:
    return {number: parts[number] / sum(parts.values()) for number in sorted(parts)}


def _sampler(samples: Samples | None, loader: Any, found: BalanceEvidence) -> None:
    if samples is None or samples.classes is None or not has_places(loader) or loader.batch_sampler is None:
        return
    places = spread_out(size(loader), 2000)[: len(samples)]  # as they were read
    labels = samples.classes.flatten().long()
    orders = [order_of(loader, seed) for seed in range(3)]
    if not all(orders) or len(labels.unique()) > MOST_CLASSES:
        return
    drawn = torch.tensor([place for order in orders for batch in order for place in batch])
    times = torch.bincount(drawn, minlength=size(loader))[places].double()
    found.samples = len(labels)
    known = labels.unique().tolist()
    found.stored = _shares({number: float((labels == number).sum()) for number in known})
    if times.sum():
        found.drawn = _shares({number: float(times[labels == number].sum()) for number in known})


def cells_of(outputs: Any, targets: Any) -> tuple[Any, Tensor | None]:
    """Return (outputs, class of each target: one a row or one a pixel), (outputs, None) for targets of another kind."""
    if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor) or not targets.numel():
        return outputs, None
    if not targets.is_floating_point() and outputs.shape[:1] + outputs.shape[2:] == targets.shape:
        return outputs, targets if len(targets.unique()) <= MOST_CLASSES else None
    if outputs.shape != targets.shape or not ((targets == 0) | (targets == 1)).all():
        return outputs, None
    if targets.dim() == 2 and targets.shape[1] > 1:  # rows: one class each, or several tags at once
        return outputs, targets.argmax(1) if bool((targets.sum(1) == 1).all()) else None
    return outputs, targets.long()


def _pull(program: Program, call: LossCall, outputs: Tensor) -> Tensor:
    """Return the size of the gradient at each target when all outputs are alike; 0.5 where they are probabilities."""
    probabilities = bool((outputs >= 0).all() and (outputs <= 1).all())
    neutral = torch.full_like(outputs, 0.5 if probabilities else 0.0).requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(program.loss_fn(neutral, call.targets), neutral)
    gradient = gradient.abs()
    return gradient.sum(1) if outputs.dim() == call.targets.dim() + 1 or _rows(call.targets) else gradient


def _rows(targets: Tensor) -> bool:
    return targets.dim() == 2 and targets.shape[1] > 1
