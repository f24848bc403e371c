"""Data that cannot become a tensor: ragged lists, texts, arrays that are read backwards."""

import ast
import re

import numpy

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.operands import Operand, value_in_words
from labkit.doctor.explain.situation import Situation


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
