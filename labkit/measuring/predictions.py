"""What a model says about every sample, and what can be read from that: confusions, precision, recall, mistakes."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn as nn
from torch import Tensor

from labkit.errors import DataError, NonFiniteError
from labkit.measuring.losses import Batch
from labkit.measuring.metrics import device_of, evaluation
from labkit.measuring.misfit import checked, explained
from labkit.table import Table


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says about every sample of a loader, in its order.

    logits: float32 (N, K) on the CPU; targets: int64 (N,); classes: K names, numbers where nobody named them.
    Raises DataError when these do not fit together, NonFiniteError when a logit is NaN.
    """

    logits: Tensor
    targets: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        logits, targets, count = self.logits, self.targets, len(self.classes)
        if logits.ndim != 2 or logits.shape[1] != count:
            raise DataError(
                f"The model returned {tuple(logits.shape)} for {len(targets)} samples, but there are {count} classes: "
                "it must have one output for each class."
            )
        if targets.dtype != torch.int64 or targets.shape != logits.shape[:1]:
            raise DataError(
                f"The targets must be class numbers, int64 of shape ({len(logits)},), got {targets.dtype} of shape "
                f"{tuple(targets.shape)}."
            )
        low, high = int(targets.min()), int(targets.max())
        if low < 0 or high >= count:
            raise DataError(f"The targets run from {low} to {high}, but the classes are numbered 0 to {count - 1}.")
        broken = int(logits.isnan().any(dim=1).sum())
        if broken:
            raise NonFiniteError(
                f"The outputs for {broken} of {len(logits)} samples are NaN, so they answer nothing. Look for NaN "
                "in the inputs and in the weights."
            )

    @cached_property
    def labels(self) -> Tensor:
        """The predicted class of each sample: int64 (N,)."""
        return self.logits.argmax(dim=1)

    @cached_property
    def probabilities(self) -> Tensor:
        """The softmax of the logits: float32 (N, K); rows sum to 1."""
        return self.logits.softmax(dim=1)

    @property
    def accuracy(self) -> float:
        """The share of samples classified right."""
        return int((self.labels == self.targets).sum()) / len(self.targets)

    def confusion(self) -> Tensor:
        """Return how often class i (row) was called class j (column): int64 (K, K)."""
        classes = len(self.classes)
        return torch.bincount(self.targets * classes + self.labels, minlength=classes**2).reshape(classes, classes)

    def per_class(self) -> Table:
        """Return count, precision and recall of each class; a class that was never predicted has no precision."""
        matrix = self.confusion()
        rows = []
        for label, name in enumerate(self.classes):
            right, truly, called = int(matrix[label, label]), int(matrix[label].sum()), int(matrix[:, label].sum())
            rows.append(
                {
                    "class": name,
                    "pictures": truly,
                    "precision": round(right / called, 4) if called else float("nan"),
                    "recall": round(right / truly, 4) if truly else float("nan"),
                }
            )
        return Table(rows, f"Accuracy {self.accuracy:.2%} on {len(self.targets):,} pictures")

    def mistakes(self, count: int = 12) -> Tensor:
        """Return the indices of the wrong answers, those the model was surest of first: int64, at most `count`."""
        wrong = torch.nonzero(self.labels != self.targets).flatten()
        confidence = self.probabilities[wrong, self.labels[wrong]]
        return wrong[confidence.argsort(descending=True, stable=True)][:count]


def predict(model: nn.Module, loader: Iterable[Batch]) -> Predictions:
    """Return the model's logits and the targets for everything a loader gives, on the CPU.

    Raises DataError if the loader gives nothing, or not what the model is for.
    """
    device = device_of(model)
    logits, answers = [], []
    with evaluation(model):
        for batch in loader:
            inputs, targets = (part.to(device) for part in checked(batch))
            with explained(model, [(inputs, targets)]):
                logits.append(model(inputs).float().cpu())
            answers.append(targets.cpu())
    if not logits:
        raise DataError("predict: the loader gave no batch, so there is nothing to predict.")
    outputs = torch.cat(logits)
    classes = getattr(loader, "classes", ()) or tuple(str(label) for label in range(outputs.shape[1]))
    return Predictions(outputs, torch.cat(answers), classes)
