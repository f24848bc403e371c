"""Sizes that do not fit: matrix products and broadcasting."""

import ast
import math
import re

import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import instead, named, or_else, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.operands import Operand
from labkit.doctor.explain.situation import Situation

_PRODUCTS = ("matmul", "bmm", "baddbmm", "scaled_dot_product_attention", "mm")


@explains(
    "matmul-shapes",
    "RuntimeError",
    r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)",
    r"same reduction dim, but got \[(\w+), (\d+)\] X \[(\d+), (\d+)\]",  # in a compiled module
)
def product(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a product of two matrices, most often that of a Linear layer."""
    rows, size, wanted, gives = (int(one) if one.isdigit() else "N" for one in match.groups())
    layer = situation.layer
    if not isinstance(layer, nn.Linear) and situation.raised.where:
        layer = _only_linear(situation, wanted, gives)
    if isinstance(layer, nn.Linear) and layer.in_features == wanted:
        return _linear(layer, situation, rows, size)
    if isinstance(situation.layer, nn.MultiheadAttention | nn.RNNCellBase):
        return None
    sides = situation.pair
    call = situation.source.call
    if sides and call is not None and ast.unparse(call.func).endswith("linear"):
        weight = sides[1]
        why = f"`{weight.name}` is to be (outputs, inputs): linear turns it itself."
        what = f"`{sides[0].name}` has {size} numbers a row, and `{weight.name}` takes {wanted}."
        cause = Cause(why, f"{ast.unparse(call.func)}({sides[0].name}, {simple(weight.name)}.T)")
        return Reason(
            what, "The last size of the weight is the number of inputs.", (cause,), named(weight.name, sides[0].name)
        )
    left, right = sides if sides else (Operand("the first", None), Operand("the second", None))
    return Reason(
        f"`{left.name}` is {rows}×{size} and `{right.name}` is {wanted}×{gives}: {size} is not {wanted}.",
        "In a matrix product the last size of the first must be the last but one of the second.",
        _transposed(left.name, right.name, rows, size, wanted, gives),
        named(left.name, right.name) if sides else (),
    )


def _only_linear(situation: Situation, takes: int, gives: int) -> nn.Linear | None:
    """Return the Linear layer with these sizes if there is only one."""
    found = {
        id(module): module
        for _, model in situation.models
        for module in model.modules()
        if isinstance(module, nn.Linear) and (module.in_features, module.out_features) == (takes, gives)
    }
    return next(iter(found.values())) if len(found) == 1 else None


def _linear(layer: nn.Linear, situation: Situation, rows: int, size: int) -> Reason:
    x, name = situation.input, situation.subject
    sizes = tuple(x.shape) if x is not None else (rows, size)
    sample, takes = math.prod(sizes[1:]), layer.in_features
    bias = "" if layer.bias is not None else ", bias=False"
    made = "nn.Linear({}, " + f"{layer.out_features}{bias})"
    it = simple(or_else(name, "x"))
    causes = []
    if len(sizes) == 1 and size % takes == 0:
        causes.append(Cause("The batch was flattened together with the samples.", "x.flatten(1)"))
    elif len(sizes) > 2 and sample == takes:
        causes.append(Cause(f"It was not flattened: a sample has {sample} numbers.", f"{it}.flatten(1)"))
    elif len(sizes) == 2 and sizes[0] == takes:
        causes.append(Cause("Rows and columns are exchanged: the batch comes first.", f"{it}.T"))
    elif len(sizes) > 2 and takes in sizes[1:]:
        where = sizes.index(takes, 1)
        causes.append(
            Cause(f"The {takes} features are dimension {where}, not the last.", f"{it}.transpose({where}, -1)")
        )
    elif len(sizes) > 3:
        fix = instead(made.format(sample), layer, situation)
        causes.append(
            Cause(
                f"It was not flattened, and in_features is not the {sample} numbers that a sample has then.",
                f"{it}.flatten(1)\n{fix}",
            )
        )
    if len(sizes) <= 3 or not causes:
        why = f"in_features is {takes}, and a sample comes with {size} numbers"
        causes.append(Cause(f"{why}: the layers before it, or the size of the data, changed.", ""))
        causes[-1] = causes[-1]._replace(fix=instead(made.format(size), layer, situation))
    return Reason(
        f"`{or_else(situation.layer_name, 'The layer')}` takes {takes} numbers at the end of its input, and gets "
        f"{shape(sizes)}" + (f" from `{name}`." if name else "."),
        "The last size of what comes into a Linear layer must be its in_features.",
        tuple(causes),
        named(name, situation.layer_name),
    )


def _transposed(left: str, right: str, rows: int, size: int, wanted: int, gives: int) -> tuple[Cause, ...]:
    """Return which of two matrices to turn, or that none helps."""
    left, right = simple(left), simple(right)
    causes = []
    if gives == size:
        causes.append(Cause(f"`{right}` lies the wrong way.", f"{left} @ {right}.T"))
    if rows == wanted:
        causes.append(Cause(f"`{left}` lies the wrong way.", f"{left}.T @ {right}"))
    if not causes:
        fix = f"assert {left}.shape[-1] == {right}.shape[-2]  # find where one of them got its size"
        causes.append(Cause(f"One of the two was made with another size: {size} and {wanted} must be equal.", fix))
    return tuple(causes)


@explains(
    "matmul-shapes",
    "RuntimeError",
    r"size mismatch, got input \((\d+)\), mat \((\d+x\d+)\), vec \((\d+)\)",
    r"inconsistent tensor size, expected tensor \[(\d+)\] and src \[(\d+)\]",
)
def product_with_vector(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a product with a vector."""
    sides = situation.pair
    if sides is None:
        return None
    left, right = sides
    sizes = [shape(side.value) if isinstance(side.value, Tensor) else "of another size" for side in sides]
    return Reason(
        f"`{left.name}` is {sizes[0]} and `{right.name}` is {sizes[1]}.",
        "In a product with a vector, the last size of the first must be the size of the vector.",
        (_with_vector(left, right),),
        named(left.name, right.name),
    )


def _with_vector(left: Operand, right: Operand) -> Cause:
    sizes = [tuple(side.value.shape) if isinstance(side.value, Tensor) else () for side in (left, right)]
    if len(sizes[0]) == 2 and sizes[0][:1] == sizes[1]:
        return Cause(f"`{left.name}` lies the wrong way.", f"{simple(left.name)}.T @ {right.name}")
    fix = f"assert {left.name}.shape[-1] == {right.name}.shape[0]"
    return Cause("One of the two was made with another size.", fix)


@explains(
    "batched-matmul-shapes",
    "RuntimeError",
    r"Expected size for first two dimensions of batch2 tensor to be: \[(\d+), (\d+)\] but got: \[(\d+), (\d+)\]",
    r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)()",
)
def batched_product(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a product of batches of matrices."""
    if match[4] == "" and not is_product(situation):
        return None
    sides = situation.pair
    values = [side.value for side in sides] if sides else [None, None]
    names = [side.name for side in sides] if sides else ["the first", "the second"]
    if not all(isinstance(value, Tensor) for value in values):
        sizes, causes = ["", ""], ()
    else:
        sizes = [f" is {shape(value)}" for value in values]
        a, b = (tuple(value.shape) for value in values)
        causes = _attention(names, a, b) if _called(situation) == _PRODUCTS[3] else _batched_causes(names, a, b)
    if not causes:
        why = "One of them lies the wrong way, or was made with another size."
        causes = (Cause(why, f"print({simple(names[0])}.shape, {simple(names[1])}.shape)"),)
    return Reason(
        f"`{names[0]}`{sizes[0]}, `{names[1]}`{sizes[1]}: they cannot be multiplied.",
        "Batches of matrices are multiplied pair by pair: equal batch sizes, and the last size of the first is the "
        "last but one of the second.",
        causes,
        named(*names) if sides else (),
    )


def is_product(situation: Situation) -> bool:
    """Say whether what failed is a product of matrices."""
    match situation.source.expression:
        case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
            return True
    return _called(situation) in _PRODUCTS


def _called(situation: Situation) -> str:
    match situation.source.expression:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name
    return ""


def _attention(names: list[str], query: tuple[int, ...], key: tuple[int, ...]) -> tuple[Cause, ...]:
    why = f"Queries of {query[-1]} numbers are compared with keys of {key[-1]}: both must have one size."
    return (Cause(why, f"nn.Linear({key[-1]}, {query[-1]})({names[1]})  # or make both with one size"),)


def _batched_causes(names: list[str], a: tuple[int, ...], b: tuple[int, ...]) -> tuple[Cause, ...]:
    first, second = map(simple, names)
    causes = []
    if a[:-2] != b[:-2] and len(a) == len(b):
        causes.append(
            Cause(
                f"They have another number of matrices: {math.prod(a[:-2])} and {math.prod(b[:-2])}.",
                f"assert {first}.shape[0] == {second}.shape[0]  # both from the same batch?",
            )
        )
    elif a[-1] == b[-1]:
        causes.append(Cause(f"`{names[1]}` lies the wrong way.", f"{first} @ {second}.transpose(-2, -1)"))
    elif a[-2] == b[-2]:
        causes.append(Cause(f"`{names[0]}` lies the wrong way.", f"{first}.transpose(-2, -1) @ {second}"))
    else:
        causes.append(
            Cause("One of them was made with another size.", f"assert {first}.shape[-1] == {second}.shape[-2]")
        )
    return tuple(causes)
