"""Traps that only warn: the program goes on, and computes something other than what was meant."""

import ast
import re

import torch
from torch import Tensor

from labkit.doctor.explain.causes.binary_losses import shapes_differ
from labkit.doctor.explain.causes.losses import outputs_of, targets_of
from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, numbers, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.situation import Situation


@explains(
    "loss-broadcast",
    "UserWarning",
    r"target size \(torch\.Size\(\[([\d, ]*)\]\)\) that is different to the input size "
    r"\(torch\.Size\(\[([\d, ]*)\]\)\)",
)
def loss(match: re.Match, situation: Situation) -> Reason:
    """Explain a loss over every pair of output and target, in place of matching ones."""
    outputs, targets = outputs_of(situation), targets_of(situation)
    x, y = numbers(match[2]), numbers(match[1])
    reason = shapes_differ(outputs.name, x, targets.name, y)
    size = tuple(torch.broadcast_shapes(x, y))
    return reason._replace(
        what=f"{reason.what} They are broadcast to {size}: every output is compared with every target.",
        broken="A loss compares element by element; with other shapes it is a number, but not the one that was meant.",
    )


@explains(
    "scheduler-before-optimizer",
    "UserWarning",
    r"Detected call of `lr_scheduler\.step\(\)` before `optimizer\.step\(\)`",
)
def scheduler(match: re.Match, situation: Situation) -> Reason:
    """Explain a schedule that skips its first value."""
    call = situation.source.call
    name = ast.unparse(call.func.value) if call is not None and isinstance(call.func, ast.Attribute) else "scheduler"
    return Reason(
        f"`{name}.step()` came before the first step of its optimizer, so the first learning rate is never used.",
        "In every update the optimizer steps first, and the scheduler after it.",
        (
            Cause("The two lines are in the wrong order.", f"optimizer.step()\n{name}.step()"),
            Cause(
                "Or `optimizer.step()` is missing, or another optimizer was given to the scheduler.",
                f"{name}.optimizer is optimizer",
            ),
        ),
        named(name),
    )


@explains("softmax-dimension", "UserWarning", r"Implicit dimension choice for (\w+) has been deprecated")
def softmax(match: re.Match, situation: Situation) -> Reason:
    """Explain a softmax that guesses: dimension 0 for 1 and 3 dimensions, else 1."""
    given = situation.library_value("input", "x")
    name = (situation.name_of(given) if isinstance(given, Tensor) else "") or situation.subject
    guessed = 0 if isinstance(given, Tensor) and given.ndim in (0, 1, 3) else 1
    call = situation.source.call
    function = ast.unparse(call.func) if call is not None else match[1]
    layer = situation.layer
    dim = given.ndim - 1 if isinstance(given, Tensor) and 0 < given.ndim < 3 else -1
    if layer is not None and layer is not situation.value_of(call.func if call is not None else ast.Constant(None)):
        fix = f"nn.{type(layer).__name__}(dim={dim})"
    elif layer is not None:
        fix = f"nn.{type(layer).__name__}(dim={dim})  # where {function} is made"
    else:
        fix = f"{function}({name or 'x'}, dim={dim})"
    return Reason(
        f"No dim was given, and {match[1]} took {guessed}"
        + (f" of `{name}`, which has {given.ndim} dimensions." if isinstance(given, Tensor) and name else "."),
        "The shares along dim sum to 1: for classes that is the dimension of the classes, most often the last.",
        (Cause("Say the dimension: another number of dimensions would be guessed otherwise.", fix),),
        named(name, situation.layer_name),
    )


@explains(
    "rnn-dropout",
    "UserWarning",
    r"dropout option adds dropout after all but last recurrent layer.*dropout=([\d.]+) and num_layers=(\d+)",
)
def dropout(match: re.Match, situation: Situation) -> Reason:
    """Explain a dropout that is never applied."""
    call = situation.source.call
    function = ast.unparse(call.func) if call is not None else "nn.LSTM"
    target = next((ast.unparse(part) for part in situation.source.parts[:-1]), "")
    return Reason(
        f"`{target or function}` has one layer, so its dropout of {match[1]} is never applied.",
        "The dropout of a recurrent layer acts between its layers, not after the last one.",
        (
            Cause(
                "For one layer, put dropout after it.", f"nn.Dropout({match[1]})  # on the outputs, and dropout=0 here"
            ),
            Cause("Or more layers were wanted.", f"{function}(…, num_layers=2, dropout={match[1]})"),
        ),
        named(target, function),
    )


@explains(
    "grad-of-non-leaf", "UserWarning", r"The \.grad attribute of a Tensor that is not a leaf Tensor is being accessed"
)
def gradient(match: re.Match, situation: Situation) -> Reason:
    """Explain the gradient of a value in the middle of the graph."""
    tensors = [one for one in situation.operands if isinstance(one.value, Tensor) and not one.value.is_leaf]
    name = tensors[0].name if tensors else ""
    moved = [
        step
        for step in situation.made(name)
        if step.name == name and re.search(r"\.(to|cuda|float|double)\(", step.text)
    ]
    causes = [
        Cause(
            "Gradients in the middle are kept only on request.",
            f"{simple(name or 'x')}.retain_grad()  # before backward",
        )
    ]
    if moved:
        why = f"`{moved[0].text}` makes a new tensor from the leaf."
        causes.append(Cause(why, f"{name} = torch.tensor(…, device=…, requires_grad=True)"))
    else:
        causes.append(
            Cause(
                "Or the leaf that it was made from is meant: requires_grad_() comes last.",
                f"{simple(name or 'x')}.detach().requires_grad_()",
            )
        )
    return Reason(
        f"`{name or 'The tensor'}` was made by an operation, so its `.grad` is None.",
        "backward keeps gradients in the leaves: in what was made with requires_grad=True.",
        tuple(causes),
        named(name),
    )
