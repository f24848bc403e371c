"""Tensors of several values where one is wanted: as a Python number, or as true or false."""

import ast
import re

import torch
from torch import Tensor

from labkit.doctor.explain.causes.reshaping import owner_of
from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.operands import Operand
from labkit.doctor.explain.situation import Situation


@explains(
    "not-one-value",
    "RuntimeError ValueError TypeError",
    r"a Tensor with (\d+) elements cannot be converted to Scalar",
    r"only (one) element tensors can be converted to Python scalars",
    r"only (integer) tensors of a single element can be converted to an index",
)
def not_single(match: re.Match, situation: Situation) -> Reason | None:
    """Explain .item(), float() and int() of several values, and tensors in a list for torch.tensor."""
    call = situation.source.call
    if match[1] == "integer" and isinstance(situation.source.expression, ast.BinOp):
        return None  # a text or a list was multiplied by a tensor
    function = ast.unparse(call.func) if call is not None else ""
    owner = (
        owner_of(situation)
        if call is None or isinstance(call.func, ast.Attribute)
        else Operand(situation.argument(0), None)
    )
    if owner.value is None and call is not None and call.args:
        owner = Operand(ast.unparse(call.args[0]), situation.value_of(call.args[0]))
    name = simple(owner.name or "x")
    if function in ("torch.tensor", "tensor", "torch.FloatTensor", "torch.as_tensor"):
        return Reason(
            f"`{owner.name}` is a list of tensors.",
            "`torch.tensor` makes a tensor of numbers; tensors are put together by stack or cat.",
            (Cause("Stack them along a new dimension.", f"torch.stack({owner.name})"),),
            named(owner.name if owner.name.isidentifier() else "", *(one.name for one in situation.focus)),
        )
    sizes = (
        f"is {shape(owner.value)}"
        if isinstance(owner.value, Tensor)
        else f"has {match[1]} elements"
        if match[1].isdigit()
        else "has several elements"
    )
    if function.startswith("math.") and hasattr(torch, function.removeprefix("math.")):
        causes = (
            Cause(
                "The functions of math are for one number; torch has them for tensors.",
                f"torch.{function[5:]}({owner.name})",
            ),
        )
    elif match[1] == "integer" and isinstance(situation.source.expression, ast.Subscript):
        holder = ast.unparse(situation.source.expression.value)
        index = ast.unparse(situation.source.expression.slice)
        owner = Operand(index, situation.value_of(situation.source.expression.slice))
        sizes = f"is {shape(owner.value)}" if isinstance(owner.value, Tensor) else "is no single number"
        causes = (
            Cause(
                f"A list takes one number at a time, and `{index}` has several.",
                f"[{holder}[number] for number in {index}.tolist()]",
            ),
        )
    elif match[1] == "integer":
        is_float = isinstance(owner.value, Tensor) and owner.value.is_floating_point()
        fix = f"int({name})" if is_float and owner.value.numel() == 1 else f"len({name})"
        causes = (Cause("A tensor of one whole number can be an index or a count; this is none.", fix),)
    elif match[1] == "0":
        causes = (Cause("It is empty.", f"if {name}.numel(): …"),)
    else:
        causes = (
            Cause("It was not reduced to one number.", f"{name}.mean().item()"),
            Cause("Or a list of all its numbers is wanted.", f"{name}.tolist()"),
        )
    return Reason(
        f"`{owner.name or 'The tensor'}` {sizes}.",
        "Only a tensor of one element can become a Python number.",
        causes,
        named(owner.name),
    )


@explains(
    "ambiguous-truth",
    "RuntimeError",
    r"Boolean value of Tensor with (more than one value|no values) is ambiguous",
)
def truth(match: re.Match, situation: Situation) -> Reason:
    """Explain a loss that was given its arguments when it was made, and a tensor in a condition."""
    made = next((place for place in situation.raised.library_places if place.function == "__init__"), None)
    call = situation.source.call
    if made is not None and call is not None:
        function, arguments = ast.unparse(call.func), ", ".join(ast.unparse(one) for one in call.args)
        names = [one.name for one in situation.focus if isinstance(one.value, Tensor)]
        return Reason(
            f"`{function}(…)` makes the layer; it got {arguments} as its settings.",
            "A layer or loss is made first, with its settings, and then called with tensors.",
            (Cause("A pair of brackets is missing.", f"{function}()({arguments})"),),
            named(*names, function),
        )
    tensors = [one for one in situation.focus if isinstance(one.value, Tensor)]
    several = [one for one in tensors if one.value.numel() != 1] or tensors
    name = several[0].name if several else ""
    expression = situation.source.expression
    condition = expression.test if isinstance(expression, ast.IfExp) else expression
    test = ast.unparse(condition) if isinstance(condition, ast.expr) else name or "x"
    what = f"`{test}` is a tensor" + (f" of {several[0].value.numel()} values" if several else " of several values")
    if match[1] == "no values":
        causes = (Cause("It is empty: nothing was found.", f"if {simple(test)}.numel() > 0: …"),)
    else:
        causes = _of_condition(expression, situation) or (
            Cause("It is asked whether all of them are true.", f"{simple(test)}.all()"),
            Cause("Or whether one of them is.", f"{simple(test)}.any()"),
            Cause("Or whether there is a tensor at all.", f"{name or 'x'} is not None"),
        )
    return Reason(
        f"{what}, and a condition needs one answer.",
        "Only a tensor of one value is true or false.",
        causes,
        named(*(one.name for one in several)),
    )


def _of_condition(expression: ast.AST | None, situation: Situation) -> tuple[Cause, ...]:
    """Return what to write for a kind of condition that has a counterpart for tensors."""
    match expression:
        case ast.IfExp(test=test, body=body, orelse=other):
            fix = f"torch.where({', '.join(map(ast.unparse, (test, body, other)))})"
            return (Cause("`if` and `else` choose once; torch.where chooses for every element.", fix),)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
            fix = f"any(torch.equal({ast.unparse(left)}, one) for one in {ast.unparse(right)})"
            return (Cause("A tensor is looked for by ==, which has an answer for every element.", fix),)
        case ast.BoolOp(op=operator, values=values):
            sign = " & " if isinstance(operator, ast.And) else " | "
            fix = sign.join(f"({ast.unparse(part)})" for part in values)
            return (Cause("`and` and `or` ask for one answer; element by element it is & and |.", fix),)
        case ast.Call(func=ast.Name(id="max" | "min" as function), args=[first, second]):
            pair = [(ast.unparse(one), situation.value_of(one)) for one in (first, second)]
            if any(isinstance(value, int | float) for _, value in pair):
                written = [f"{simple(one)}.mean().item()" if isinstance(value, Tensor) else one for one, value in pair]
                why = "One of them is a number, and the other has several values."
                return (Cause(why, f"{function}({', '.join(written)})"),)
            fix = f"torch.{function}imum({pair[0][0]}, {pair[1][0]})"
            return (Cause(f"`{function}` compares two numbers; element by element there is another.", fix),)
    return ()
