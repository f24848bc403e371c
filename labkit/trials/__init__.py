"""Short trials of a model that leave no trace: what they do to weights, optimizer and random numbers is put back."""

from labkit.trials.overfit import Overfit, overfit_small_batch
from labkit.trials.untouched import TrialWarning, untouched

__all__ = ["Overfit", "TrialWarning", "overfit_small_batch", "untouched"]
