"""Can the model learn a handful of samples by heart? If not, no amount of data and time will help."""

import math
from dataclasses import dataclass
from itertools import islice

import torch
import torch.nn as nn
from torch import Tensor

from labkit.measuring import Batch, LossFunction, cross_entropy
from labkit.measuring.metrics import count_correct, device_of, evaluation
from labkit.models import trained_parameters
from labkit.trials.steps import check, endless, one_epoch, one_update, positive_number, whole_number
from labkit.trials.untouched import untouched

FALL = 0.05  # learned by heart: the loss has fallen to this share of the first one, or below
STUCK = 0.9  # a loss that stays above this share of the first one has hardly moved


@dataclass(frozen=True)
class Overfit:
    """What came of learning a few samples by heart.

    losses: before each update. accuracy: the share of right answers afterwards in evaluation mode, None where the
    targets are no classes. passed: whether the model has learned them. advice: one sentence, what to look at.
    """

    losses: list[float]
    accuracy: float | None
    samples: int
    passed: bool
    advice: str

    def __repr__(self) -> str:
        right = "" if self.accuracy is None else f", {self.accuracy:.0%} right in evaluation mode"
        result = "passed" if self.passed else "failed"
        return (
            f"{result}: {self.samples} samples, {len(self.losses)} updates, loss {self.losses[0]:.3g} → "
            f"{self.losses[-1]:.3g}{right}. {self.advice}"
        )


def overfit_small_batch(
    model: nn.Module,
    source,
    loss_fn: LossFunction = cross_entropy,
    samples: int = 32,
    updates: int = 300,
    learning_rate: float = 3e-3,
) -> Overfit:
    """Train a copy of the model with Adam on the same few samples until it knows them, and say what came of it.

    source: a labkit Loader, a torch DataLoader, or one batch (inputs, targets). Model, loader and random numbers are
    left as they were. Raises ConfigError or DataError for what does not fit together.
    """
    check(model, source)
    whole_number("samples", samples)
    whole_number("updates", updates)
    positive_number("learning_rate", learning_rate)
    with untouched(model, loss_fn, source) as (model, loss_fn, source):
        batch = _first(source, samples, device_of(model))
        losses, outputs, accuracy = _learn(model, batch, loss_fn, updates, learning_rate)
        unreached = [name for name, one in model.named_parameters() if one.requires_grad and one.grad is None]
    right = _share_right(outputs, batch[1])
    passed = math.isfinite(losses[-1]) and (losses[-1] <= FALL * losses[0] if right is None else 1 in (right, accuracy))
    advice = _praise(accuracy) if passed else _what_to_look_at(losses, unreached, outputs, batch)
    return Overfit(losses, accuracy, len(batch[1]), passed, advice)


def _learn(
    model: nn.Module, batch: Batch, loss_fn: LossFunction, updates: int, learning_rate: float
) -> tuple[list[float], Tensor, float | None]:
    """Train on one batch until it is known in both modes; return losses, last outputs, accuracy in evaluation mode."""
    optimizer = torch.optim.Adam(trained_parameters(model), lr=learning_rate)
    losses, accuracy = [], None
    for same in islice(endless(batch, device_of(model)), updates):
        model.train()
        outputs, loss = one_update(model, same, loss_fn, optimizer)
        losses.append(loss)
        known = _share_right(outputs, batch[1]) in (1.0, None) and loss <= FALL * losses[0]
        if known or not math.isfinite(loss) or len(losses) == updates:
            with evaluation(model):
                accuracy = _share_right(model(batch[0].clone()), batch[1])
            if not known or accuracy in (1.0, None):
                break  # else batch normalisation needs some updates more for its statistics
    return losses, outputs, accuracy


def _first(source, samples: int, device: torch.device) -> Batch:
    """Return the first samples of a source as one batch; fewer, if there are no more that go into one."""
    found: list[Batch] = []
    for batch in one_epoch(source, device):
        if found and [part.shape[1:] for part in batch] != [part.shape[1:] for part in found[0]]:
            break  # padded to another length
        found.append(batch)
        if sum(len(targets) for _, targets in found) >= samples:
            break
    inputs, targets = (torch.cat(parts)[:samples] for parts in zip(*found, strict=True))
    return inputs, targets


def _share_right(outputs: Tensor, targets: Tensor) -> float | None:
    """Return the share of right answers; None where the targets are no class numbers."""
    if outputs.ndim != 2 or targets.ndim != 1 or targets.is_floating_point():
        return None
    return int(count_correct(outputs, targets)) / len(targets)


def _contradictions(batch: Batch) -> int:
    """Count the samples whose input occurs with another target, too: nothing can learn them all."""
    inputs, targets = batch
    _, group = torch.unique(inputs.flatten(1), dim=0, return_inverse=True)
    members = [[row for row, other in enumerate(group.tolist()) if other == number] for number in set(group.tolist())]
    return sum(len(rows) for rows in members if any(not torch.equal(targets[rows[0]], targets[row]) for row in rows))


def _are_probabilities(outputs: Tensor) -> bool:
    """Say whether each row holds several numbers of at least 0 that sum to 1, as softmax gives them."""
    rows = outputs.flatten(1).float()
    return rows.shape[1] > 1 and bool((rows >= 0).all() and ((rows.sum(dim=1) - 1).abs() < 1e-3).all())


def _praise(accuracy: float | None) -> str:
    if accuracy is not None and accuracy < 1:
        return (
            "It knows them in one mode only: look at what batch normalisation (in evaluation with its running "
            "statistics) and dropout (in training only) change."
        )
    return "Model, loss and gradients fit together, so look for what is missing in the data, the rate and the time."


def _what_to_look_at(losses: list[float], unreached: list[str], outputs: Tensor, batch: Batch) -> str:
    """Return one sentence: the first of the usual reasons that the numbers speak for."""
    if not math.isfinite(losses[-1]):
        return f"The loss is not finite in update {len(losses)}: look for NaN in the inputs, then lower learning_rate."
    if unreached:
        return (
            f"No gradient reaches {unreached[0]!r}{f' and {len(unreached) - 1} more' if len(unreached) > 1 else ''}: "
            "look in forward for a layer that is not called, for detach(), and for no_grad()."
        )
    if (contradicting := _contradictions(batch)) > 0:
        return f"{contradicting} samples have equal inputs and different targets: look at how inputs and labels meet."
    if _are_probabilities(outputs):
        return (
            "The outputs are probabilities already: cross-entropy takes its own softmax, so leave the model's last out."
        )
    if losses[-1] > STUCK * losses[0]:
        return (
            "The loss hardly moves: look for a ReLU behind the last layer and for inputs that are all alike, and try "
            "another learning_rate."
        )
    return "The loss falls and is not there yet: give more updates, or try another learning_rate; then a larger model."
