"""The statement that failed, and the expression in it, as Python's syntax tree."""

import ast
import functools
import textwrap
from dataclasses import dataclass

from labkit.doctor.explain.frames import Place


@dataclass(frozen=True)
class Source:
    """What is written where an error came from.

    text: the lines of the statement, "" where they are not known. expression: the part that failed, or the whole
    statement where Python does not tell; None without source. parts: the expressions of the statement's first lines.
    """

    text: str
    expression: ast.AST | None
    parts: tuple[ast.AST, ...]

    @property
    def call(self) -> ast.Call | None:
        """The call that failed; on a line with one call, that one."""
        if isinstance(self.expression, ast.Call):
            return self.expression
        calls = [node for part in self.parts for node in ast.walk(part) if isinstance(node, ast.Call)]
        return calls[0] if len(calls) == 1 else None


def source_of(place: Place) -> Source:
    """Return what is written at a place."""
    lines = place.lines
    if not 0 < place.line <= len(lines):
        return Source("", None, ())
    tree = parsed("".join(lines))
    statement = _statement(tree, place.line) if tree else None
    if statement is None:
        return Source(lines[place.line - 1].strip(), None, ())
    parts = _head(statement)
    last = max((getattr(part, "end_lineno", place.line) for part in parts), default=place.line)
    text = textwrap.dedent("".join(lines[statement.lineno - 1 : max(last, place.line)])).rstrip()
    expression = _at(statement, place.position) if place.position else None
    whole = parts[-1] if isinstance(statement, ast.Assign) or len(parts) == 1 else statement
    return Source(text, expression or whole, parts)


@functools.lru_cache(maxsize=16)
def parsed(text: str) -> ast.Module | None:
    """Return the syntax tree of a file or cell, None if it is not Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _statement(tree: ast.AST, line: int) -> ast.stmt | None:
    """Return the innermost statement that a line belongs to."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt | ast.excepthandler) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    statements = [node for node in around if isinstance(node, ast.stmt)]
    return max(statements, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def _head(statement: ast.stmt) -> tuple[ast.AST, ...]:
    """Return the expressions of a statement that run at its own line: of `for x in y: …` that is x and y."""
    match statement:
        case ast.For() | ast.AsyncFor():
            return (statement.target, statement.iter)
        case ast.While() | ast.If():
            return (statement.test,)
        case ast.With() | ast.AsyncWith():
            return tuple(item.context_expr for item in statement.items)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return tuple(statement.decorator_list)
        case ast.Assign():
            return (*statement.targets, statement.value)
        case ast.Expr() | ast.Return(value=ast.expr()):
            return (statement.value,)
    return (statement,)


def _at(statement: ast.stmt, position: tuple[int, int, int, int]) -> ast.AST | None:
    """Return the outermost expression that is written exactly at a position."""
    for node in ast.walk(statement):
        if (
            isinstance(node, ast.expr)
            and (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset) == position
        ):
            return node
    return None
