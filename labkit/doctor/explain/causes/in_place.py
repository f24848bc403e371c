"""Values that were overwritten: while backward still needs them, or while the changes are recorded."""

import ast
import re

from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, numbers, shape
from labkit.doctor.explain.changes import changes, changes_in_file, out_of_place
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.history import calls_in, function_at, steps
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
    found = changes(situation)
    same = [change for change in found if operation and operation in change.made]
    elsewhere = [change for change in changes_in_file(situation.place) if operation and operation in change.made]
    causes, names = [], []
    for change in (same or found[:1] or elsewhere)[:2]:
        why = f"`{change.name}` is changed in place by `{change.text}` ({change.where})."
        causes.append(Cause(why, out_of_place(change.node)))
        names.append(change.name)
    for name, cause in (*_overwriting_layers(situation)[:1], *_step_before(situation, sizes)):
        first = not same and operation in ("asstrided", "t", "transpose", "")
        causes.insert(0 if first else len(causes), cause)
        names.append(name)
    made = {step.name for step in steps(situation.place) if operation in calls_in(step.value)} if operation else set()
    if not causes and len(made) == 1:
        name = made.pop()
        causes.append(Cause(f"`{name}` is changed after it was made.", f"{name} = {name}.clone()  # before the change"))
        names.append(name)
    if not causes:
        why = "An operation such as `+=`, `x[i] = …` or `relu_` changed it."
        causes.append(Cause(why, "x = x + 1  # in place of x += 1"))
    origin = f", made by {operation}," if operation else ""
    return Reason(
        f"A tensor of shape {shape(sizes)}{origin} is needed by backward, and was overwritten after the forward.",
        "What backward needs must stay as it was in the forward: an operation in place makes it something else.",
        tuple(causes[:3]),
        named(*names),
    )


def _overwriting_layers(situation: Situation) -> list[tuple[str, Cause]]:
    """Return the layers with inplace=True."""
    layers = [module for _, model in situation.models for module in model.modules()]
    found = []
    for layer in layers:
        if getattr(layer, "inplace", False) is True:
            name, kind = situation.name_in_model(layer), type(layer).__name__
            cause = Cause(f"`{name or kind}` overwrites its input.", f"nn.{kind}()  # without inplace=True")
            found.append((name, cause))
    return found


def _step_before(situation: Situation, sizes: tuple[int, ...]) -> list[tuple[str, Cause]]:
    """Return the optimizer whose step changed a parameter of these sizes, none if the user's functions have none."""
    parameters = {tuple(one.shape) for _, model in situation.models for one in model.parameters()}
    if sizes not in parameters and sizes[::-1] not in parameters:
        return []
    for place in situation.raised.places:
        function = function_at(place) if place.is_of_user else None
        for call in ast.walk(function) if function is not None else ():
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="step"), args=[]) if "sched" not in name:
                    why = f"`{name}.step()` changed the parameters after the forward of this loss."
                    fix = f"call the forward again before this backward, or all backwards before {name}.step()"
                    return [(name, Cause(why, fix))]
    return []


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
        f"`{name or 'The tensor'}` is a leaf that is trained: its changes would have to be recorded, and "
        f"it would lose its place.",
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
        tensors = tensors or [one for one in situation.focus if isinstance(one.value, list | tuple)]
        name = tensors[0].name if tensors else situation.argument(0)
    holder = situation.value_of(ast.parse(name, mode="eval").body) if name else None
    fix = f"[one.item() for one in {name}]" if isinstance(holder, list) else f"{name or 'x'}.detach().numpy()"
    return Reason(
        f"`{name or 'The tensor'}` is part of a graph, and NumPy records nothing.",
        "A tensor leaves the graph on purpose, by detach, or it stays a tensor.",
        (Cause("It is only looked at, plotted or measured.", fix),),
        named(name),
    )
