"""Indices: beyond the end, and no whole numbers."""

import ast
import re

import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.reshaping import owner_of
from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import dtype, named, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.operands import Operand
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
        what = (
            f"`{name or 'The input'}` goes from {low} to {high}, and "
            f"`{situation.layer_name or 'the embedding'}` has rows 0 to {rows - 1}."
        )
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
    owner = _indexed(situation) or next(
        (one for one in tensors if one.value.ndim > place and one.value.shape[place] == size), None
    )
    name = owner.name if owner else ""
    others = [one for one in tensors if one.name != name]
    causes = []
    positions = [one.value for one in others if not one.value.is_floating_point()]
    counter = [one.name for one in situation.focus if type(one.value) is int and one.value == index]
    if positions and index == size and int(positions[0].min()) >= 1:
        causes.append(Cause(f"`{others[0].name}` counts from 1, and indices start at 0.", f"{others[0].name} - 1"))
    elif counter:
        why = f"`{counter[0]}` goes on to {index}, and the last index is {size - 1}."
        causes.append(Cause(why, f"for {counter[0]} in range({size}): …"))
    elif index == size and not others:
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
        causes.append(Cause(why, f"assert {others[0].name}.max() < {size}  # {name or 'x'}.shape[{place}]"))
    if not causes:
        causes.append(Cause("The tensor is smaller than the program takes it to be.", f"{name or 'x'}.shape[{place}]"))
    return Reason(
        f"`{name or 'The tensor'}` has {size} element{'s' if size != 1 else ''} in dimension {place}, and "
        f"number {index} was asked for.",
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
