"""Memory that does not suffice."""

import ast
import re

import torch
import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.history import steps
from labkit.doctor.explain.situation import Situation

_CHOOSE = 'device = "cuda" if torch.cuda.is_available() else "cpu"'


@explains(
    "out-of-memory",
    "OutOfMemoryError RuntimeError",
    r"out of memory\. Tried to allocate ([\d.]+ \w+)",
    r"can't allocate memory: you tried to allocate (\d+) bytes",
    r"(CUDA|MPS backend|HIP|XPU) out of memory",
)
def memory(match: re.Match, situation: Situation) -> Reason:
    """Explain too little memory: a kept graph, an evaluation that records, a batch or a product that is too large."""
    asked = match[1]
    amount = f"{int(asked) / 2**30:,.1f} GiB" if asked.isdigit() else asked
    causes, names = [], []
    place = situation.place
    for step in steps(place) if place else []:
        value = place.variables.get(step.name, place.global_variables.get(step.name))
        if step.loops and isinstance(value, Tensor) and value.requires_grad and isinstance(step.node, ast.AugAssign):
            why = f"`{step.name}` keeps the graph of every batch: `{step.text}`."
            causes.append(Cause(why, f"{step.text}.item()"))
            names.append(step.name)
    tensors = [one for one in situation.operands if isinstance(one.value, Tensor)]
    pair = situation.pair
    if (
        pair
        and all(isinstance(one.value, Tensor) for one in pair)
        and not isinstance(situation.source.expression, ast.Call)
    ):
        sizes = [tuple(one.value.shape) for one in pair]
        if max(one.value.numel() for one in pair) * 8 < (int(asked) if asked.isdigit() else 0):
            why = (
                f"The result is much larger than `{pair[0].name}` and `{pair[1].name}`: their shapes "
                f"{sizes[0]} and {sizes[1]} are broadcast."
            )
            causes.append(Cause(why, f"assert {pair[0].name}.shape == {pair[1].name}.shape  # or in chunks"))
    elif isinstance(situation.source.expression, ast.BinOp) and tensors:
        why = f"The result of `{ast.unparse(situation.source.expression)}` is much larger than `{tensors[0].name}`."
        causes.append(Cause(why, f"for part in {simple(tensors[0].name)}.split(1024):\n    …"))
    layer = situation.layer
    if isinstance(layer, nn.Module) and situation.input is not None:
        causes.append(Cause("The batch is too large.", f"batch_size={max(1, len(situation.input) // 2)}"))
        if torch.is_grad_enabled():
            causes.append(
                Cause(
                    "If this is an evaluation, nothing needs to be kept for backward.", "with torch.no_grad():\n    …"
                )
            )
        names.append(situation.subject)
    if not causes:
        causes.append(_size(situation))
        causes.append(Cause("Or the data are to be taken in parts.", "for part in x.split(1024):\n    …"))
    return Reason(
        f"{amount} more were asked for than there are.",
        "Memory holds the weights, their gradients, the optimizer's state, and every value that backward needs.",
        tuple(causes[:3]),
        named(*names, *(one.name for one in tensors)),
    )


def _size(situation: Situation) -> Cause:
    """Return the cause for something that is made too large, or a batch that is."""
    call = situation.source.call
    function = ast.unparse(call.func) if call is not None else ""
    written = ", ".join(map(ast.unparse, call.args)) if call is not None else ""
    if function.endswith("Linear"):
        why = f"`{function}({written})` has a weight for every pair of input and output: too many."
        return Cause(why, f"{function}(…)  # fewer inputs: convolutions and pooling before it")
    if function.startswith("torch.") and written:
        why = f"`{function}({written})` makes the product of its sizes: one of them is larger than was meant."
        return Cause(why, f"{function}(…)  # smaller, in batches, or of dtype float16")
    return Cause("The batch is too large.", "batch_size  # a half of it")
