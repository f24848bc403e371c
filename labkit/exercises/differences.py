"""Where two results differ first: in kind, shape, dtype, device, graph or value.

A result is what a run of an answer lets one see: a tensor, a number, a text, or tuples, lists and dicts of those.
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

FEW = 24  # elements of a tensor that are printed whole


@dataclass(frozen=True)
class Tolerance:
    """How close is equal, and whether the graph counts: |got - expected| <= absolute + relative * |expected|."""

    relative: float = 1e-5
    absolute: float = 1e-6
    graph: bool = False


@dataclass(frozen=True)
class Difference:
    """One thing that differs: its place in a nested result ("" for the whole), what it is, expected and got."""

    where: str
    what: str
    expected: str
    got: str


def differences(expected: Any, got: Any, tolerance: Tolerance, where: str = "") -> list[Difference]:
    """Return what differs at the first place that differs, or [] when the results are equal.

    Equal tensors have equal shape, dtype, device and values (NaN equals NaN), with `tolerance.graph` also equal
    `requires_grad` and `is_leaf`. Lists and tuples are compared by their elements, whole numbers equal floats.
    """
    if kind(expected) != kind(got):
        return [Difference(where, "kind", kind(expected), kind(got))]
    if isinstance(expected, torch.Tensor):
        return _of_tensors(expected, got, tolerance, where)
    if isinstance(expected, np.ndarray):
        return _of_tensors(torch.as_tensor(expected), torch.as_tensor(got), tolerance, where)
    if isinstance(expected, dict):
        return _of_dicts(expected, got, tolerance, where)
    if isinstance(expected, list | tuple):
        if len(expected) != len(got):
            return [Difference(where, "length", str(len(expected)), str(len(got)))]
        pairs = {f"{where}[{place}]": pair for place, pair in enumerate(zip(expected, got, strict=True))}
        return _first(pairs, tolerance)
    equal = _close(expected, got, tolerance) if kind(expected) == "a number" else expected == got
    return [] if equal else [Difference(where, "value", shown(expected), shown(got))]


def kind(value: Any) -> str:
    """Return what a value is, in words for a learner: "a tensor", "a number", "None"."""
    match value:
        case torch.Tensor():
            return _kind_of_tensor(value)
        case np.ndarray():
            return "a NumPy array"
        case bool():
            return "True or False"
        case Real():
            return "a number"
        case list() | tuple():
            return "a list or tuple"
        case None:
            return "None"
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in set('aeiou') else 'a'} {name}"


def _kind_of_tensor(value: torch.Tensor) -> str:
    """Return "a tensor", or of which sort it is if its numbers do not stand in one row of boxes."""
    if is_lazy(value):
        return "a parameter without a size yet"
    if value.is_nested:
        return "a nested tensor"
    if value.is_quantized:
        return "a quantised tensor"
    layout = str(value.layout).removeprefix("torch.").strip("_").split("_")[0]  # sparse_coo is sparse
    return "a tensor" if value.layout is torch.strided else f"a {layout} tensor"


def shown(value: Any, few: int = FEW) -> str:
    """Return a value as short text: a tensor of up to `few` elements whole, a larger one by its dtype and shape."""
    if isinstance(value, torch.Tensor):
        if value.numel() <= few and value.device.type != "meta":
            return " ".join(str(value.detach()).split())
        return f"{dtype_name(value.dtype)} tensor of shape {tuple(value.shape)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 200 else f"{text[:197]}…"


def dtype_name(dtype: torch.dtype) -> str:
    """Return "float32" for torch.float32."""
    return str(dtype).removeprefix("torch.")


def _of_tensors(expected: torch.Tensor, got: torch.Tensor, tolerance: Tolerance, where: str) -> list[Difference]:
    facts = {
        "shape": (str(tuple(expected.shape)), str(tuple(got.shape))),
        "dtype": (dtype_name(expected.dtype), dtype_name(got.dtype)),
        "device": (str(expected.device), str(got.device)),
    }
    if tolerance.graph:
        facts["requires_grad"] = (str(expected.requires_grad), str(got.requires_grad))
        facts["leaf"] = (str(expected.is_leaf), str(got.is_leaf))
    found = [Difference(where, what, *pair) for what, pair in facts.items() if pair[0] != pair[1]]
    comparable = expected.shape == got.shape and expected.device == got.device and expected.device.type != "meta"
    if comparable and not _values_close(expected.detach(), got.detach(), tolerance):
        found.append(Difference(where, "value", *_values(expected, got, tolerance)))
    return found


def _values_close(expected: torch.Tensor, got: torch.Tensor, tolerance: Tolerance) -> bool:
    return bool(_elements_close(expected, got, tolerance).all())


def _elements_close(expected: torch.Tensor, got: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    if expected.dtype == got.dtype and not expected.is_floating_point() and not expected.is_complex():
        return expected == got  # whole numbers and truth values are equal or not
    common = torch.complex128 if expected.is_complex() or got.is_complex() else torch.float64
    return torch.isclose(
        got.to(common), expected.to(common), rtol=tolerance.relative, atol=tolerance.absolute, equal_nan=True
    )


def _values(expected: torch.Tensor, got: torch.Tensor, tolerance: Tolerance) -> tuple[str, str]:
    """Return both values as text: small tensors whole; of large ones, and of those whose four digits are equal, the
    first element that differs.
    """
    if expected.numel() <= FEW and shown(expected) != shown(got):
        return shown(expected), shown(got)
    place = tuple((~_elements_close(expected.detach(), got.detach(), tolerance)).nonzero()[0].tolist())
    return f"{expected[place].item()} at {list(place)}", f"{got[place].item()} at {list(place)}"


def _of_dicts(expected: dict, got: dict, tolerance: Tolerance, where: str) -> list[Difference]:
    if list(expected) != list(got) and set(expected) != set(got):
        return [Difference(where, "names", ", ".join(map(str, expected)), ", ".join(map(str, got)))]
    return _first({_joined(where, name): (expected[name], got[name]) for name in expected}, tolerance)


def _joined(where: str, name: object) -> str:
    return f"{where}: {name}" if where else str(name)


def _first(pairs: dict[str, tuple[Any, Any]], tolerance: Tolerance) -> list[Difference]:
    for place, (expected, got) in pairs.items():
        if found := differences(expected, got, tolerance, place):
            return found
    return []


def _close(expected: float, got: float, tolerance: Tolerance) -> bool:
    if math.isnan(expected) or math.isnan(got):
        return math.isnan(expected) and math.isnan(got)
    if math.isinf(expected) or math.isinf(got):
        return expected == got
    return abs(got - expected) <= tolerance.absolute + tolerance.relative * abs(expected)
