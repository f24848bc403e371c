"""Targets that name a class which the model does not have."""

import re

import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.losses import names_of, outputs_of, targets_of
from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.situation import Situation

_CROSS_ENTROPY = (
    "Cross-entropy takes outputs (batch, classes) and class numbers (batch,) of int64; or shares of every "
    "class, floats "
    "of the shape of the outputs."
)


@explains(
    "target-out-of-range",
    "IndexError RuntimeError",
    r"Target (-?\d+) is out of bounds",
    r"(Class values must be) (?:smaller than num_classes|non-negative)",
    r"(target) out of range",
)
def out_of_range(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a class number that the model has no output for."""
    outputs, targets = outputs_of(situation), targets_of(situation)
    x, y = outputs.value, targets.value
    if match[1] in ("target", "Class values must be"):
        value = next((one for one in situation.focus if isinstance(one.value, Tensor)), None)
        if match[1] != "target" and value is not None:
            targets, y = value, value.value
        elif match[1] == "target" and not isinstance(y, Tensor):
            return None
    it = simple(targets.name if not targets.name.startswith("the ") else "targets")
    classes = x.shape[1 if x.ndim > 1 else 0] if isinstance(x, Tensor) else None
    if not isinstance(y, Tensor) and not match[1].lstrip("-").isdigit():
        return None
    if not isinstance(y, Tensor):
        low = high = int(match[1])
    else:
        low, high = int(y.min()), int(y.max())
    ignored = (
        [value for value in y.unique().tolist() if not 0 <= value < (classes or 1)] if isinstance(y, Tensor) else []
    )
    causes = []
    if low < 0 or (high >= 200 and len(ignored) == 1):
        value = low if low < 0 else high
        why = f"{value} marks what has no class, and must be left out."
        loss = "nn.CrossEntropyLoss" if not isinstance(situation.layer, nn.NLLLoss) else "nn.NLLLoss"
        causes.append(Cause(why, f"{loss}(ignore_index={value})"))
    if classes is not None and high == classes and low >= 1:
        causes.append(Cause(f"The classes are counted from 1 to {classes}, and PyTorch counts from 0.", f"{it} - 1"))
    elif classes is not None and low > 0 and low <= high < low + classes and isinstance(y, Tensor):
        why = f"The classes are numbered from {low} to {high}, and PyTorch counts from 0."
        causes.append(Cause(why, f"{it} - {low}  # or {it}.unique(return_inverse=True)[1]"))
    if classes is not None and high >= classes and not (causes and high >= 200):
        causes.append(_more_outputs(situation, classes, high + 1))
        if classes == 1:
            why = "There is one output: for yes or no that is another loss."
            causes.insert(0, Cause(why, f"nn.BCEWithLogitsLoss()({outputs.name}.squeeze(1), {targets.name}.float())"))
        elif high == classes and low == 0:
            causes.append(Cause(f"Or {high} is no class of its own, and was counted wrongly.", f"{it}.unique()"))
    if not causes:
        causes.append(Cause("There are more classes than were asked for.", f"num_classes={high + 1}"))
    limit = f", and the classes are 0 to {classes - 1}" if classes else ""
    return Reason(
        f"`{targets.name}` goes from {low} to {high}{limit}.",
        "Targets are class numbers from 0 to the number of outputs minus 1.",
        tuple(causes),
        names_of(targets, outputs),
    )


def _more_outputs(situation: Situation, classes: int, wanted: int) -> Cause:
    why = f"The model has {classes} outputs, and there are at least {wanted} classes."
    for _, model in situation.models:
        last = [module for module in model.modules() if getattr(module, "out_features", None) == classes]
        if last:
            name = situation.name_in_model(last[-1])
            fix = f"nn.Linear({last[-1].in_features}, {wanted})"
            return Cause(why, f"{fix}  # in place of {name}" if name else fix)
    return Cause(why, f"nn.Linear(…, {wanted})  # as the last layer")
