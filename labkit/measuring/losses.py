"""The loss of a classification: a cross-entropy whose sums over samples are exact, in windows of any sizes."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.data.loading import Loader
from labkit.errors import ConfigError

LossFunction = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) -> mean over the batch, a scalar
Batch = tuple[Tensor, Tensor]  # inputs, targets


def cross_entropy(
    outputs: Tensor, targets: Tensor, label_smoothing: float = 0.0, class_weights: Tensor | None = None
) -> Tensor:
    """Return the mean cross-entropy of a batch, each sample multiplied by the weight of its class.

    outputs: float (B, K); targets: int64 (B,), or shares float (B, K); class_weights: float (K,). As torch's own, but
    without a class number (there -100) that secretly means "leave this sample out", and with a sum divided by the
    number of samples, not of weights: else sums over samples would silently be wrong.
    """
    settings = {"ignore_index": -(2**31), "label_smoothing": label_smoothing}
    if class_weights is None:
        return F.cross_entropy(outputs, targets, **settings)
    return F.cross_entropy(outputs, targets, class_weights, reduction="sum", **settings) / len(targets)


def is_cross_entropy(loss_fn: LossFunction) -> bool:
    """Say whether a loss is the one above, with or without settings."""
    return getattr(loss_fn, "func", loss_fn) is cross_entropy


def balanced_weights(loader: Loader) -> Tensor:
    """Return a weight for each class, so that all classes together weigh the same in an epoch: float32 (K,).

    Class c of n_c samples weighs N / (K · n_c): the mean over all N samples is 1, and the learning rate stays right.
    Raises ConfigError for a loader that does not know its labels beforehand.
    """
    labels = getattr(loader, "labels", None)
    if labels is None:
        raise ConfigError(
            "class_weights='balanced' must count the labels before the training. Give a labkit loader over an "
            "ImageSet, or a loss_fn with weights of your own."
        )
    counts = torch.bincount(labels, minlength=len(loader.classes))
    present = counts > 0
    return torch.where(present, len(labels) / (present.sum() * counts.clamp(min=1)), 0.0).to(torch.float32)
