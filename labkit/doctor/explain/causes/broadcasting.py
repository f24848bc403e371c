"""Two shapes that cannot be broadcast, in a sum, a comparison, an assignment, a loss."""

import re

from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.shapes import is_product
from labkit.doctor.explain.causes.wording import named, numbers, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.operands import Operand
from labkit.doctor.explain.situation import Situation

_RULE = "Shapes are compared from the last dimension on; two sizes must be equal, or one of them 1."


@explains(
    "broadcast-shapes",
    "RuntimeError",
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)",
    r"Attempting to broadcast a dimension of length (\d+) at (-?\d+).*? (\d+)",  # in a compiled module
)
def sides(match: re.Match, situation: Situation) -> Reason | None:
    """Explain two operands that do not fit: of an operator, a function or a loss."""
    if is_product(situation):
        return None
    left, right = _pair(situation)
    if not isinstance(left.value, Tensor) or not isinstance(right.value, Tensor):
        return Reason(
            f"`{left.name}` and `{right.name}` have sizes that do not fit: {match[1]} and {match[2]}.",
            _RULE,
            (
                Cause(
                    "One of the two has another size than you think.",
                    f"print({simple(left.name)}.shape, {simple(right.name)}.shape)",
                ),
            ),
            named(left.name, right.name),
        )
    return Reason(
        f"`{left.name}` is {shape(left.value)} and `{right.name}` is {shape(right.value)}.",
        _RULE,
        _causes(left.name, tuple(left.value.shape), right.name, tuple(right.value.shape)),
        named(left.name, right.name),
    )


def _pair(situation: Situation) -> tuple[Operand, Operand]:
    """Return the two sides: what a loss was given, what the expression joins, or the only two tensors of the line."""
    given = situation.library_value("input"), situation.library_value("target")
    if all(isinstance(value, Tensor) for value in given):
        names = [situation.name_of(value) or situation.argument(number) for number, value in enumerate(given)]
        return Operand(names[0] or "the outputs", given[0]), Operand(names[1] or "the targets", given[1])
    tensors = [one for one in situation.focus if isinstance(one.value, Tensor)]
    pair = situation.pair
    if pair and all(isinstance(one.value, Tensor) for one in pair):
        shapes = [tuple(one.value.shape) for one in pair]
        if not _fit(*shapes):
            return pair
    for number, one in enumerate(tensors):
        for other in tensors[number + 1 :]:
            if not _fit(tuple(one.value.shape), tuple(other.value.shape)):
                return one, other
    return pair or (Operand("the first", None), Operand("the second", None))


def _fit(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(one == other or 1 in (one, other) for one, other in zip(reversed(a), reversed(b), strict=False))


def _causes(left: str, a: tuple[int, ...], right: str, b: tuple[int, ...]) -> tuple[Cause, ...]:
    """Return what may have been meant, the likeliest first."""
    causes = []
    for short, few, many in ((right, b, a), (left, a, b)):
        if len(few) < len(many) and (seen := _placed(few, many)):
            why = f"`{short}` is compared with the last dimensions, and its sizes are those of others."
            causes.append(Cause(why, f"{simple(short)}[{seen}]"))
    if len(a) == len(b) == 2 and a == b[::-1]:
        causes.append(Cause("One of the two lies the wrong way.", f"{simple(right)}.T"))
    elif len(a) == len(b) and a[1:] == b[1:]:
        fix = f"{simple(left)}[: len({right})]" if a[0] > b[0] else f"{simple(right)}[: len({left})]"
        causes.append(
            Cause(f"They have another number of rows, {a[0]} and {b[0]}: from different batches, or a last one.", fix)
        )
    elif len(a) == len(b) == 4 and a[1] != b[1] and a[2:] == b[2:]:
        causes.append(
            Cause(
                f"They have another number of channels, {a[1]} and {b[1]}: a shortcut needs a layer that changes it.",
                f"nn.Conv2d({a[1]}, {b[1]}, kernel_size=1)({left})",
            )
        )
    elif len(a) == len(b) == 4 and a[2:] != b[2:]:
        causes.append(
            Cause(
                f"The pictures have another size, {a[2]}×{a[3]} and {b[2]}×{b[3]}: a layer has a stride or no padding.",
                f"F.interpolate({left}, size={right}.shape[-2:])  # or padding and stride that keep the size",
            )
        )
    if not causes:
        place, one, other = _first_difference(a, b)
        causes.append(
            Cause(
                f"Dimension {place} is {one} in `{left}` and {other} in `{right}`: one was made with another size.",
                f"assert {left}.shape[{place}] == {right}.shape[{place}]  # align them where they are made",
            )
        )
    return tuple(causes)


def _placed(few: tuple[int, ...], many: tuple[int, ...]) -> str:
    """Return the subscript that puts the dimensions of the shorter shape where they fit: ":, None", "" if nowhere."""
    for first in range(len(many) - len(few) + 1):
        if many[first : first + len(few)] == few:
            after = len(many) - len(few) - first
            return ", ".join([":"] * len(few) + ["None"] * after)
    return ""


def _first_difference(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the last dimension, counted from the end, in which two shapes do not fit."""
    for place, (one, other) in enumerate(zip(reversed(a), reversed(b), strict=False), 1):
        if one != other and 1 not in (one, other):
            return -place, one, other
    return -1, a[-1], b[-1]


@explains(
    "broadcast-shapes",
    "RuntimeError",
    r"expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\).*Target sizes: \[([\d, ]*)\]\. +"
    r"Tensor sizes: \[([\d, ]*)\]",
)
def expanded(match: re.Match, situation: Situation) -> Reason:
    """Explain an assignment to a part of a tensor, or an expand."""
    target, given = numbers(match[3]), numbers(match[4])
    tensors = [one for one in situation.operands if isinstance(one.value, Tensor)]
    name = next((one.name for one in tensors if tuple(one.value.shape) == given), "")
    holder = next((one.name for one in tensors if one.name != name), "")
    wanted = ", ".join(map(str, target))
    return Reason(
        f"`{name or 'The value'}` is {shape(given)}, and the place for it is {shape(target)}"
        + (f" in `{holder}`." if holder else "."),
        "Only a dimension of size 1 can be repeated; every other one must have the size that is asked for.",
        (
            Cause(
                f"`{name or 'The value'}` has {match[2]} where {match[1]} belong: it was made for another size.",
                f"{name or 'value'}  # make it of shape ({wanted}{',' if len(target) == 1 else ''})",
            ),
        ),
        named(name, holder),
    )


@explains(
    "broadcast-shapes",
    "RuntimeError",
    r"output with shape \[([\d, ]*)\] doesn't match the broadcast shape \[([\d, ]*)\]",
)
def in_place(match: re.Match, situation: Situation) -> Reason:
    """Explain an operation in place whose result is larger than the tensor."""
    target, result = numbers(match[1]), numbers(match[2])
    tensors = [one for one in situation.operands if isinstance(one.value, Tensor)]
    name = next((one.name for one in tensors if tuple(one.value.shape) == target), "")
    other = next((one.name for one in tensors if one.name != name), "")
    return Reason(
        f"`{name or 'The tensor'}` is {shape(target)}, and the result is {shape(result)}.",
        "An operation in place must leave the shape of its tensor as it is.",
        (
            Cause("A new tensor can have the larger shape.", f"{name or 'a'} = {name or 'a'} + {other or 'b'}"),
            Cause(f"`{other or 'The other'}` has a dimension too many.", f"{other or 'b'}.squeeze()"),
        ),
        named(name, other),
    )
