"""Values that were overwritten: while backward still needs them, or while the changes are recorded."""

import ast
import linecache
import re
from collections.abc import Iterator
from types import FunctionType

from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, numbers, shape
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.frames import Place
from labkit.doctor.explain.history import calls_in, function_at, names_in
from labkit.doctor.explain.situation import Situation


@explains(
    "in-place-changed",
    "RuntimeError",
    r"modified by an inplace operation: \[[\w.]+ \[?([\d, ]*)\]?\](?:, which is output \d+ of (?:aten::)?(\w+))?",
)
def changed(match: re.Match, situation: Situation) -> Reason:
    """Explain a value that backward needs: the line that changed it is looked for, here and in the user's modules."""
    sizes = numbers(match[1])
    operation = re.sub(r"Backward\d*$", "", match[2] or "").lower()
    found = list(_in_place_statements(situation))
    likely = [one for one in found if operation and operation in one[2]] or found
    causes = [
        Cause(f"`{name}` is changed in place by `{text}` ({where}).", _out_of_place(node))
        for node, name, _, text, where in ((one[0], one[1], one[2], ast.unparse(one[0]), one[3]) for one in likely[:2])
    ]
    names = [one[1] for one in likely[:2]]
    layers = [
        (situation.name_in_model(module), module)
        for _, model in situation.models
        for module in model.modules()
        if getattr(module, "inplace", False) is True
    ]
    if layers:
        name, layer = layers[0]
        kind = type(layer).__name__
        causes.append(Cause(f"`{name or kind}` overwrites its input.", f"nn.{kind}()  # without inplace=True"))
        names.append(name)
    stepped = _stepped(situation, sizes)
    if stepped:
        why = f"`{stepped}.step()` changed the parameters after the forward of this loss."
        fix = f"call the forward again before this backward, or all backwards before {stepped}.step()"
        causes.insert(
            0 if operation in ("asstrided", "t", "transpose", "") or not likely else len(causes), Cause(why, fix)
        )
        names.append(stepped)
    if not causes:
        causes.append(
            Cause("An operation such as `+=`, `x[i] = …` or `relu_` changed it.", "x = x + 1  # in place of x += 1")
        )
    made = f", made by {operation}," if operation else ""
    return Reason(
        f"A tensor of shape {shape(sizes)}{made} is needed by backward, and was overwritten after the forward.",
        "What backward needs must stay as it was in the forward: an operation in place makes it something else.",
        tuple(causes[:3]),
        named(*names),
    )


def _in_place_statements(situation: Situation) -> Iterator[tuple[ast.AST, str, str, str]]:
    """Yield (statement, variable, calls that made the variable, where) for changes in place in the user's code."""
    seen = set()
    for place in _user_code(situation):
        function = function_at(place)
        if function is None or (place.file, function) in seen:
            continue
        seen.add((place.file, function))
        before: dict[str, str] = {}
        for node in sorted(
            (one for one in ast.walk(function) if isinstance(one, ast.stmt)), key=lambda one: one.lineno
        ):
            name = _changed_name(node)
            if name and not name.startswith("total") and before.get(name, ""):
                yield node, name, before[name], f"line {node.lineno}, in {getattr(function, 'name', 'this cell')}"
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    made = " ".join(
                        [
                            *calls_in(node.value),
                            *(type(one.op).__name__ for one in ast.walk(node.value) if isinstance(one, ast.BinOp)),
                        ]
                    )
                    before[ast.unparse(target)] = made.lower() or "assigned"


def _user_code(situation: Situation) -> Iterator[Place]:
    """Yield the line that failed, and the first line of every forward of the user's modules."""
    for place in situation.raised.places:
        if place.is_of_user:
            yield place
    for _, model in situation.models:
        for module in model.modules():
            function = vars(type(module)).get("forward")
            if isinstance(function, FunctionType):
                code = function.__code__
                place = Place(code.co_filename, code.co_firstlineno, code.co_name)
                if place.is_of_user and linecache.getlines(code.co_filename):
                    yield place


def _changed_name(node: ast.stmt) -> str:
    """Return the variable that a statement changes in place, "" if it changes none."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name)):
            return name
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name))):
            return name
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            return name
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method))):
            return name if method.endswith("_") and not method.endswith("__") else ""
        case ast.Expr(value=ast.Call(args=[ast.Name(id=name), *_], keywords=options)):
            return name if any(one.arg == "inplace" for one in options) else ""
        case ast.Assign(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method))):
            return name if method.endswith("_") and not method.endswith("__") else ""
    return ""


def _out_of_place(node: ast.AST) -> str:
    """Return the statement that makes a new tensor instead."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name)):
            return f"{name} = {ast.unparse(ast.BinOp(ast.Name(name), node.op, node.value))}"
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=given)):
            return f"{name} = {name}.{method[:-1]}({', '.join(map(ast.unparse, given))})"
        case (
            ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))])
            | ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name)))
        ):
            return f"{name} = {name}.clone()\n{ast.unparse(node)}"
    return re.sub(r"inplace=True|(?<=\w)_(?=\()", "", ast.unparse(node)).replace(", )", ")")


def _stepped(situation: Situation, sizes: tuple[int, ...]) -> str:
    """Return the optimizer whose step changed a parameter of these sizes, "" if the line's functions have none."""
    parameters = {tuple(one.shape) for _, model in situation.models for one in model.parameters()}
    if sizes not in parameters and sizes[::-1] not in parameters:
        return ""
    for place in situation.raised.places:
        function = function_at(place) if place.is_of_user else None
        for call in ast.walk(function) if function is not None else ():
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="step"), args=[]) if "sched" not in name:
                    return name
    return ""


@explains(
    "in-place-leaf",
    "RuntimeError",
    r"a (?:view of a )?leaf Variable that requires grad is being used in an in-place operation",
)
def leaf(match: re.Match, situation: Situation) -> Reason:
    """Explain an update by hand that is recorded."""
    leaves = [
        one
        for one in situation.operands
        if isinstance(one.value, Tensor) and one.value.requires_grad and (one.value.is_leaf or one.value._is_view())
    ]
    changed = situation.source.expression
    target = changed.target if isinstance(changed, ast.AugAssign) else None
    first = ast.unparse(target) if target is not None else ""
    name = next((one.name for one in leaves if one.name == first), leaves[0].name if leaves else first)
    code = situation.source.text.strip() or f"{name or 'weight'} -= step"
    fix = "with torch.no_grad():\n" + "\n".join(f"    {line}" for line in code.splitlines())
    return Reason(
        f"`{name or 'The tensor'}` is a leaf that is trained: its changes would have to be recorded, and it would lose its place.",
        "A tensor with requires_grad is only changed where nothing is recorded.",
        (
            Cause("This is an update, or a start value: it is not to be recorded.", fix),
            Cause("Or a new value is wanted, and the leaf stays.", f"changed = {name or 'weight'}.clone()"),
        ),
        named(name),
    )


@explains("numpy-of-grad", "RuntimeError", r"Can't call numpy\(\) on Tensor that requires grad")
def numpy_of_grad(match: re.Match, situation: Situation) -> Reason:
    """Explain a tensor with a graph that goes to NumPy, Matplotlib or scikit-learn."""
    given = situation.library_value("self")
    name = situation.name_of(given) if isinstance(given, Tensor) else ""
    call = situation.source.call
    if not name and call is not None and isinstance(call.func, ast.Attribute) and call.func.attr == "numpy":
        name = ast.unparse(call.func.value)
    if not name:
        tensors = [one for one in situation.focus if isinstance(one.value, Tensor) and one.value.requires_grad]
        names = (
            [one.name for one in tensors] or [one for one in names_in(call) if one not in ("np", "plt", "numpy")]
            if call
            else []
        )
        name = names[0] if names else situation.argument(0)
    holder = situation.value_of(ast.parse(name, mode="eval").body) if name else None
    if isinstance(holder, list):
        fix = f"[one.item() for one in {name}]"
    else:
        fix = f"{name or 'x'}.detach().numpy()"
    return Reason(
        f"`{name or 'The tensor'}` is part of a graph, and NumPy records nothing.",
        "A tensor leaves the graph on purpose, by detach, or it stays a tensor.",
        (Cause("It is only looked at, plotted or measured.", fix),),
        named(name),
    )
