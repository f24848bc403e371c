"""Outputs and targets of the losses for yes or no: floats, equal shapes, probabilities."""

import re

import torch
from torch import Tensor

from labkit.doctor.explain.causes.losses import outputs_of, targets_of
from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import dtype, named, numbers, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.situation import Situation


def _in_binary_loss(situation: Situation) -> bool:
    return any(place.function.startswith("binary_cross_entropy") for place in situation.raised.library_places)


@explains(
    "bce-target-dtype",
    "RuntimeError NotImplementedError",
    r"Found dtype (\w+) but expected (\w+)",
    r"result type (\w+) can't be cast to the desired output type (\w+)",
    r"Subtraction, the `-` operator, with (two) (bool) tensors is not supported",
)
def target_dtype(match: re.Match, situation: Situation) -> Reason | None:
    """Explain targets that are whole numbers, truth values or float64."""
    if not _in_binary_loss(situation):
        return None
    outputs, targets = outputs_of(situation), targets_of(situation)
    x, y = outputs.value, targets.value
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return None
    if not y.is_floating_point() and y.dtype != torch.bool and int(y.max()) > 1:
        why = f"`{targets.name}` goes up to {int(y.max())}: these are class numbers, and that is another loss."
        cause = Cause(why, f"nn.CrossEntropyLoss()({outputs.name}, {targets.name})  # with an output for each class")
        what = f"`{targets.name}` is {dtype(y)}, and `{outputs.name}` is {dtype(x)}."
        return Reason(
            what, "A binary loss is for targets from 0.0 to 1.0.", (cause,), named(targets.name, outputs.name)
        )
    odd, other = (targets, outputs) if x.is_floating_point() and y.dtype != torch.float32 else (outputs, targets)
    return Reason(
        f"`{odd.name}` is {dtype(odd.value)}, and `{other.name}` is {dtype(other.value)}.",
        "A binary loss compares probabilities: outputs and targets are floats of one dtype.",
        (Cause("Labels 0 and 1 must become 0.0 and 1.0.", f"{simple(odd.name)}.float()"),),
        named(odd.name, other.name),
    )


@explains(
    "bce-target-shape",
    "ValueError",
    r"Target size \(torch\.Size\(\[([\d, ]*)\]\)\) must be the same as input size \(torch\.Size\(\[([\d, ]*)\]\)\)",
    r"target size \(torch\.Size\(\[([\d, ]*)\]\)\) that is different to the input size "
    r"\(torch\.Size\(\[([\d, ]*)\]\)\)",
)
def target_shape(match: re.Match, situation: Situation) -> Reason:
    """Explain (N,) against (N, 1), and class numbers for several outputs."""
    outputs, targets = outputs_of(situation), targets_of(situation)
    return shapes_differ(outputs.name, numbers(match[2]), targets.name, numbers(match[1]))


def shapes_differ(outputs: str, x: tuple[int, ...], targets: str, y: tuple[int, ...]) -> Reason:
    """Return why outputs of shape x and targets of shape y do not go together."""
    out, it = simple(outputs), simple(targets)
    causes = []
    if x == (*y, 1):
        causes.append(Cause("The model gives a column, and the targets are a row.", f"{out}.squeeze({len(x) - 1})"))
        causes.append(Cause("Or make the targets a column.", f"{it}.unsqueeze({len(x) - 1})"))
    elif y == (*x, 1):
        causes.append(Cause("The targets are a column, and the outputs a row.", f"{it}.squeeze({len(y) - 1})"))
        causes.append(Cause("Or make the outputs a column.", f"{out}.unsqueeze({len(y) - 1})"))
    elif len(x) == 4 and len(y) == 3 and x == (y[0], 1, *y[1:]):
        causes.append(Cause("The targets have no dimension for channels.", f"{it}.unsqueeze(1)"))
    elif len(x) == len(y) == 2 and x[0] == y[0] and y[1] == 1:
        why = f"There are {x[1]} outputs and one answer for each sample."
        causes.append(Cause(why, "nn.Linear(…, 1)  # as the last layer"))
        why = "Or the outputs are classes, and the targets their numbers: that is another loss."
        causes.append(Cause(why, f"nn.CrossEntropyLoss()({outputs}, {it}.squeeze(1).long())"))
    elif len(x) == 2 and len(y) == 1 and x[0] == y[0]:
        why = f"There are {x[1]} outputs and one class number for each sample: that is another loss."
        causes.append(Cause(why, f"nn.CrossEntropyLoss()({outputs}, {targets}.long())"))
        why = "Or every output is a yes or no of its own, and the targets must be rows."
        causes.append(Cause(why, f"F.one_hot({targets}.long(), {x[1]}).float()"))
    elif len(x) == len(y) and x[:1] != y[:1]:
        causes.append(
            Cause("Outputs and targets are from different batches.", f"assert len({outputs}) == len({targets})")
        )
    else:
        causes.append(Cause("The targets must have a value for every output.", f"{it}.reshape({outputs}.shape)"))
    return Reason(
        f"`{outputs}` is {shape(x)}, and `{targets}` is {shape(y)}.",
        "This loss compares element by element: outputs and targets have one shape.",
        tuple(causes),
        named(*(name for name in (outputs, targets) if not name.startswith("the "))),
    )


@explains(
    "bce-range",
    "RuntimeError",
    r"all elements of (input|target) should be between 0 and 1",
    r"input_val >= zero && input_val <= one",
)
def out_of_range(match: re.Match, situation: Situation) -> Reason | None:
    """Explain logits, NaN, or targets that are no probabilities."""
    outputs, targets = outputs_of(situation), targets_of(situation)
    odd = targets if match[0].startswith("all elements of target") else outputs
    if not isinstance(odd.value, Tensor):
        return None
    value = odd.value.detach().float()
    name = simple(odd.name)
    if odd is outputs and bool(value.isnan().any()):
        what = f"`{odd.name}` has {int(value.isnan().sum())} NaN of {value.numel()} values."
        causes = (
            Cause(
                "The training has gone out of hand: NaN in the data, or a learning rate that is too high.",
                f"assert inputs.isfinite().all()  # then look at the layers before `{odd.name}`",
            ),
        )
        return Reason(what, "NaN is no probability.", causes, named(odd.name, targets.name))
    what = f"`{odd.name}` goes from {value.min():.4g} to {value.max():.4g}."
    rule = "BCELoss takes probabilities, from 0 to 1."
    if odd is outputs:
        causes = (
            Cause(
                "The outputs are logits; there is a loss that takes those, and it is more exact.",
                f"nn.BCEWithLogitsLoss()({outputs.name}, {targets.name})",
            ),
            Cause("Or the sigmoid is missing at the end of the model.", f"torch.sigmoid({outputs.name})"),
        )
        return Reason(what, rule, causes, named(outputs.name, targets.name))
    high, low = value.max(), value.min()
    if high > 2:
        causes = (Cause("The targets are a picture from 0 to 255.", f"{name} / 255"),) if high > 99 else ()
        causes += (
            Cause("Or they are class numbers: that is another loss.", f"nn.CrossEntropyLoss()  # for {name}.long()"),
        )
    elif low < 0:
        causes = (Cause("The labels are -1 and 1.", f"({name} + 1) / 2"),)
    else:
        causes = (Cause("The labels are 1 and 2.", f"{name} - 1"),)
    return Reason(what, rule, causes, named(targets.name, outputs.name))
