"""What recurrent layers want: features, batches, states."""

import re

import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import instead, named, numbers, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.situation import Situation


@explains(
    "rnn-shapes",
    "RuntimeError",
    r"input\.size\(-1\) must be equal to input_size\. Expected (?P<wanted>\d+), got (?P<got>\d+)",
    r"inconsistent input_size: got (?P<got>\d+),? expected (?P<wanted>\d+)",
)
def features(match: re.Match, situation: Situation) -> Reason:
    """Explain another number of features than input_size."""
    wanted, got = int(match["wanted"]), int(match["got"])
    layer, name, x = situation.layer, situation.subject, situation.input
    causes = []
    if isinstance(x, Tensor) and wanted in x.shape[:-1]:
        where = tuple(x.shape).index(wanted)
        why = f"The {wanted} features are dimension {where}, and belong last."
        causes.append(Cause(why, f"{simple(name or 'x')}.transpose({where}, -1)"))
    hidden = getattr(layer, "hidden_size", "…")
    kind = type(layer).__name__ if layer is not None else "LSTM"
    new = f"nn.{kind}({got}, {hidden})"
    why = f"input_size is {wanted}, and every step has {got} features."
    causes.append(Cause(why, instead(new, layer, situation) if layer is not None else new))
    sizes = f" in {shape(x)}" if isinstance(x, Tensor) else ""
    return Reason(
        f"`{situation.layer_name or kind}` takes {wanted} features a step, and gets {got}{sizes}"
        + (f" from `{name}`." if name else "."),
        "The last dimension of the input must be input_size.",
        tuple(causes),
        named(name, situation.layer_name),
    )


@explains(
    "rnn-shapes",
    "RuntimeError",
    r"Expected hidden(?:\[\d\])? size \(([\d, ]+)\), got \[([\d, ]+)\]",
    r"Input batch size (\d+) doesn't match hidden\d? batch size (\d+)",
)
def state(match: re.Match, situation: Situation) -> Reason:
    """Explain a state for another batch, or another number of layers."""
    wanted, got = numbers(match[1]), numbers(match[2])
    layer, x = situation.layer, situation.input
    states = [value for value in situation.inputs[1:2] if isinstance(value, Tensor | tuple)]
    name = (situation.name_of(states[0]) if states else "") or situation.argument(1, "hx")
    inputs = situation.subject
    it = simple(inputs or "x")
    first = getattr(layer, "batch_first", False)
    causes = []
    batch_differs = len(wanted) < 3 or wanted[1] != got[1]
    if (
        batch_differs
        and isinstance(x, Tensor)
        and x.ndim == 3
        and got[-2 if len(got) > 1 else 0] == x.shape[0 if not first else 1]
    ):
        kind = type(layer).__name__
        new = f"nn.{kind}({layer.input_size}, {layer.hidden_size}, batch_first={not first})"
        why = (
            f"The batch is {'first' if not first else 'second'} in `{inputs or 'the input'}`, and the "
            f"layer takes it elsewhere."
        )
        causes.append(Cause(why, instead(new, layer, situation)))
    if batch_differs:
        sizes = ", ".join(map(str, (*wanted[:1], f"{it}.shape[{0 if first else 1}]", *wanted[2:])))
        why = "The state was made for another batch; the last batch of an epoch is often smaller."
        made = (
            f"torch.zeros({sizes})"
            if len(wanted) == 3
            else f"torch.zeros({it}.shape[0], {getattr(layer, 'hidden_size', '…')})"
        )
        causes.append(Cause(why, f"{name if name.isidentifier() else 'state'} = {made}  # anew for every batch"))
    else:
        why = "The state is (layers × directions, batch, hidden_size)."
        causes.append(
            Cause(why, f"{name if name.isidentifier() else 'state'} = torch.zeros({', '.join(map(str, wanted))})")
        )
    return Reason(
        f"`{situation.layer_name or 'The layer'}` needs a state of "
        f"{shape(wanted) if len(wanted) > 1 else f'batch {wanted[0]}'}, and "
        f"{f'`{name}`' if name else 'the state'} is {shape(got) if len(got) > 1 else f'for {got[0]}'}.",
        "A state belongs to one batch: its sizes follow from the layer and from the batch.",
        tuple(causes),
        named(name if name.isidentifier() else "", inputs, situation.layer_name),
    )


@explains(
    "rnn-shapes",
    "ValueError RuntimeError IndexError",
    r"(\w+): Expected input to be (?:1D or 2D|2D or 3D), got (\d)D instead",
    r"For (un)?batched \d-D input, hx (?:and cx )?should also be (\d)-D",
    r"(index 1) is out of bounds for dimension 0 with size (1)",
)
def dimensions(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a layer that gets another number of dimensions, or one state where two belong."""
    layer, name, x = situation.layer, situation.subject, situation.input
    if not isinstance(layer, nn.RNNBase | nn.RNNCellBase):
        return None
    where = f"`{situation.layer_name or type(layer).__name__}`"
    it = simple(name or "x")
    if match[0].startswith("index"):
        if not isinstance(layer, nn.LSTM | nn.LSTMCell):
            return None
        given = situation.argument(1, "hx")
        return Reason(
            f"{where} gets one state{f', `{given}`' if given else ''}.",
            "An LSTM carries two tensors from step to step, in a tuple (h, c).",
            (Cause("The memory cell is missing.", f"({given or 'h'}, torch.zeros_like({given or 'h'}))"),),
            named(given if given.isidentifier() else "", name, situation.layer_name),
        )
    if "hx" in match[0]:
        given = situation.argument(1, "hx")
        if match[1]:
            first = 0 if getattr(layer, "batch_first", False) else 1
            causes = (Cause("The input has no batch dimension, and the state has one.", f"{it}.unsqueeze({first})"),)
        else:
            fix = f"{simple(given or 'state')}.unsqueeze(0)"
            causes = (Cause("The state is (layers, batch, hidden_size), and its first dimension is missing.", fix),)
        return Reason(
            f"{where} gets `{name or 'an input'}`, and a state with another number of dimensions.",
            "Input and state must both be of a batch, or both of a single sequence.",
            causes,
            named(name, given if given.isidentifier() else "", situation.layer_name),
        )
    order = "(batch, steps, features)" if getattr(layer, "batch_first", False) else "(steps, batch, features)"
    sizes = shape(x) if isinstance(x, Tensor) else f"{match[2]} dimensions"
    causes = (
        [Cause("A dimension of size 1 is left over.", f"{it}.squeeze()")]
        if isinstance(x, Tensor) and 1 in x.shape
        else []
    )
    causes.append(
        Cause(
            "The features of a step must be one dimension.",
            f"{it}.flatten(2)" if match[2] > "3" else f"{it}.unsqueeze(-1)",
        )
    )
    return Reason(
        f"{where} gets {sizes}" + (f" from `{name}`." if name else "."),
        f"It takes {order}." if isinstance(layer, nn.RNNBase) else "It takes (batch, features).",
        tuple(causes),
        named(name, situation.layer_name),
    )
