"""What attention layers want: heads, widths, masks."""

import ast
import re

import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.situation import Situation


@explains("attention-sizes", "AssertionError", r"embed_dim must be divisible by num_heads")
def heads(match: re.Match, situation: Situation) -> Reason:
    """Explain a number of heads that does not divide the embedding."""
    embedding, count = situation.library_value("embed_dim", "d_model"), situation.library_value("num_heads", "nhead")
    fitting = [str(size) for size in range(1, embedding + 1) if embedding % size == 0]
    call = situation.source.call
    written = (
        [
            one
            for one in (*call.args[:2], *(key.value for key in call.keywords))
            if isinstance(one, ast.Name | ast.Attribute)
        ]
        if call
        else []
    )
    names = named(*map(ast.unparse, written), ast.unparse(call.func) if call else "")
    nearest = min(fitting, key=lambda size: abs(int(size) - count))
    return Reason(
        f"{embedding} numbers cannot be divided among {count} heads.",
        "Every head gets embed_dim ÷ num_heads numbers, and that must be a whole number.",
        (
            Cause(
                f"The number of heads must divide embed_dim: it is one of {', '.join(fitting)}.", f"num_heads={nearest}"
            ),
            Cause("Or the embedding is a multiple of it.", f"embed_dim={-(-embedding // count) * count}"),
        ),
        names,
    )


@explains(
    "attention-sizes",
    "AssertionError RuntimeError",
    r"was expecting embedding dimension of (?P<wanted>\d+), but got (?P<got>\d+)",
    r"mat1 and mat2 shapes cannot be multiplied \(\d+x(?P<got>\d+) and (?P<wanted>\d+)x\d+\)",
)
def embedding(match: re.Match, situation: Situation) -> Reason | None:
    """Explain an input of another width than the attention was made for."""
    layer = situation.layer
    if not isinstance(layer, nn.MultiheadAttention):
        return None
    wanted, got, name = int(match["wanted"]), int(match["got"]), situation.argument(0) or situation.subject
    causes = []
    values = [value for value in situation.inputs if isinstance(value, Tensor)]
    odd = next((value for value in values if value.shape[-1] == got), None)
    name = (situation.name_of(odd) if odd is not None else "") or name
    if odd is not None and wanted in odd.shape[:-1]:
        where = tuple(odd.shape).index(wanted)
        causes.append(
            Cause(
                f"The {wanted} numbers are dimension {where}, and belong last.",
                f"{simple(name or 'x')}.transpose({where}, -1)",
            )
        )
    causes.append(
        Cause(f"What comes in has {got} numbers a step; a layer can change that.", f"nn.Linear({got}, {wanted})")
    )
    causes.append(
        Cause("The attention was made with another embed_dim.", f"nn.MultiheadAttention({got}, {layer.num_heads})")
    )
    sizes = f" in {shape(odd)}" if odd is not None else ""
    return Reason(
        f"`{situation.layer_name or 'The attention'}` takes {wanted} numbers a step, and gets {got}{sizes}"
        + (f" from `{name}`." if name else "."),
        "The last dimension of query, key and value must be embed_dim (or kdim, vdim).",
        tuple(causes),
        named(name, situation.layer_name),
    )


@explains(
    "attention-sizes",
    "AssertionError RuntimeError",
    r"The shape of the \dD attn_mask is torch\.Size\(\[([\d, ]*)\]\), but should be \(([\d, ]*)\)",
    r"Expected key_padded_mask\.shape\[\d\] to be (\d+), but got (\d+)",
    r"key shape torch\.Size\(\[([\d, ]*)\]\) does not match value shape torch\.Size\(\[([\d, ]*)\]\)",
)
def masks(match: re.Match, situation: Situation) -> Reason:
    """Explain a mask, or a key and value, of other sizes."""
    where = f"`{situation.layer_name or 'The attention'}`"
    if "key shape" in match[0]:
        return Reason(
            f"{where} gets keys of ({match[1]}) and values of ({match[2]}).",
            "Every key has one value: both have the same steps and the same batch.",
            (
                Cause(
                    "Keys and values come from the same sequence.",
                    f"{situation.layer_name or 'attention'}(query, memory, memory)",
                ),
            ),
            named(situation.argument(1, "key"), situation.argument(2, "value"), situation.layer_name),
        )
    key = "attn_mask" if "attn_mask" in match[0] else "key_padding_mask"
    value = situation.library_value(key)
    name = (situation.name_of(value) if value is not None else "") or situation.argument(9, key)
    if key == "attn_mask":
        what, rule = (
            f"`{name or key}` is ({match[1]}) and should be ({match[2]}).",
            "An attention mask is (queries, keys).",
        )
        fix = f"torch.ones({match[2]}, dtype=torch.bool).tril().logical_not()"
    else:
        what = f"`{name or key}` is for a batch of {match[2]}, and the batch has {match[1]}."
        rule, fix = "A padding mask is (batch, steps), whatever batch_first says.", f"{simple(name or key)}.T"
    return Reason(what, rule, (Cause("The mask was made for other sizes.", fix),), named(name, situation.layer_name))
