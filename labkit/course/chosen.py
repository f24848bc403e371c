"""The parameters of a chapter: declared in its first code cell, changed by hand or injected by papermill.

papermill injects its values as a cell of its own behind the declared ones, and lets unknown names through with a mere
warning. So the chapter itself has to look: a misspelt `epoch=50` must not become a run with the default `epochs`.
"""

import ast
import difflib
from collections.abc import Mapping

from labkit.errors import ConfigError

TYPES = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}
IN_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    list: "a list",
    dict: "a dict",
}
INJECTED = "# Parameters"  # the first line of the cell that papermill injects


def parameters(namespace: Mapping[str, object]) -> dict[str, object]:
    """Return the chapter's parameters by name; call it as `parameters(globals())` right after they are set.

    Only names of the parameters cell are returned, whatever else is defined by now. Raises ConfigError for an injected
    name that the cell does not declare, for a value of another type than declared (a whole number may stand for a
    float), for an empty text, and when the parameters cell has not been run in this kernel.
    """
    executed = list(namespace.get("In", []))
    if executed == [""]:  # a runner that keeps no history, such as plain nbval, and injects nothing either
        executed = _as_annotated(namespace)
    position, declared = _latest_declarations(executed)
    for source in executed[position + 1 : position + 2]:
        if source.split("\n", 1)[0] == INJECTED:
            _refuse_unknown(_assigned_names(source), declared)
    for name, kind in declared.items():
        _refuse_other_type(name, namespace[name], kind)
    return {name: namespace[name] for name in declared}


def declarations(source: str) -> dict[str, type]:
    """Return name -> type of a parameters cell, whose every statement is `name: type = literal`.

    Raises ConfigError that quotes the first other statement, and SyntaxError where the text is not Python.
    """
    declared = {}
    for statement in ast.parse(source).body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id=kind), value=ast.expr() as value) if (
                kind in TYPES and _is_literal(value)
            ):
                declared[name] = TYPES[kind]
            case _:
                raise ConfigError(
                    f"The parameters cell has the line `{ast.unparse(statement)}`. Each of its lines must read "
                    f"`name: type = value`, with a plain value and one of the types {', '.join(TYPES)}."
                )
    return declared


def checked(values: Mapping[str, object], declared: Mapping[str, type]) -> dict[str, object]:
    """Return the values if each has a declared name and type. Raises ConfigError as `parameters` does."""
    _refuse_unknown(list(values), dict(declared))
    for name, value in values.items():
        _refuse_other_type(name, value, declared[name])
    return dict(values)


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def _as_annotated(namespace: Mapping[str, object]) -> list[str]:
    """Return the parameters cell as it must have been, made from what Python notes of annotated names."""
    kinds = {name: kind for name, kind in namespace.get("__annotations__", {}).items() if kind in TYPES.values()}
    return ["\n".join(f"{name}: {kind.__name__} = {namespace[name]!r}" for name, kind in kinds.items())]


def _latest_declarations(executed: list[str]) -> tuple[int, dict[str, type]]:
    """Find the parameters cell that ran last, by its form: the kernel does not know the tags of its cells."""
    for position in reversed(range(len(executed))):
        try:
            declared = declarations(executed[position])
        except (ConfigError, SyntaxError):
            continue
        if declared:
            return position, declared
    raise ConfigError("The parameters of this chapter are not set yet. Run its first code cell, then this one again.")


def _assigned_names(source: str) -> list[str]:
    statements = ast.parse(source).body
    return [statement.targets[0].id for statement in statements if isinstance(statement, ast.Assign)]


def _refuse_unknown(names: list[str], declared: dict[str, type]) -> None:
    for name in names:
        if name not in declared:
            close = difflib.get_close_matches(name, declared, n=1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            raise ConfigError(
                f"This chapter has no parameter {name!r}.{meant} Its parameters are {', '.join(declared)}."
            )


def _refuse_other_type(name: str, value: object, kind: type) -> None:
    if kind is str and type(value) is str and not value.strip():
        raise ConfigError(f"The parameter {name!r} must not be empty.")
    if type(value) is kind or (kind is float and type(value) is int):
        return
    advice = " With papermill, -r passes a value as text." if kind is str else ""
    raise ConfigError(f"The parameter {name!r} must be {IN_WORDS[kind]}, but it is {value!r}.{advice}")
