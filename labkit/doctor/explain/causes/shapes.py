"""Sizes that do not fit: products, convolutions, broadcasting, joining, reshaping."""

import re

import torch.nn as nn

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.situation import Situation


@explains("matmul-shapes", "RuntimeError", r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)")
def product(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a matrix product: of a Linear layer, or of two tensors."""
    _, size, wanted, gives = map(int, match.groups())
    name = situation.name_of(situation.input) or situation.argument(0)
    if isinstance(situation.layer, nn.Linear):
        return Reason(
            f"{situation.layer_name} takes {wanted} numbers a sample, and {name or 'its input'} has {size}.",
            "The last size of the input must be in_features.",
            (Cause("in_features is not the size of what comes in.", f"nn.Linear({size}, {gives})"),),
            tuple(filter(None, (name,))),
        )
    return None
