"""Say why a batch, a model and a loss do not fit together, in place of what torch says about it."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn as nn
from torch import Tensor

from labkit.errors import ConfigError, DataError, DeviceError, LabkitError
from labkit.measuring.losses import Batch, LossFunction, is_cross_entropy
from labkit.models.inspect import shape_trace


def checked(batch: object) -> Batch:
    """Return a batch as (inputs, targets), or raise DataError that says what it is instead."""
    if not isinstance(batch, tuple | list) or len(batch) != 2 or not all(isinstance(part, Tensor) for part in batch):
        parts = ", ".join(type(part).__name__ for part in batch) if isinstance(batch, tuple | list) else ""
        raise DataError(
            f"A batch must be a pair (inputs, targets) of tensors, got {type(batch).__name__}"
            f"{f' of {parts}' if parts else ''}. A loader over a data set gives such pairs."
        )
    inputs, targets = batch
    if inputs.ndim == 0 or targets.ndim == 0 or len(inputs) != len(targets) or len(targets) == 0:
        raise DataError(
            "A batch must have at least one sample, and one target for each: "
            f"the inputs are {tuple(inputs.shape)}, the targets {tuple(targets.shape)}."
        )
    return inputs, targets


@contextmanager
def explained(model: nn.Module, batches: list[Batch], loss_fn: LossFunction | None = None) -> Iterator[None]:
    """Run a block that sends batches through model and loss; turn an error into a sentence where its reason is found.

    Costs nothing while all goes well. An error of which nothing is known goes on in its own words.
    """
    try:
        yield
    except LabkitError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            # The frames that the error came through hold every tensor of the step, and the error holds the frames.
            traceback.clear_frames(error.__traceback__)
            if torch.is_grad_enabled():  # an evaluation has made no gradients, and those that are there are not its own
                model.zero_grad()
            raise DeviceError(_too_much(model, batches)) from error.with_traceback(None)
        reason = _reason_of(error, batches) or next(filter(None, (_reason(model, *b, loss_fn) for b in batches)), None)
        if reason is None:
            raise
        raise reason from error


def _reason_of(error: Exception, batches: list[Batch]) -> LabkitError | None:
    """Find the reason in the words of the error."""
    text = str(error)
    if "device-side assert" in text:
        return DataError(
            "The GPU met an index that does not exist, most often a label outside 0 to K-1. device='cpu' names it; "
            "the GPU can be used again after a restart of the kernel."
        )
    if "Expected more than 1 value per channel" in text:
        return DataError(
            "A batch has one sample, and batch normalisation cannot be trained on that. Choose a batch_size that "
            "leaves no single sample over, or drop_last=True."
        )
    return None


def is_out_of_memory(error: Exception) -> bool:
    """Say whether an error means that the memory of the device, or of this computer, did not suffice."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _too_much(model: nn.Module, batches: list[Batch]) -> str:
    """Say what was tried with which memory, and what needs less."""
    inputs, size = batches[0][0], max(len(targets) for _, targets in batches)
    memory = ""
    if inputs.device.type == "cuda":
        free, total = torch.cuda.mem_get_info(inputs.device)
        memory = f" ({free / 2**30:.1f} of {total / 2**30:.1f} GiB are free again)"
    if size == 1:
        advice = "Even one sample is too much: make the model or the pictures smaller"
    elif torch.is_grad_enabled():
        advice = f"batch_size={size // 2} with accumulate={2 * len(batches)} makes the same update from half of it"
    else:
        advice = f"Use a smaller batch_size, such as {size // 2}"
    return (
        f"The memory of {inputs.device} is too small{memory}: tried a batch of {size} with inputs of "
        f"{tuple(inputs.shape[1:])} through {type(model).__name__}. {advice}."
    )


def _reason(model: nn.Module, inputs: Tensor, targets: Tensor, loss_fn: LossFunction | None) -> LabkitError | None:
    """Take the steps from the inputs to the loss once more, one by one, and say at which they do not fit."""
    try:
        outputs = model(inputs)
    except Exception:
        return _refused_inputs(model, inputs)
    if not isinstance(outputs, Tensor):
        return ConfigError(f"The model must return one tensor of outputs, got {type(outputs).__name__}.")
    if loss_fn is None:
        return None
    if is_cross_entropy(loss_fn) and (problem := _not_for_cross_entropy(outputs, targets)):
        return DataError(problem)
    try:
        loss = loss_fn(outputs, targets)
    except Exception:
        return None  # a loss of one's own speaks for itself
    if not isinstance(loss, Tensor) or loss.ndim > 0:
        found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        return ConfigError(f"loss_fn must return the mean loss of the batch, a tensor without dimensions, got {found}.")
    if torch.is_grad_enabled() and not loss.requires_grad:
        return ConfigError(
            "The loss does not depend on any trained parameter, so nothing can be learned. Look for detach(), item() "
            "or no_grad() in the model or the loss."
        )
    return None


def _refused_inputs(model: nn.Module, inputs: Tensor) -> LabkitError | None:
    weight = next(model.parameters(), None)
    if weight is not None and inputs.dtype != weight.dtype:
        return DataError(
            f"The inputs are {inputs.dtype} and the weights of the model {weight.dtype}. Turn one into the other; "
            "pictures become numbers around 0 in labkit.data.loader."
        )
    try:
        shape_trace(model, tuple(inputs.shape[1:]))
    except ConfigError as named:
        return named
    return None


def _not_for_cross_entropy(outputs: Tensor, targets: Tensor) -> str:
    """Say why cross-entropy cannot be taken of these: outputs (B, K), targets class numbers (B,) or shares (B, K)."""
    if outputs.ndim != 2 or len(outputs) != len(targets):
        return (
            f"The model must return one row of K outputs for each sample: for {len(targets)} samples it returned "
            f"{tuple(outputs.shape)}."
        )
    classes = outputs.shape[1]
    if targets.is_floating_point() and targets.shape == outputs.shape:
        return ""
    if targets.ndim != 1 or targets.dtype != torch.int64:
        return (
            f"The targets must be class numbers, int64 of shape ({len(targets)},), got {targets.dtype} of shape "
            f"{tuple(targets.shape)}. Use targets.long() or targets.squeeze(1); another task needs its own loss_fn."
        )
    low, high = int(targets.min()), int(targets.max())
    if low < 0 or high >= classes:
        return (
            f"A batch has targets from {low} to {high}, but the model has {classes} outputs, for the classes 0 to "
            f"{classes - 1}. Renumber the labels from 0, or give the model an output for each class."
        )
    return ""
