"""Everything around one error that a rule may look at: the line, its values, the layer, what the library was given."""

import ast
import functools
from dataclasses import dataclass
from types import ModuleType

import torch.fx
import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain import layers
from labkit.doctor.explain.elsewhere import models_of
from labkit.doctor.explain.frames import Place, Raised
from labkit.doctor.explain.history import Step, made_from
from labkit.doctor.explain.operands import NOTHING, Operand, lookup, operands_of, tensors_of
from labkit.doctor.explain.source import Source, source_of

_WITH_SUM = ("addmm", "baddbmm", "addbmm")  # their first argument is what the product is added to


@dataclass(frozen=True)
class Situation:
    """An error with its surroundings. It holds the user's tensors, so it lives no longer than the explaining."""

    raised: Raised

    @functools.cached_property
    def place(self) -> Place | None:
        """The last line that is the user's own."""
        return self.raised.user_place

    @functools.cached_property
    def source(self) -> Source:
        """What is written there."""
        return source_of(self.place) if self.place else Source("", None, ())

    @functools.cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The values of the expression that failed, then the others of the line."""
        if self.place is None:
            return ()
        if not self.source.parts:
            return tensors_of(self.place)
        first = (self.source.expression,) if self.source.expression is not None else ()
        return operands_of(self.place, (*first, *self.source.parts))

    @functools.cached_property
    def focus(self) -> tuple[Operand, ...]:
        """The values of the expression that failed."""
        if self.place is None or self.source.expression is None:
            return self.operands
        return operands_of(self.place, (self.source.expression,))

    @functools.cached_property
    def layer(self) -> nn.Module | None:
        """The module of a library that raised the error, or that was called on the line."""
        candidates = layers.layer_at(self.raised.library_places), self._called_layer(), self._compiled_module()
        return next((one for one in candidates if one is not None), None)  # an empty container counts as false

    @functools.cached_property
    def layer_name(self) -> str:
        """How the user reaches that layer: `model.2`, or what is written on the line, "" if neither is known."""
        return self.name_in_model(self.layer) if self.layer is not None else ""

    @functools.cached_property
    def inputs(self) -> tuple[object, ...]:
        """What the layer was called with."""
        return layers.inputs_of(self.layer, self.raised.places) if self.layer is not None else ()

    def name_in_model(self, layer: nn.Module) -> str:
        """Return how the user reaches a module: `model.2`, or what is written on the line, "" if neither is known."""
        written = next((one.name for one in self.operands if one.value is layer), "")
        return layers.name_in_model(layer, (*self.raised.outside, *self.raised.places)) or written

    @functools.cached_property
    def models(self) -> list[tuple[str, nn.Module]]:
        """The models that the user's variables hold, each once, with their names."""
        found = {}
        for name, model in models_of((*self.raised.outside, *self.raised.places)):
            found.setdefault(id(model), (name, model))
        return list(found.values())

    @property
    def subject(self) -> str:
        """How the user writes what went into the layer or the call that failed, "" if that is not known."""
        return (self.name_of(self.input) if self.input is not None else "") or self.argument(0)

    @property
    def pair(self) -> tuple[Operand, Operand] | None:
        """The two sides of what failed: of `a @ b`, `torch.add(a, b)`, `a.add(b)`; None if there are not two."""
        match self.source.expression:
            case ast.BinOp(left=left, right=right) | ast.AugAssign(target=left, value=right):
                sides = [left, right]
            case ast.Compare(left=left, comparators=[right]):
                sides = [left, right]
            case ast.Call(func=function, args=[*given]):
                owner = function.value if isinstance(function, ast.Attribute) else None
                is_function = owner is None or isinstance(self.value_of(owner), ModuleType | nn.Module | type)
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                sides = given[1:] if name in _WITH_SUM else given if is_function else [owner, *given]
            case _:
                return None
        sides = [Operand(ast.unparse(side), self.value_of(side)) for side in sides[:2]]
        return (sides[0], sides[1]) if len(sides) == 2 else None

    @property
    def input(self) -> Tensor | None:
        """The first tensor that the layer was called with."""
        return layers.first_tensor(self.inputs)

    def library_value(self, *names: str) -> object:
        """Return what a variable of the library was when it failed, the innermost first; None if there is none."""
        for place in reversed(self.raised.library_places):
            for name in names:
                if place.variables.get(name) is not None:
                    return place.variables[name]
        return None

    def argument(self, number: int, keyword: str = "") -> str:
        """Return how an argument of the call that failed is written, "" if that is not known."""
        call = self.source.call
        if call is None:
            return ""
        for one in call.keywords:
            if keyword and one.arg == keyword:
                return ast.unparse(one.value)
        written = call.args[number] if number < len(call.args) else None
        return ast.unparse(written) if written is not None and not isinstance(written, ast.Starred) else ""

    def made(self, name: str) -> list[Step]:
        """Return the statements that led to a variable, the latest first."""
        return made_from(self.place, name) if self.place else []

    def value_of(self, node: ast.AST) -> object:
        """Return the value of a part of the line, None if it would have to be computed."""
        value = lookup(node, self.place) if self.place else NOTHING
        return None if value is NOTHING else value

    def name_of(self, value: object) -> str:
        """Return the name that the user has for a value: on the line, or else among the variables; "" for none."""
        for operand in self.operands:
            if operand.value is value:
                return operand.name
        variables = self.place.variables if self.place else {}
        return next((name for name, other in variables.items() if other is value and not name.startswith("_")), "")

    def _compiled_module(self) -> nn.Module | None:
        """Return the module whose compiled graph failed: of the lines in it, none is known."""
        last = self.raised.library_places[-1:]
        is_graph = bool(last) and isinstance(last[0].variables.get("self"), torch.fx.GraphModule)
        return layers.layer_at(self.raised.places) if is_graph else None

    def _called_layer(self) -> nn.Module | None:
        call = self.source.call
        called = self.value_of(call.func) if call is not None else None
        return called if isinstance(called, nn.Module) else None
