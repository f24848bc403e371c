"""Numbers of the wrong kind: float64 from NumPy, whole numbers, half precision."""

import ast
import re

import torch
import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.reshaping import owner_of
from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.shapes import is_product
from labkit.doctor.explain.causes.wording import dtype, named, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.situation import Situation

_RULE = "Weights and inputs must have one dtype; PyTorch does not convert one of them on its own here."
_CALLS = {torch.float32: "float", torch.float64: "double", torch.float16: "half", torch.bfloat16: "bfloat16"}


@explains(
    "matmul-dtypes",
    "RuntimeError NotImplementedError",
    r"mat1 and mat2 must have the same dtype, but got (\w+) and (\w+)",
    r"expected m1 and m2 to have the same dtype, but got: ([\w:]+) != ([\w:]+)",
    r"expected both vectors to have same dtype, but found (\w+) and (\w+)",
    r"expected scalar type (\w+) but found (\w+)",
    r"\"(addmm|mm|dot|bmm|baddbmm)\w*\" not implemented for '(\w+)'",
)
def product(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a matrix product, most often that of a Linear layer."""
    layer = situation.layer
    if isinstance(layer, nn.modules.conv._ConvNd):
        return None
    if isinstance(layer, nn.Module) and next(layer.parameters(), None) is not None:
        return _layer(situation)
    if match[0].startswith("expected scalar type") and not is_product(situation):
        return None
    sides = situation.pair
    if sides is None:
        return None
    left, right = sides
    if not all(isinstance(side.value, Tensor) for side in sides):
        kinds = match[2].lower() if "not implemented" in match[0] else f"{match[1]} and {match[2]}".lower()
        why = "NumPy's and Python's numbers are float64, PyTorch's weights float32."
        fixes = tuple(Cause(why, f"{simple(side.name)}.float()") for side in sides[:1])
        what = f"`{left.name}` and `{right.name}` cannot be multiplied as {kinds}."
        return Reason(what, "Both sides of a matrix product must have one dtype.", fixes, named(left.name, right.name))
    floating = next((side.value.dtype for side in sides if side.value.is_floating_point()), torch.float32)
    smallest = torch.float32 if floating == torch.float64 else floating
    odd = next((side for side in sides if side.value.dtype != smallest), right)
    return Reason(
        f"`{left.name}` is {dtype(left.value)} and `{right.name}` is {dtype(right.value)}.",
        "Both sides of a matrix product must have one dtype.",
        (Cause(_why(odd.value), f"{simple(odd.name)}.{_CALLS.get(smallest, 'float')}()"),),
        named(odd.name, left.name, right.name),
    )


@explains(
    "conv-dtypes",
    "RuntimeError NotImplementedError",
    r"Input type \((?!torch)([\w: ]+)\) and (?:bias|weight) type \((?!torch)([\w: ]+)\) should be the same",
    r"expected scalar type (\w+) but found (\w+)",
    r"mixed dtype \(CPU\)",
    r"\"(?:batch_norm|layer_norm|LayerNormKernelImpl)\w*\" not implemented for '\w+'",
    r"prelu: Type promoting not supported",
    r"All tensors must have the same dtype, got input1",
)
def layer(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a convolution or a normalisation."""
    found = situation.layer
    if match[0].startswith("expected scalar") and not isinstance(found, nn.modules.conv._ConvNd):
        return None
    return _layer(situation) if found is not None else None


def _layer(situation: Situation) -> Reason | None:
    weight = next(situation.layer.parameters(), None)
    x, name = situation.input, situation.subject
    if weight is None or (x is not None and x.dtype == weight.dtype):
        return None
    it, wanted = simple(name or "x"), _CALLS.get(weight.dtype, "float")
    causes = []
    if x is not None and x.dtype == torch.uint8:
        causes.append(
            Cause(
                "Pictures are whole numbers from 0 to 255, and layers want floats around 0.", f"{it}.{wanted}() / 255"
            )
        )
    elif x is not None:
        causes.append(Cause(_why(x), f"{it}.{wanted}()"))
    else:
        causes.append(Cause("The input has another dtype than the weights.", f"{it}.{wanted}()"))
    if weight.dtype in (torch.float16, torch.bfloat16, torch.float64):
        model = next((key for key, one in situation.models if situation.layer in list(one.modules())), "model")
        causes.append(Cause(f"Or the weights were made {dtype(weight)} by mistake.", f"{model}.float()"))
    return Reason(
        f"`{situation.layer_name or 'The layer'}` has weights of {dtype(weight)}, and "
        f"{f'`{name}`' if name else 'its input'} is {dtype(x) if x is not None else 'of another dtype'}.",
        _RULE,
        tuple(causes),
        named(name, situation.layer_name),
    )


def _why(tensor: Tensor) -> str:
    if tensor.dtype == torch.float64:
        return "It comes from NumPy or from Python numbers, which are float64; PyTorch's weights are float32."
    if tensor.dtype in (torch.float16, torch.bfloat16):
        return f"It is {dtype(tensor)}, half of the precision that the other side has."
    if tensor.is_floating_point():
        return f"It is {dtype(tensor)}, and the other side is not."
    return "It holds whole numbers or truth values, and weights are floats."


@explains("rnn-dtype", "ValueError", r"RNN input dtype \(torch\.(\w+)\) does not match weight dtype \(torch\.(\w+)\)")
def recurrent(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a recurrent layer."""
    return _layer(situation)


@explains(
    "integer-mean",
    "RuntimeError NotImplementedError",
    r"(mean)\(\): could not infer output dtype.*Got: (\w+)",
    r"(std and var) only support floating point and complex dtypes()",
    r"linalg\.vector_(norm): Expected a floating point or complex tensor as input\. Got (\w+)",
)
def mean(match: re.Match, situation: Situation) -> Reason:
    """Explain a mean, a spread or a norm of whole numbers."""
    owner = owner_of(situation)
    name, method = simple(owner.name or "x"), situation.source.call
    attribute = method.func.attr if method is not None and isinstance(method.func, ast.Attribute) else match[1]
    kind = dtype(owner.value) if isinstance(owner.value, Tensor) else match[2].lower() or "whole numbers"
    kind = kind if kind else "int64"
    return Reason(
        f"`{owner.name or 'The tensor'}` is {kind}, and the result would not be a whole number.",
        f"`{attribute}` needs floats: PyTorch keeps the dtype, and NumPy would convert.",
        (Cause("Counts, labels and truth values become floats first.", f"{name}.float().{attribute}()"),),
        named(owner.name),
    )


@explains(
    "integer-grad",
    "RuntimeError",
    r"[Oo]nly Tensors of floating point(?: and complex)? dtype can require gradients",
)
def integer_gradient(match: re.Match, situation: Situation) -> Reason:
    """Explain requires_grad for whole numbers."""
    tensors = [one for one in situation.operands if isinstance(one.value, Tensor) and not one.value.is_floating_point()]
    name = tensors[0].name if tensors else ""
    given = situation.argument(0)
    call = situation.source.call
    function = ast.unparse(call.func) if call is not None else "torch.tensor"
    if name:
        what, fix = f"`{name}` is {dtype(tensors[0].value)}.", f"{simple(name)}.float()"
        fix = f"{function}({fix})" if function.endswith("Parameter") else f"{fix}.requires_grad_()"
    elif function.endswith("Parameter"):
        what, fix = f"`{given}` holds whole numbers.", f"{function}({simple(given or 'x')}.float())"
    else:
        what = f"`{given or function}` makes whole numbers."
        fix = f"{function}({given or '…'}, dtype=torch.float32, requires_grad=True)"
    target = next(
        (ast.unparse(part) for part in situation.source.parts[:-1] if isinstance(part, ast.Name | ast.Attribute)), ""
    )
    return Reason(
        what,
        "A gradient says how a small change acts, and whole numbers have no small changes: only floats can have one.",
        (Cause("Numbers written without a point are whole numbers.", fix),),
        named(name, target),
    )
