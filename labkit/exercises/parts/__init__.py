"""The parts of a training that a learner can write again: each an exercise whose answer can also be swapped in."""

from labkit.exercises.parts.batching import BATCHES
from labkit.exercises.parts.convolution import CONV2D
from labkit.exercises.parts.dropping import DROPOUT
from labkit.exercises.parts.linear import LINEAR
from labkit.exercises.parts.losses import CROSS_ENTROPY
from labkit.exercises.parts.normalising import BATCH_NORM
from labkit.exercises.parts.optimizing import SGD
from labkit.exercises.parts.stepping import TRAINING_STEP

#: Name of the part -> its exercise.
PARTS = {
    "linear": LINEAR,
    "conv2d": CONV2D,
    "batch_norm": BATCH_NORM,
    "dropout": DROPOUT,
    "loss": CROSS_ENTROPY,
    "optimizer": SGD,
    "batches": BATCHES,
    "training_step": TRAINING_STEP,
}

__all__ = ["PARTS"]
