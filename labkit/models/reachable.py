"""Everything that can be reached from a module by its attributes, and the path that leads there."""

import collections
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn as nn

#: The attributes in which nn.Module keeps what is registered, its hooks and its mode.
_OWN_OF_MODULES = set(vars(nn.Module()))
_NOT_ENTERED = {"torch", *sys.stdlib_module_names}


@dataclass(frozen=True)
class Found:
    """A tensor or a module that an attribute leads to.

    owner: the name of the module that has the attribute, "" for the model. attribute: its name. place: what follows
    it, such as "[0]['mean']". holder: what kind of thing holds it: "attribute", "list", "dict", "nested list",
    "function", "object", "class". thing: the tensor or module.
    """

    owner: str
    attribute: str
    place: str
    holder: str
    thing: torch.Tensor | nn.Module

    @property
    def path(self) -> str:
        """How a program would reach it from `model`."""
        return ".".join(part for part in ("model", self.owner, self.attribute) if part) + self.place


def reachable(model: nn.Module) -> Iterator[Found]:
    """Yield the tensors and modules that attributes of the model and of its modules lead to, each of them once.

    Lists, tuples, sets, dicts, partial functions, methods, what functions close over, and objects of classes that do
    not belong to torch are entered; what is registered in the usual way is not yielded, unless such a path leads to it.
    """
    seen: set[int] = set()
    for owner, module in model.named_modules():
        for attribute, value in vars(module).items():
            if attribute not in _OWN_OF_MODULES:
                yield from _enter(Found(owner, attribute, "", "attribute", value), seen)
        for kind in type(module).__mro__:
            if kind.__module__.split(".")[0] not in _NOT_ENTERED:
                for attribute, value in vars(kind).items():
                    if isinstance(value, torch.Tensor | nn.Module | list | tuple | dict):
                        yield from _enter(Found(owner, attribute, "", "class", value), seen)


def _enter(found: Found, seen: set[int]) -> Iterator[Found]:
    value = found.thing
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor | nn.Module):
        yield found
        return
    for place, holder, part in _parts(value):
        inside = holder
        if found.holder in ("list", "dict", "nested list") and holder in ("list", "dict"):
            inside = "nested list"
        elif found.holder in ("function", "object", "class"):
            inside = found.holder
        yield from _enter(Found(found.owner, found.attribute, found.place + place, inside, part), seen)


def _parts(value: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield (how it is written, what holds it, the part) for each part of a container, a function or an object."""
    if isinstance(value, Mapping):
        for key, part in list(value.items()):
            yield f"[{key!r}]", "dict", part
    elif isinstance(value, list | tuple | set | frozenset | collections.deque):
        for number, part in enumerate(value):
            yield f"[{number}]", "list", part
    elif isinstance(value, functools.partial):
        for number, part in enumerate(value.args):
            yield f".args[{number}]", "function", part
        for name, part in value.keywords.items():
            yield f".keywords[{name!r}]", "function", part
        yield ".func", "function", value.func
    elif inspect.ismethod(value):
        yield ".__self__", "function", value.__self__
    elif inspect.isfunction(value):
        for name, part in _closed_over(value):
            yield f" (its variable {name})", "function", part
    elif _is_entered(value):
        for name, part in vars(value).items():
            yield f".{name}", "object", part


def _closed_over(function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function has kept from where it was made, and its default values."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    yield from zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True)


def _is_entered(value: Any) -> bool:
    if isinstance(value, type) or inspect.ismodule(value) or not hasattr(value, "__dict__"):
        return False
    return type(value).__module__.split(".")[0] not in _NOT_ENTERED
