"""How the values on a line came to be: the statements of the same function that made them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from labkit.doctor.explain.frames import Place
from labkit.doctor.explain.source import parsed

_LOOPS = (ast.For, ast.While, ast.AsyncFor)
_UNRECORDED = ("no_grad", "inference_mode", "set_grad_enabled")


@dataclass(frozen=True)
class Step:
    """A statement that gave a variable its value.

    name: the variable. node: the statement. value: what was assigned. loops: the lines of the loops it is in.
    is_recorded: False inside `with torch.no_grad():` and its like.
    """

    name: str
    node: ast.stmt
    value: ast.AST
    loops: tuple[int, ...]
    is_recorded: bool

    @property
    def text(self) -> str:
        """The statement on one line."""
        return ast.unparse(self.node)


def function_at(place: Place) -> ast.AST | None:
    """Return the innermost function that a place is in, or the whole file or cell; None without source."""
    tree = parsed("".join(place.lines))
    if tree is None:
        return None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= place.line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda node: node.lineno, default=tree)


def loops_at(place: Place) -> tuple[int, ...]:
    """Return the lines of the loops around a place, the outermost first."""
    function = function_at(place)
    inside = [node for node in ast.walk(function) if isinstance(node, _LOOPS)] if function else []
    return tuple(sorted(node.lineno for node in inside if node.lineno <= place.line <= (node.end_lineno or 0)))


def steps(place: Place) -> list[Step]:
    """Return every assignment of the function that a place is in, in the order in which they are written."""
    function = function_at(place)
    return sorted(_steps(function, (), True), key=lambda step: step.node.lineno) if function else []


def made_from(place: Place, name: str, most: int = 12) -> list[Step]:
    """Return the assignments that led to a variable before a line, the latest first: its own, those of what it uses."""
    known, found, waiting = [*_of_class(place), *steps(place)], [], [(name, place.line)]
    while waiting and len(found) < most:
        name, line = waiting.pop(0)
        is_shared = "." in name  # an attribute may have been set in another method
        before = [step for step in known if step.name == name and (is_shared or step.node.lineno < line)]
        if before and before[-1] not in found:
            found.append(before[-1])
            waiting += [(used, before[-1].node.lineno) for used in names_in(before[-1].value)]
    return found


def _of_class(place: Place) -> list[Step]:
    """Return the assignments to attributes in the methods of the class that a place is in."""
    tree = parsed("".join(place.lines))
    classes = [
        node
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, ast.ClassDef) and node.lineno <= place.line <= (node.end_lineno or 0)
    ]
    methods = [node for one in classes for node in one.body if isinstance(node, ast.FunctionDef)]
    return [step for method in methods for step in _steps(method, (), True) if "." in step.name]


def names_in(node: ast.AST) -> list[str]:
    """Return the variables that an expression uses, in the order in which they are written."""
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)]


def calls_in(node: ast.AST) -> list[str]:
    """Return the names of the functions and methods that are called in an expression: `argmax`, `detach`."""
    calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    return [call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls]


def _steps(node: ast.AST, loops: tuple[int, ...], is_recorded: bool) -> Iterator[Step]:
    for child in ast.iter_child_nodes(node):
        inner_loops, inner_recorded = loops, is_recorded
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                        yield Step(ast.unparse(part), child, value, loops, is_recorded)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                yield Step(ast.unparse(target), child, child, loops, is_recorded)
            case ast.For() | ast.While() | ast.AsyncFor():
                inner_loops = (*loops, child.lineno)
            case ast.With(items=items):
                inner_recorded = is_recorded and not any(
                    name in ast.unparse(item.context_expr) for item in items for name in _UNRECORDED
                )
        yield from _steps(child, inner_loops, inner_recorded)
