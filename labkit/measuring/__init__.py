"""How good is a model? Its loss, its right answers, its predictions; and why there are none. Chapter 05 reads these."""

from labkit.measuring.losses import Batch, LossFunction, balanced_weights, cross_entropy
from labkit.measuring.metrics import Metrics, evaluate, evaluation
from labkit.measuring.predictions import Predictions, predict

__all__ = [
    "Batch",
    "LossFunction",
    "Metrics",
    "Predictions",
    "balanced_weights",
    "cross_entropy",
    "evaluate",
    "evaluation",
    "predict",
]
