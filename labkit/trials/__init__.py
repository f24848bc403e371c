"""Short trials of a model that leave no trace: what they do to weights, optimizer and random numbers is put back."""

from labkit.trials.fitting import LargestBatch, largest_batch
from labkit.trials.learning_rate import LearningRateTrial, find_learning_rate
from labkit.trials.memory import MemoryEstimate, estimate_memory
from labkit.trials.overfit import Overfit, overfit_small_batch
from labkit.trials.step_profile import StepProfile, profile_step
from labkit.trials.untouched import TrialWarning, untouched

__all__ = [
    "LargestBatch",
    "LearningRateTrial",
    "MemoryEstimate",
    "Overfit",
    "StepProfile",
    "TrialWarning",
    "estimate_memory",
    "find_learning_rate",
    "largest_batch",
    "overfit_small_batch",
    "profile_step",
    "untouched",
]
