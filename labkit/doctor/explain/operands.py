"""The values on a line, by the names that the user gave them, looked up without running anything."""

import ast
import types
from collections.abc import Iterator
from dataclasses import dataclass

import numpy
import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.frames import Place
from labkit.doctor.explain.layers import layer_in_words

NOTHING = object()
_OF_TENSORS = ("T", "mT", "data", "real", "H")
_NO_DATA = (
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodWrapperType,
    type,
)


@dataclass(frozen=True)
class Operand:
    """A value with its name: `x`, `self.fc`, `batch[0]`."""

    name: str
    value: object

    @property
    def in_words(self) -> str:
        """What there is to know of it: shape, dtype, device, and how it hangs in a graph."""
        return value_in_words(self.value)


def operands_of(place: Place, parts: tuple[ast.AST, ...]) -> tuple[Operand, ...]:
    """Return the values that parts of a statement use, each once, in the order in which they are written."""
    found = {operand.name: operand for part in parts for operand in _operands(part, place)}
    return tuple(found.values())


def tensors_of(place: Place, most: int = 6) -> tuple[Operand, ...]:
    """Return the tensors among the variables of a function: for lines whose text is not known."""
    return tuple(Operand(name, value) for name, value in place.variables.items() if isinstance(value, Tensor))[:most]


def _operands(node: ast.AST, place: Place) -> Iterator[Operand]:
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        value = lookup(node, place)
        if value is not NOTHING and not isinstance(value, _NO_DATA):
            yield Operand(ast.unparse(node), value)
            return
    if isinstance(node, ast.Lambda | ast.FunctionDef | ast.ClassDef):
        return
    for child in ast.iter_child_nodes(node):
        yield from _operands(child, place)


def lookup(node: ast.AST, place: Place) -> object:
    """Return the value of a name, attribute or constant subscript, NOTHING if that would run code of anybody."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name(id=name):
            for variables in (place.variables, place.global_variables):
                if name in variables:
                    return variables[name]
        case ast.Attribute(value=owner, attr=name):
            return attribute_of(lookup(owner, place), name)
        case ast.Subscript(value=owner, slice=index):
            return _item(lookup(owner, place), lookup(index, place))
    return NOTHING


def attribute_of(owner: object, name: str) -> object:
    """Return an attribute that is simply there: of an object, a module of layers, a class, a Python module."""
    if isinstance(owner, Tensor):
        return getattr(owner, name) if name in _OF_TENSORS and (name != "T" or owner.ndim == 2) else NOTHING
    own = getattr(owner, "__dict__", {})
    for holder in (own, *(own.get(kind) or {} for kind in ("_parameters", "_buffers", "_modules"))):
        if isinstance(holder, dict | types.MappingProxyType) and name in holder:
            return holder[name]
    if isinstance(owner, tuple) and name in getattr(type(owner), "_fields", ()):
        return owner[type(owner)._fields.index(name)]
    for kind in type(owner).__mro__:
        if name in vars(kind):
            value = vars(kind)[name]
            return NOTHING if hasattr(value, "__get__") or isinstance(owner, type) else value
    return NOTHING


def _item(owner: object, index: object) -> object:
    if owner is NOTHING or index is NOTHING:
        return NOTHING
    try:
        if type(owner) in (list, tuple, dict) or isinstance(owner, tuple):
            return owner[index]
        if isinstance(owner, nn.Sequential | nn.ModuleList) and isinstance(index, int):
            return list(owner._modules.values())[index]
        if isinstance(owner, nn.ModuleDict):
            return owner._modules[index]
        if type(owner) is Tensor and isinstance(index, int):
            return owner[index]
    except (IndexError, KeyError, TypeError):
        pass
    return NOTHING


def value_in_words(value: object) -> str:
    """Return what there is to know of a value, on one line."""
    if isinstance(value, Tensor):
        return _tensor_in_words(value)
    if isinstance(value, numpy.ndarray):
        return f"NumPy array {value.dtype} {shape_in_words(value.shape)}"
    if isinstance(value, nn.Module):
        return layer_in_words(value)
    if value is None or isinstance(value, bool | int | float | complex):
        return repr(value)
    if isinstance(value, str | bytes):
        return repr(value) if len(value) <= 40 else f"{type(value).__name__} of {len(value)}"
    if isinstance(value, list | tuple | dict | set):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def _tensor_in_words(tensor: Tensor) -> str:
    words = f"{str(tensor.dtype).removeprefix('torch.')} {shape_in_words(tensor.shape)} on {tensor.device}"
    if tensor.grad_fn is not None:
        return f"{words}, from {tensor.grad_fn.name()}"
    return f"{words}, requires_grad" if tensor.requires_grad else words


def shape_in_words(shape: tuple[int, ...]) -> str:
    """Return "(32, 400)"."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
