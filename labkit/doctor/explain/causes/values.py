"""Values that do not do: indices, single numbers, truth values, data that cannot become a tensor."""

import ast
import re

import numpy
import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.reshaping import owner_of
from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import dtype, named, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.operands import Operand, value_in_words
from labkit.doctor.explain.situation import Situation


@explains(
    "index-out-of-range",
    "IndexError RuntimeError",
    r"index out of range in self",
    r"Index \d+ of input takes value (-?\d+) which is not in the valid range \[0, (\d+)\)",
)
def token(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a number that an embedding has no row for, and an index_select beyond the end."""
    layer = situation.layer
    indices = situation.library_value("input")
    weight = situation.library_value("weight")
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag) or isinstance(weight, Tensor):
        rows = layer.num_embeddings if isinstance(layer, nn.Embedding | nn.EmbeddingBag) else len(weight)
        if not isinstance(indices, Tensor):
            return None
        name = situation.name_of(indices) or situation.subject
        low, high = int(indices.min()), int(indices.max())
        what = f"`{name or 'The input'}` goes from {low} to {high}, and `{situation.layer_name or 'the embedding'}` has rows 0 to {rows - 1}."
        causes = []
        if low < 0:
            causes.append(
                Cause(
                    f"{low} marks what is no word, and has no row.",
                    f"{simple(name or 'tokens')}.clamp(min=0)  # or a row of its own",
                )
            )
        if high >= rows:
            if high == rows:
                why = "The numbers are counted from 1, or a special token was added: one row more is needed."
            else:
                why = "The vocabulary is larger than the embedding."
            width = getattr(layer, "embedding_dim", None) or weight.shape[1]
            place = f"  # in place of {situation.layer_name}" if situation.layer_name else ""
            causes.append(Cause(why, f"nn.Embedding({high + 1}, {width}){place}"))
        return Reason(
            what,
            "An embedding has a row for each number from 0 to num_embeddings - 1.",
            tuple(causes),
            named(name, situation.layer_name),
        )
    pair = [one for one in situation.focus if isinstance(one.value, Tensor)]
    names = [one.name for one in pair]
    sizes = ", ".join(f"`{one.name}` {shape(one.value)}" for one in pair)
    return Reason(
        f"An index is beyond the end{f' ({sizes})' if sizes else ''}.",
        "Indices go from 0 to the size of the dimension minus 1.",
        (
            Cause(
                "The indices were made for another tensor, or are counted from 1.",
                f"{names[-1] if names else 'index'}.max()",
            ),
        ),
        named(*names[::-1]),
    )


@explains(
    "index-out-of-range",
    "IndexError RuntimeError",
    r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)",
)
def beyond(match: re.Match, situation: Situation) -> Reason | None:
    """Explain an index beyond the end of a tensor."""
    if isinstance(situation.layer, nn.Module):
        return None
    index, place, size = map(int, match.groups())
    tensors = [one for one in situation.focus if isinstance(one.value, Tensor)]
    if not situation.source.parts:
        tensors = []
    elif not tensors:
        return None
    owner = _indexed(situation) or next(
        (one for one in tensors if one.value.ndim > place and one.value.shape[place] == size), None
    )
    name = owner.name if owner else ""
    others = [one for one in tensors if one.name != name]
    causes = []
    if index == size:
        causes.append(
            Cause(
                f"Indices start at 0: the last one is {size - 1}, or -1.",
                f"{simple(name or 'x')}[{', '.join([':'] * place + ['-1'])}]",
            )
        )
    elif index < -size:
        causes.append(Cause("Counted from the end, the indices go down to the negative size.", f"{-size}"))
    if others:
        why = f"The numbers in `{others[0].name}` are too large for this dimension, or belong to another one."
        causes.append(Cause(why, f"assert {others[0].name}.max() < {name or 'x'}.shape[{place}]"))
    if not causes:
        causes.append(Cause("The tensor is smaller than the program takes it to be.", f"{name or 'x'}.shape[{place}]"))
    return Reason(
        f"`{name or 'The tensor'}` has {size} element{'s' if size != 1 else ''} in dimension {place}, and number {index} was asked for.",
        f"Indices of that dimension go from 0 to {size - 1}.",
        tuple(causes),
        named(name, *(one.name for one in others)),
    )


def _indexed(situation: Situation) -> Operand | None:
    """Return the tensor that is indexed."""
    match situation.source.expression:
        case ast.Subscript(value=owner) | ast.Call(func=ast.Attribute(value=owner)):
            value = situation.value_of(owner)
            return Operand(ast.unparse(owner), value) if isinstance(value, Tensor) else None
    return None


@explains(
    "index-dtype",
    "RuntimeError IndexError",
    r"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got",
    r"(?:gather|scatter|index_select|index_add|index_copy)\w*\(\): Expected dtype int",
    r"take\(\): Expected a long tensor for index",
    r"tensors used as indices must be long, int, byte or bool tensors",
)
def not_whole(match: re.Match, situation: Situation) -> Reason:
    """Explain indices that are floats."""
    layer = situation.layer
    given = situation.library_value("input") if isinstance(layer, nn.Embedding | nn.EmbeddingBag) else None
    name = situation.name_of(given) if given is not None else ""
    if not name:
        floats = [one for one in situation.focus if isinstance(one.value, Tensor) and one.value.is_floating_point()]
        owner = owner_of(situation) if isinstance(situation.source.expression, ast.Call) else _indexed(situation)
        index = next((one for one in floats if owner is None or one.name != owner.name), None)
        name = index.name if index else situation.subject
        given = index.value if index else given
    kind = dtype(given) if isinstance(given, Tensor) else "no whole numbers"
    return Reason(
        f"`{name or 'The index'}` is {kind}.",
        "Indices are whole numbers: int64 (or a mask of truth values).",
        (Cause("Token ids and positions must stay whole numbers.", f"{simple(name or 'index')}.long()"),),
        named(name, situation.layer_name),
    )


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
    if match[1] == "integer":
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
    test = ast.unparse(expression) if isinstance(expression, ast.expr) else name or "x"
    it = simple(test)
    what = f"`{test}` is a tensor" + (f" of {several[0].value.numel()} values" if several else " of several values")
    if match[1] == "no values":
        causes = (Cause("It is empty: nothing was found.", f"if {it}.numel() > 0: …"),)
    elif isinstance(expression, ast.Compare) and isinstance(expression.ops[0], ast.In | ast.NotIn):
        left, right = ast.unparse(expression.left), ast.unparse(expression.comparators[0])
        causes = (
            Cause(
                "A tensor is looked for in a list by ==, which has an answer for every element.",
                f"any({left} is one for one in {right})",
            ),
        )
    elif isinstance(expression, ast.BoolOp):
        sign = "&" if isinstance(expression.op, ast.And) else "|"
        parts = f" {sign} ".join(f"({ast.unparse(part)})" for part in expression.values)
        causes = (Cause("`and` and `or` ask for one answer; element by element it is & and |.", parts),)
    elif (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Name)
        and expression.func.id in ("max", "min")
    ):
        other = "torch.maximum" if expression.func.id == "max" else "torch.minimum"
        causes = (
            Cause(
                "Python's function compares two things; element by element there is another.",
                f"{other}({', '.join(ast.unparse(one) for one in expression.args)})",
            ),
        )
    else:
        causes = (
            Cause("It is asked whether all of them are true.", f"{it}.all()"),
            Cause("Or whether one of them is.", f"{it}.any()"),
            Cause("Or whether there is a tensor at all.", f"{name or 'x'} is not None"),
        )
    return Reason(
        f"{what}, and a condition needs one answer.",
        "Only a tensor of one value is true or false.",
        causes,
        named(*(one.name for one in several)),
    )


@explains(
    "array-conversion",
    "TypeError ValueError RuntimeError",
    r"can't convert np\.ndarray of type numpy\.(?P<kind>\w+)",
    r"expected sequence of length (?P<length>\d+) at dim (?P<dim>\d+) \(got (?P<got>\d+)\)",
    r"At least one (?P<negative>stride) in the given numpy array is negative",
    r"too many dimensions '(?P<text>str)'",
    r"new\(\): invalid data type '(?P<invalid>\w+)'",
    r"Could not infer dtype of (?P<type>\w+)",
    r"expected np\.ndarray \(got (?P<other>\w+)\)",
    r"(?P<ragged>not a sequence)$",
    r"must be real number, not (?P<real>\w+)",
)
def conversion(match: re.Match, situation: Situation) -> Reason | None:
    """Explain data that cannot become a tensor."""
    call = situation.source.call
    function = ast.unparse(call.func) if call is not None else ""
    if any("collate" in place.function for place in situation.raised.library_places):
        return None
    if not re.search(r"(tensor|from_numpy|Tensor)$", function):
        return None
    data = Operand(situation.argument(0, "data"), situation.value_of(call.args[0]) if call.args else None)
    name, it = data.name or "the data", simple(data.name or "data")
    found = {key: value for key, value in match.groupdict().items() if value}
    value = data.value
    now = f"`{name}` is {value_in_words(value)}" if value is not None else f"`{name}`"
    if "length" in found:
        what = f"The rows of `{name}` have other lengths: {found['length']} and {found['got']}."
        causes = (
            Cause(
                "Fill up the shorter ones.",
                f"nn.utils.rnn.pad_sequence([torch.tensor(row) for row in {name}], batch_first=True)",
            ),
        )
    elif "ragged" in found:
        what, causes = (
            f"`{name}` mixes numbers and lists.",
            (Cause("Every entry must be a number, or every one a list.", f"[type(one) for one in {name}]"),),
        )
    elif "negative" in found:
        what = f"`{name}` is an array that is read backwards, as after [::-1] or numpy.flip."
        causes = (Cause("A copy lies in memory in order.", f"{function}({it}.copy())"),)
    elif "other" in found:
        what = f"{now}, no array."
        causes = (
            Cause("`from_numpy` takes arrays; for everything else there is `torch.tensor`.", f"torch.tensor({name})"),
        )
    elif found.get("kind") == "object_":
        what = f"{now}: Python objects, not numbers."
        causes = (
            Cause("Texts or missing values are among the numbers.", f"{it}.astype(numpy.float32)"),
            Cause("Or its rows have other lengths.", f"[len(row) for row in {name}]"),
        )
    elif {"kind", "text", "invalid", "real"} & set(found) and ("str" in found.values() or found.get("kind") == "str_"):
        what = f"There are texts in `{name}`."
        causes = (
            Cause("Words must become numbers: a number for each word.", f"[vocabulary[word] for word in {name}]"),
            Cause("Or they are numbers that were read as text.", f"torch.tensor([float(one) for one in {name}])"),
        )
    elif found.get("type") in ("Image", "PngImageFile", "JpegImageFile"):
        what = f"`{name}` is a picture of PIL."
        causes = (
            Cause("torchvision turns pictures into tensors.", f"torchvision.transforms.functional.to_tensor({name})"),
        )
    elif found.get("type", found.get("invalid")) == "NoneType":
        what = f"There is None in `{name}`."
        causes = (Cause("A value is missing.", f"[one for one in {name} if one is not None]"),)
    else:
        kind = next(iter(found.values()))
        what = f"{now}, with {kind}."
        causes = (
            Cause(
                f"{kind} is no number.",
                f"{it}.astype(numpy.float32)" if isinstance(value, numpy.ndarray) else f"type({name})",
            ),
        )
    return Reason(what, "A tensor holds numbers of one dtype, in rows of one length.", causes, named(data.name))
