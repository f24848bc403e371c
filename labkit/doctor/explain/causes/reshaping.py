"""Tensors that shall get another shape, be joined, or be reduced over a dimension."""

import ast
import math
import re

from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, numbers, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.operands import Operand
from labkit.doctor.explain.situation import Situation


def owner_of(situation: Situation) -> Operand:
    """Return the tensor whose method failed, or the first one that the function got."""
    call = situation.source.call
    if call is not None and isinstance(call.func, ast.Attribute):
        value = situation.value_of(call.func.value)
        if not isinstance(value, Tensor) and situation.input is None and call.args:
            argument = situation.value_of(call.args[0])
            if isinstance(argument, Tensor):
                return Operand(ast.unparse(call.args[0]), argument)
        written = ast.unparse(call.func.value)
        if isinstance(value, Tensor) or (value is None and written not in ("torch", "F", "nn.functional")):
            return Operand(written, value)
    if situation.input is not None:
        return Operand(situation.subject, situation.input)
    tensors = [one for one in situation.focus if isinstance(one.value, Tensor)]
    return tensors[0] if tensors else Operand(situation.argument(0), None)


@explains("reshape", "RuntimeError", r"shape '\[([-\d, ]*)\]' is invalid for input of size (\d+)")
def wrong_count(match: re.Match, situation: Situation) -> Reason:
    """Explain a view or reshape to another number of elements."""
    wanted, count = numbers(match[1]), int(match[2])
    owner = owner_of(situation)
    name = simple(owner.name or "x")
    known = math.prod(size for size in wanted if size >= 0)
    sizes = tuple(owner.value.shape) if isinstance(owner.value, Tensor) else None
    causes = []
    rest = math.prod(wanted[1:]) if -1 not in wanted[1:] else 0
    if len(wanted) > 1 and rest > 0 and count % rest == 0 and wanted[0] != -1:
        fix = f"{name}.reshape(-1, {', '.join(map(str, wanted[1:]))})"
        causes.append(Cause(f"The first size is not {wanted[0]} but {count // rest}, as in a last batch.", fix))
    if sizes and len(sizes) > 1 and len(wanted) == 2:
        sample = math.prod(sizes[1:])
        why = f"A sample has {sample} numbers, not {abs(wanted[1])}: `flatten` counts them itself."
        causes.append(Cause(why, f"{name}.flatten(1)"))
    if not causes:
        why = f"{count} numbers cannot be put into {'rows of ' if -1 in wanted else ''}{known}."
        causes.append(Cause(why, f"{name}.reshape(…)  # sizes whose product is {count}"))
    now = f"has {count} elements" + (f", as {shape(sizes)}," if sizes else "")
    return Reason(
        f"`{owner.name or 'The tensor'}` {now} and ({match[1]}) "
        + ("needs a multiple of " if -1 in wanted else "needs ")
        + f"{known}.",
        "A reshape keeps every element: the product of the sizes must stay the same; one size may be -1.",
        tuple(causes),
        named(owner.name),
    )


@explains("reshape", "RuntimeError", r"view size is not compatible with input tensor's size and stride")
def not_contiguous(match: re.Match, situation: Situation) -> Reason:
    """Explain a view of a tensor whose elements are not in order in memory."""
    owner = owner_of(situation)
    name = simple(owner.name or "x")
    call = situation.source.call
    sizes = ", ".join(ast.unparse(one) for one in call.args) if call else "…"
    return Reason(
        f"The elements of `{owner.name or 'the tensor'}` do not lie in memory in the order of its dimensions, as after "
        "transpose or permute.",
        "`view` only reads memory in another way; it cannot put elements into another order.",
        (Cause("Let `reshape` make a copy where one is needed.", f"{name}.reshape({sizes})"),),
        named(owner.name),
    )


@explains(
    "reshape",
    "RuntimeError",
    r"unflatten: Provided sizes \[([\d, ]*)\] don't multiply up to the size of dim (-?\d+) \((\d+)\)",
)
def unflatten(match: re.Match, situation: Situation) -> Reason:
    """Explain an unflatten whose sizes have another product."""
    owner = owner_of(situation)
    product = math.prod(numbers(match[1]))
    return Reason(
        f"Dimension {match[2]} of `{owner.name or 'the tensor'}` has {match[3]} elements; ({match[1]}) "
        f"needs {product}.",
        "The product of the sizes must be the size of the dimension that is split.",
        (Cause("One of the sizes is another.", f"sizes whose product is {match[3]}, or one of them -1"),),
        named(owner.name),
    )


@explains(
    "cat-shapes",
    "RuntimeError",
    r"Sizes of tensors must match except in dimension (\d+)\. Expected (?:size )?(\d+) (?:in dimension \d+ )?but got "
    r"(?:size )?(\d+) for tensor number (\d+)",
)
def joined(match: re.Match, situation: Situation) -> Reason:
    """Explain a cat of tensors that differ in another dimension than the one they are joined in."""
    along, number = int(match[1]), int(match[4])
    tensors = _parts(situation)
    shapes = [tuple(one.value.shape) for one in tensors if isinstance(one.value, Tensor)]
    odd = tensors[number].name if number < len(tensors) else ""
    causes = []
    if len(shapes) == len(tensors) and shapes:
        differ = [place for place in range(len(shapes[0])) if len({sizes[place] for sizes in shapes}) > 1]
        if len(differ) == 1 and differ[0] != along:
            fix = f"torch.cat([{', '.join(one.name for one in tensors)}], dim={differ[0]})"
            causes.append(Cause(f"They are to be joined in dimension {differ[0]}, the only one that differs.", fix))
        if len(shapes[0]) == 4 and along == 1:
            first, other = tensors[0].name, odd or "other"
            fix = f"F.interpolate({other}, size={first}.shape[-2:])"
            causes.append(Cause("Both branches must keep the same height and width.", fix))
    if not causes or along == 0:
        fix = f"assert {odd or 'tensor'}.shape[…] == {match[2]}  # or pad it to {match[2]}"
        causes.append(Cause(f"`{odd or f'Tensor {number}'}` was made with another size.", fix))
    sizes = ", ".join(f"`{one.name}` {shape(one.value)}" for one in tensors if isinstance(one.value, Tensor))
    return Reason(
        f"Joined along dimension {along}, they differ elsewhere: {match[2]} and {match[3]}"
        + (f" ({sizes})." if sizes else "."),
        "`torch.cat` needs equal sizes in every dimension but the one it joins.",
        tuple(causes),
        named(odd, *(one.name for one in tensors)),
    )


def _parts(situation: Situation) -> list[Operand]:
    """Return the tensors that are joined."""
    call = situation.source.call
    given = call.args[0] if call is not None and call.args else None
    if isinstance(given, ast.List | ast.Tuple):
        return [Operand(ast.unparse(one), situation.value_of(one)) for one in given.elts]
    value = situation.value_of(given) if given is not None else None
    if isinstance(value, list | tuple):
        return [Operand(f"{ast.unparse(given)}[{number}]", one) for number, one in enumerate(value)]
    return []


@explains(
    "cat-shapes",
    "RuntimeError",
    r"Tensors must have same number of dimensions: got (\d+) and (\d+)",
    r"(zero)-(dimensional) tensor \(at position \d+\) cannot be concatenated",
)
def other_dimensions(match: re.Match, situation: Situation) -> Reason:
    """Explain a cat of a matrix and a vector, or of single numbers."""
    tensors = _parts(situation)
    few = min(
        (one for one in tensors if isinstance(one.value, Tensor)),
        key=lambda one: one.value.ndim,
        default=tensors[0 if match[1] < match[2] else 1] if len(tensors) == 2 else Operand("the smaller one", None),
    )
    sizes = ", ".join(f"`{one.name}` {shape(one.value)}" for one in tensors if isinstance(one.value, Tensor))
    all_single = all(isinstance(one.value, Tensor) and one.value.ndim == 0 for one in tensors) and tensors
    if all_single:
        causes = (
            Cause(
                "Single numbers are stacked, not joined.", f"torch.stack([{', '.join(one.name for one in tensors)}])"
            ),
        )
    else:
        causes = (
            Cause(f"`{few.name}` is one row: give it the dimension.", f"{simple(few.name)}.unsqueeze(0)"),
            Cause(f"`{few.name}` is one column.", f"{simple(few.name)}.unsqueeze(1)"),
        )
    return Reason(
        "They have another number of dimensions" + (f": {sizes}." if sizes else "."),
        "`torch.cat` joins along a dimension that all of them have; it makes none.",
        causes,
        named(few.name if few.value is not None else "", *(one.name for one in tensors)),
    )


@explains(
    "cat-shapes",
    "RuntimeError",
    r"stack expects each tensor to be equal size, but got \[([\d, ]*)\] at entry \d+ and \[([\d, ]*)\] at entry (\d+)",
)
def stacked(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a stack of the user's own; inside a DataLoader it is about collating."""
    if any("collate" in place.function for place in situation.raised.library_places):
        return None
    tensors, first, other = _parts(situation), shape(numbers(match[1])), shape(numbers(match[2]))
    given = situation.argument(0)
    odd = tensors[int(match[3])].name if int(match[3]) < len(tensors) else ""
    return Reason(
        f"The tensors of `{given or 'the list'}` have other shapes: entry 0 is {first}, entry {match[3]} is {other}.",
        "`torch.stack` puts tensors of one shape side by side in a new dimension.",
        (
            Cause(
                "Sequences of other lengths are filled up first.",
                f"nn.utils.rnn.pad_sequence({given or 'tensors'}, batch_first=True)",
            ),
            Cause("To join them one after the other, no new dimension is needed.", f"torch.cat({given or 'tensors'})"),
        ),
        named(odd, given if given.isidentifier() else "", *(one.name for one in tensors)),
    )


@explains(
    "dimension-out-of-range",
    "IndexError",
    r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)",
)
def no_such_dimension(match: re.Match, situation: Situation) -> Reason:
    """Explain a dim that the tensor does not have."""
    last, got = int(match[2]), int(match[3])
    owner = owner_of(situation)
    name = simple(owner.name or "x")
    sizes = shape(owner.value) if isinstance(owner.value, Tensor) else f"{last + 1} dimension{'s' if last else ''}"
    causes = [Cause(f"The dimension that was meant is one of 0 to {last}; -1 is always the last.", "dim=-1")]
    if got > 0:
        causes.append(
            Cause(
                "The tensor has lost a dimension, often the batch: it was indexed, squeezed or reduced.",
                f"{name}.unsqueeze(0)",
            )
        )
    call = situation.source.call
    function = ast.unparse(call.func).rpartition(".")[2] if call is not None else ""
    if situation.layer is not None or function in (
        "transpose",
        "permute",
        "flatten",
        "swapaxes",
        "movedim",
        "unflatten",
    ):
        causes.reverse()  # these are written for a whole batch
    return Reason(
        f"`{owner.name or 'The tensor'}` is {sizes}, so its dimensions are 0 to {last}; there is no dimension {got}.",
        "Dimensions are counted from 0; -1 is the last one.",
        tuple(causes),
        named(owner.name),
    )
