"""Say where a loss or gradient stopped being finite, and what was seen there."""

import torch

from labkit.data.loading import Loader
from labkit.errors import NonFiniteError
from labkit.runs import checkpoint
from labkit.training.state import Training
from labkit.training.weights import infinite_entries, load_weights


def save_if_finite(training: Training) -> None:
    """Write a checkpoint, unless something in it is not finite: a good one is never replaced by a spoilt one.

    An update can spoil the weights although its loss and its gradient were finite, for one by a rate that is far too
    high; the next loss would show it, too late. What was infinite before the first update, such as the buffer of an
    attention mask, is so on purpose.
    """
    stop_if_not_finite(training)
    spoilt = infinite_entries(training.model) - training.infinite_on_purpose
    if spoilt:
        kept = _back_to_last_checkpoint(training)
        raise NonFiniteError(
            f"After update {training.updates} the model has values in {min(spoilt)!r} that are NaN or infinite, and "
            f"training stopped. {kept} Try a lower learning_rate or clip_norm=1.0."
        )
    training.save()


def _back_to_last_checkpoint(training: Training) -> str:
    """Put the weights of the last checkpoint into the model, if there is one, and say so."""
    if not training.record:
        return "This process writes no checkpoints, so there is none to go back to."
    folder = training.record.folder
    load_weights(training.model, checkpoint.load(folder / "last.pt")["model"], folder)
    return f"The model holds the weights of the last checkpoint in {folder}."


def stop_if_not_finite(training: Training) -> None:
    """Raise NonFiniteError if an update of this epoch was skipped because its loss or gradient was not finite.

    The weights were not touched by it, but the running statistics of a batch normalisation were, so the model goes
    back to its last checkpoint. With float16 a skipped update is part of the method: the scale is halved and training
    goes on; only a scale below 1 shows that no scale would help. Waits for the device.
    """
    first = training.totals.skipped()
    if first is None or (training.scaler.is_enabled() and training.scaler.get_scale() >= 1):
        return
    size = training.config.accumulate
    batch = first * size
    kept = "The weights are those from before it."
    if training.record:
        kept = _back_to_last_checkpoint(training)
    raise NonFiniteError(
        f"The loss or a gradient became NaN or infinite in epoch {training.epoch + 1}, update {first + 1} "
        f"(batch {batch + 1}{f' to {batch + size}' if size > 1 else ''}), and training stopped. {kept} "
        f"{_cause(training, batch, size)}"
    )


def _cause(training: Training, batch: int, size: int) -> str:
    """Look at the batches in question once more, where the loader can give them again."""
    if isinstance(training.loader, Loader):
        for (inputs, _), _ in zip(training.loader.at(training.epoch, batch), range(size), strict=False):
            bad = int((~torch.isfinite(inputs)).sum())
            if bad:
                return f"The inputs of that batch hold {bad} values that are NaN or infinite: clean the data."
        return (
            "The inputs of that batch are finite, so the numbers grew in the model or the loss: try a lower "
            "learning_rate or clip_norm=1.0, and look for log, division or square root of 0."
        )
    return "Look at the inputs of that batch first, then try a lower learning_rate or clip_norm=1.0."
