"""Outputs and targets of a loss that classifies: dtypes, shapes, class numbers."""

import re

import torch
from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import dtype, named, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.operands import Operand
from labkit.doctor.explain.situation import Situation

_CROSS_ENTROPY = (
    "Cross-entropy takes outputs (batch, classes) and class numbers (batch,) of int64; or shares of every "
    "class, floats "
    "of the shape of the outputs."
)


def outputs_of(situation: Situation) -> Operand:
    """Return what a loss got as outputs, by the user's name."""
    return _given(situation, 0, "input", "the outputs")


def targets_of(situation: Situation) -> Operand:
    """Return what a loss got as targets, by the user's name."""
    return _given(situation, 1, "target", "the targets")


def _given(situation: Situation, number: int, key: str, otherwise: str) -> Operand:
    value = situation.library_value(key)
    name = (situation.name_of(value) if value is not None else "") or situation.argument(number, key)
    return Operand(name or otherwise, value)


def names_of(*operands: Operand) -> tuple[str, ...]:
    """Return the names of those that the user has a name for."""
    return named(*(one.name for one in operands if not one.name.startswith("the ")))


@explains(
    "target-dtype",
    "RuntimeError",
    r"expected target dtype to be Long or Byte, but got (\w+)",
    r"(one_hot) is only applicable to index tensor",
)
def wrong_dtype(match: re.Match, situation: Situation) -> Reason:
    """Explain class numbers that are floats or int32."""
    outputs, targets = outputs_of(situation), targets_of(situation)
    if match[1] == "one_hot":
        name = situation.argument(0)
        targets, outputs = Operand(name or "the targets", None), Operand("the outputs", None)
    it = simple(targets.name if not targets.name.startswith("the ") else "targets")
    kind = (
        dtype(targets.value) if isinstance(targets.value, Tensor) else match[1].lower().replace("one_hot", "not int64")
    )
    causes = [Cause("Class numbers are indices, and indices are int64.", f"{it}.long()")]
    x, y = outputs.value, targets.value
    if isinstance(x, Tensor) and isinstance(y, Tensor) and y.is_floating_point():
        one_output = x.ndim > 1 and x.shape[1] == 1
        if not torch.equal(y, y.round()):
            why = "The targets are no whole numbers: this is a regression."
            row = f"{simple(outputs.name)}.squeeze(1)" if one_output and y.ndim == 1 else outputs.name
            causes = [Cause(why, f"nn.MSELoss()({row}, {targets.name})")]
        elif one_output:
            why = "There is one output: for yes or no that is another loss."
            causes.insert(0, Cause(why, f"nn.BCEWithLogitsLoss()({outputs.name}.squeeze(1), {targets.name})"))
    return Reason(f"`{targets.name}` is {kind}.", _CROSS_ENTROPY, tuple(causes), names_of(targets, outputs))


@explains(
    "target-one-hot", "RuntimeError", r"Expected floating point type for target with class probabilities, got (\w+)"
)
def one_hot(match: re.Match, situation: Situation) -> Reason:
    """Explain one-hot rows of whole numbers, and outputs that have lost a dimension."""
    outputs, targets = outputs_of(situation), targets_of(situation)
    x, y = outputs.value, targets.value
    if isinstance(x, Tensor) and isinstance(y, Tensor) and x.ndim == 1:
        causes = [
            Cause(
                "The outputs have lost a dimension, by squeeze or by an index.",
                f"{simple(outputs.name)}.unsqueeze(0)  # for one sample",
            ),
            Cause(
                "There is one output for each sample: for yes or no that is another loss.",
                f"nn.BCEWithLogitsLoss()({outputs.name}, {targets.name}.float())",
            ),
        ]
        causes = causes[::-1] if len(x) > 1 else causes
        what = f"`{outputs.name}` is {shape(x)}, without classes, and `{targets.name}` has the same shape."
        return Reason(what, _CROSS_ENTROPY, tuple(causes), names_of(outputs, targets))
    it = simple(targets.name if not targets.name.startswith("the ") else "targets")
    if isinstance(y, Tensor) and not bool((y.sum(1) == 1).all()):
        why = "A sample can have several classes, or none: each is a yes or no, and that is another loss."
        causes = [Cause(why, f"nn.BCEWithLogitsLoss()({outputs.name}, {it}.float())")]
    else:
        causes = [Cause("It is one-hot; the class numbers say the same, and are faster.", f"{it}.argmax(1)")]
        causes.append(Cause("Shares of the classes must be floats.", f"{it}.float()"))
    return Reason(
        f"`{targets.name}` has the shape of the outputs{f', {shape(y)},' if isinstance(y, Tensor) else ''} and is "
        f"{dtype(y) if isinstance(y, Tensor) else match[1]}.",
        _CROSS_ENTROPY,
        tuple(causes),
        names_of(targets, outputs),
    )


@explains("target-dimensions", "RuntimeError", r"0D or 1D target tensor expected, multi-target not supported")
def dimensions(match: re.Match, situation: Situation) -> Reason | None:
    """Explain targets of (N, 1), and one-hot rows for a loss that takes class numbers."""
    if not any(place.function in ("cross_entropy", "nll_loss") for place in situation.raised.library_places):
        return None
    outputs, targets = outputs_of(situation), targets_of(situation)
    y, x = targets.value, outputs.value
    it = simple(targets.name if not targets.name.startswith("the ") else "targets")
    long = "" if not isinstance(y, Tensor) or y.dtype == torch.int64 else ".long()"
    if isinstance(y, Tensor) and isinstance(x, Tensor) and y.shape == x.shape and y.shape[-1] > 1:
        causes = [Cause("It is one-hot, and this loss takes class numbers.", f"{it}.argmax(1)")]
    elif isinstance(y, Tensor) and y.ndim > 1 and y.shape[-1] > 1:
        causes = [
            Cause(
                "There are several targets for a sample: for several yes or no that is another loss.",
                f"nn.BCEWithLogitsLoss()({outputs.name}, {targets.name})",
            )
        ]
        causes.append(Cause("Or only one of the columns holds the class.", f"{it}[:, 0]{long}"))
    else:
        causes = [Cause("A dimension of size 1 is left over, as from a column of a table.", f"{it}.squeeze(1){long}")]
    sizes = f" is {shape(y)}" if isinstance(y, Tensor) else " has a dimension too many"
    return Reason(f"`{targets.name}`{sizes}.", _CROSS_ENTROPY, tuple(causes), names_of(targets, outputs))


@explains(
    "batch-size-mismatch", "ValueError", r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)"
)
def batch_size(match: re.Match, situation: Situation) -> Reason:
    """Explain another number of rows of outputs than of targets."""
    outputs, targets = outputs_of(situation), targets_of(situation)
    x, y = outputs.value, targets.value
    rows, count = int(match[1]), int(match[2])
    out, it = simple(outputs.name), simple(targets.name)
    causes = []
    if isinstance(y, Tensor) and y.ndim == 0:
        causes.append(Cause("The target is a single number, without a batch.", f"{it}.unsqueeze(0)"))
    elif isinstance(y, Tensor) and y.ndim > 1 and y.numel() == rows:
        causes.append(Cause("The outputs were flattened over steps, and the targets were not.", f"{it}.flatten()"))
    elif isinstance(x, Tensor) and x.ndim > 2 and x.shape[0] * x.shape[1] == count:
        causes.append(Cause("The targets were flattened over steps, and the outputs were not.", f"{out}.flatten(0, 1)"))
    elif isinstance(x, Tensor) and x.ndim > 2 and x.shape[1] == count:
        causes.append(
            Cause(
                "The batch is the second dimension of the outputs, as with batch_first=False.", f"{out}.transpose(0, 1)"
            )
        )
    elif count > 0 and (rows % count == 0 or count % rows == 0):
        why = "A view or reshape in the model put several samples into a row, or one sample into several."
        causes.append(Cause(why, "x.flatten(1)  # in place of view(-1, …): keeps the batch"))
    else:
        why = f"They are from different batches, of {rows} and of {count} samples."
        causes.append(Cause(why, f"assert len({outputs.name}) == len({targets.name})"))
        why = "Or a view or reshape with -1 in the model changes the number of rows."
        causes.append(Cause(why, "x.flatten(1)  # in place of view(-1, …): keeps the batch"))
    sizes = [f" is {shape(value)}" if isinstance(value, Tensor) else "" for value in (x, y)]
    return Reason(
        f"`{outputs.name}`{sizes[0]}, and `{targets.name}`{sizes[1]}: {rows} rows for {count} targets.",
        "A model gives one row of outputs for each sample, and a loss wants one target for each row.",
        tuple(causes),
        names_of(outputs, targets),
    )


@explains(
    "target-shape",
    "RuntimeError",
    r"Expected target size \[([\d, ]*)\], got \[([\d, ]*)\]",
    r"only batches of spatial targets supported \(3D tensors\) but got targets of (?:dimension|size):? ?:? ?(.*)",
    r"size mismatch \(got input: \[([\d, ]*)\] ?, target: \[([\d, ]*)\]",
)
def target_shape(match: re.Match, situation: Situation) -> Reason:
    """Explain sequences with the classes last, and maps of classes of another size."""
    outputs, targets = outputs_of(situation), targets_of(situation)
    x, y = outputs.value, targets.value
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return None
    out, it = simple(outputs.name), simple(targets.name)
    causes = []
    if x.ndim == 3 and x.shape[:2] == y.shape:
        causes.append(Cause("The classes come last in the outputs, and belong second.", f"{out}.transpose(1, 2)"))
    elif x.ndim == 4 and x.shape[:3] == y.shape:
        causes.append(Cause("The classes come last in the outputs, and belong second.", f"{out}.permute(0, 3, 1, 2)"))
    elif y.ndim == x.ndim and y.shape[1] == 1:
        causes.append(Cause("The targets have a dimension for channels, of size 1.", f"{it}.squeeze(1)"))
    elif y.ndim == x.ndim:
        causes.append(Cause("The targets are one-hot, and this loss takes class numbers.", f"{it}.argmax(1)"))
    elif y.ndim == 1 and x.ndim > 2:
        places = ", ".join(str(place) for place in range(2, x.ndim))
        why = "There is one target for a sample, and the outputs still have sides or steps."
        causes.append(Cause(why, f"{out}.mean(({places}{',' if x.ndim == 3 else ''}))"))
    else:
        causes.append(
            Cause("Outputs and targets have sides of another size.", f"F.interpolate({out}, size={it}.shape[-2:])")
        )
    return Reason(
        f"`{outputs.name}` is {shape(x)}, and `{targets.name}` is {shape(y)}.",
        "For outputs (batch, classes, steps or sides) the targets are (batch, steps or sides).",
        tuple(causes),
        names_of(outputs, targets),
    )
