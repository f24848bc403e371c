"""The statements of the user's that change a tensor in place, and how each would be written without."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType

from torch import Tensor

from labkit.doctor.explain.frames import Place
from labkit.doctor.explain.history import calls_in, function_at
from labkit.doctor.explain.situation import Situation
from labkit.doctor.explain.source import parsed


@dataclass(frozen=True)
class Change:
    """A statement that changes a variable in place. made: the calls and operators that had made the variable."""

    node: ast.stmt
    name: str
    made: str
    where: str

    @property
    def text(self) -> str:
        """The statement on one line."""
        return ast.unparse(self.node)


def changes(situation: Situation) -> list[Change]:
    """Return the changes in place of the user's code, what ran last first.

    Looked at are the function that failed, every forward of the user's modules, and the functions that led here.
    """
    found: dict[tuple[str, int], Change] = {}
    for place in _user_code(situation):
        function = function_at(place)
        for change in _changes_in(function) if function is not None else ():
            value = place.variables.get(change.name)
            if isinstance(value, Tensor) or (value is None and change.made):
                found.setdefault((place.file, change.node.lineno), change)
    return list(found.values())


def changes_in_file(place: Place | None) -> list[Change]:
    """Return the changes in place in all functions of the file or cell that a place is in."""
    tree = parsed("".join(place.lines)) if place else None
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)] if tree else []
    return [change for function in functions for change in _changes_in(function)]


def _changes_in(function: ast.AST) -> Iterator[Change]:
    before: dict[str, str] = {}
    where = getattr(function, "name", "this cell")
    statements = [one for one in ast.walk(function) if isinstance(one, ast.stmt)]
    for node in sorted(statements, key=lambda one: one.lineno):
        name = changed_name(node)
        if name in before:
            yield Change(node, name, before[name], f"line {node.lineno}, in {where}")
        for target in node.targets if isinstance(node, ast.Assign) else ():
            before[ast.unparse(target)] = " ".join(_operations(node.value)).lower()


def _operations(node: ast.AST) -> list[str]:
    operators = [type(one.op).__name__ for one in ast.walk(node) if isinstance(one, ast.BinOp | ast.UnaryOp)]
    return [*calls_in(node), *operators]


def _user_code(situation: Situation) -> Iterator[Place]:
    if situation.place is not None:
        yield situation.place
    for _, model in situation.models:
        for module in model.modules():
            function = vars(type(module)).get("forward")
            if isinstance(function, FunctionType):
                code = function.__code__
                place = Place(code.co_filename, code.co_firstlineno, code.co_name)
                if place.is_of_user:
                    yield place
    yield from (place for place in reversed(situation.raised.places) if place.is_of_user)


def changed_name(node: ast.stmt) -> str:
    """Return the variable that a statement changes in place, "" if it changes none."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name))):
            return name
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            return name
        case ast.Expr(value=call) | ast.Assign(value=call):
            return _changed_by(call)
    return ""


def _changed_by(call: ast.expr) -> str:
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method.endswith("_"):
            return name
        case ast.Call(args=[ast.Name(id=name), *_], keywords=options) if any(one.arg == "inplace" for one in options):
            return name
    return ""


def out_of_place(node: ast.stmt) -> str:
    """Return the statement that makes a new tensor instead."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name)):
            return f"{name} = {ast.unparse(ast.BinOp(ast.Name(name), node.op, node.value))}"
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=given)):
            return f"{name} = {name}.{method[:-1]}({', '.join(map(ast.unparse, given))})"
        case ast.Assign(value=ast.Call(func=ast.Attribute(attr=method))) if method.endswith("_"):
            return ast.unparse(node).replace(f".{method}(", f".{method[:-1]}(")
        case ast.Assign() | ast.AugAssign():
            name = changed_name(node)
            return f"{name} = {name}.clone()\n{ast.unparse(node)}"
    return f"{ast.unparse(node)}  # without inplace=True, and with its result assigned"
