"""Modules that are not made or not called as they should be."""

import ast
import difflib
import re

import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.operands import Operand
from labkit.doctor.explain.situation import Situation


@explains(
    "missing-super-init",
    "AttributeError",
    r"cannot assign (module|parameters?|buffer)s? before Module\.__init__\(\) call",
    r"'(\w+)' object has no attribute '_(?:parameters|modules|buffers|backward_hooks|forward_hooks|non_persistent\w+)'",
)
def no_super_init(match: re.Match, situation: Situation) -> Reason:
    """Explain a module whose constructor does not call that of nn.Module."""
    makers = [place for place in situation.raised.places if isinstance(place.variables.get("self"), nn.Module)]
    kind = type(makers[-1].variables["self"]).__name__ if makers else match[1]
    target = next((ast.unparse(part) for part in situation.source.parts if isinstance(part, ast.Attribute)), "")
    return Reason(
        f"`{kind}` has no place for layers yet" + (f", when `{target}` is set." if target else "."),
        "nn.Module.__init__ makes the lists in which layers, parameters and buffers are registered.",
        (
            Cause(
                f"The constructor of `{kind}` does not call it first.",
                "def __init__(self, …):\n    super().__init__()  # the first line",
            ),
        ),
        named(kind, target),
    )


@explains("missing-forward", "NotImplementedError", r"Module \[(\w+)\] is missing the required \"forward\" function")
def no_forward(match: re.Match, situation: Situation) -> Reason:
    """Explain a module that has no forward: another name, another indentation, a container."""
    kind = match[1]
    module = situation.layer
    name = situation.layer_name
    if kind in ("ModuleList", "ModuleDict"):
        causes = (
            Cause(
                "It holds modules, and does not call them: a loop does.",
                f"for layer in {name or 'layers'}{'.values()' if kind.endswith('Dict') else ''}:\n    x = layer(x)",
            ),
            Cause("Or they are to be called one after the other.", f"nn.Sequential(*{name or 'layers'})"),
        )
        return Reason(
            f"`{name or kind}` is a {kind}.", "What is called as a module needs a forward.", causes, named(name, kind)
        )
    own = (
        [key for one in type(module).__mro__ for key in vars(one) if one.__module__.partition(".")[0] != "torch"]
        if module is not None
        else []
    )
    close = difflib.get_close_matches("forward", own, n=1, cutoff=0.6)
    inner = (
        [
            key
            for key in ("__init__",)
            if module is not None and "forward" in getattr(getattr(type(module), key), "__code__", None).co_varnames
        ]
        if module is not None
        else []
    )
    if close:
        causes = (Cause(f"It is called `{close[0]}` there.", "def forward(self, x):"),)
    elif inner:
        causes = (
            Cause(
                "It is indented too far: it is a function inside `__init__`.",
                "    def forward(self, x):  # as far left as __init__",
            ),
        )
    elif "__call__" in own:
        causes = (Cause("It is called `__call__` there, which belongs to nn.Module.", "def forward(self, x):"),)
    else:
        causes = (
            Cause(
                "It was not written, or is indented so that it is no method of the class.",
                "def forward(self, x):\n    return …",
            ),
        )
    return Reason(
        f"`{kind}` has no method `forward`"
        + (f"; it has {', '.join(f'`{one}`' for one in own if not one.startswith('_'))}." if close else "."),
        "Calling a module calls its forward.",
        causes,
        named(kind, name, *close),
    )


@explains(
    "not-a-tensor",
    "TypeError",
    r"(?P<function>\w+)\(\): argument '(?P<argument>input|target|indices|weight|tensors?)' \(position "
    r"(?P<number>\d+)\) must be "
    r"Tensor, not (?P<type>[\w.]+)",
    r"(?P<function>\w+)\(\) received an invalid combination of arguments - got \((?P<type>numpy\.ndarray|"
    r"list|tuple|NoneType|\w+)"
    r", (?:Parameter|Tensor)",
    r"expected Tensor as element (?P<number>\d+) in argument 0, but got (?P<type>[\w.]+)",
)
def argument(match: re.Match, situation: Situation) -> Reason | None:
    """Explain something else where a tensor belongs."""
    kind = match["type"]
    found = match.groupdict()
    value, name = _stranger(situation, kind, int(found.get("number") or 1))
    if value is None and not name:
        return None
    return _not_a_tensor(situation, Operand(name, value), kind, found.get("function") or "the function")


@explains("not-a-tensor", "AttributeError", r"'(?P<type>[\w.]+)' object has no attribute '(?P<attribute>\w+)'")
def attribute(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a module, an array or a list that was taken for a tensor."""
    kind, wanted = match["type"], match["attribute"]
    if not hasattr(Tensor, wanted):
        return None
    inside = [place for place in situation.raised.library_places if place.function != "__getattr__"]
    in_torch = any(re.search(r"[/\\]torch[/\\]nn[/\\]", place.file) for place in inside)
    value, name = _stranger(situation, kind, 1)
    is_module = isinstance(value, nn.Module)
    expression = situation.source.expression
    if isinstance(expression, ast.Attribute | ast.Call):
        owner = expression.func if isinstance(expression, ast.Call) else expression
        owner = owner.value if isinstance(owner, ast.Attribute) else owner
        seen = situation.value_of(owner)
        if type(seen).__name__ == kind and not in_torch:
            value, name = seen, ast.unparse(owner)
            is_module = isinstance(seen, nn.Module)
        elif isinstance(owner, ast.Call) and hasattr(nn, kind):
            value, name, is_module = None, ast.unparse(owner), True
    if not (is_module or in_torch) and not (isinstance(value, tuple) and _made_by_module(situation, name)):
        return None  # a list of the user's without the attribute of a tensor is the user's own affair
    if not name and value is None:
        return None
    return _not_a_tensor(situation, Operand(name, value), kind, wanted)


def _stranger(situation: Situation, kind: str, number: int) -> tuple[object, str]:
    """Return the value of that type among what the line uses or the layer got, and its name."""
    short = kind.rpartition(".")[2]
    for one in (*situation.focus, *situation.operands):
        if type(one.value).__name__ == short and one.value is not situation.layer:
            return one.value, one.name
    called = situation.value_of(situation.source.call.func) if situation.source.call is not None else None
    for place, value in enumerate(situation.inputs):
        if type(value).__name__ == short:
            written = situation.argument(place) if called is situation.layer else ""
            return value, situation.name_of(value) or written
    return None, situation.argument(number - 1)


def _made_by_module(situation: Situation, name: str) -> bool:
    from_history = situation.made(name) if name.isidentifier() else []
    return any(
        isinstance(situation.value_of(step.value.func), nn.Module)
        for step in from_history
        if isinstance(step.value, ast.Call)
    )


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" or kind == "ndarray" else f"a {kind}"


def _not_a_tensor(situation: Situation, odd: Operand, kind: str, wanted: str) -> Reason:
    name, it, value = odd.name, simple(odd.name or "x"), odd.value
    short = kind.rpartition(".")[2]
    if isinstance(value, nn.Module) or hasattr(nn, short):
        steps = [step.value for step in situation.made(name) if step.name == name]
        made = ast.unparse(steps[0]) if steps else name
        call = re.fullmatch(r"((?:torch\.)?(?:nn\.)?[A-Z]\w+)\((.+)\)", made)
        if call and re.search(r"(^|, ?|=)\d", call[2]):
            call = None  # it got numbers, as it should
        maker = situation.value_of(steps[0].func) if steps and isinstance(steps[0], ast.Call) else None
        causes = [
            Cause(
                f"`{made}` gives back a layer: forward ends with the layer itself.",
                "return self.layer(x)  # in forward",
            )
            if isinstance(maker, nn.Module) or (steps and isinstance(getattr(steps[0], "func", None), ast.Call))
            else Cause("A layer is made first, and then called with its input.", f"{call[1]}()({call[2]})")
            if call
            else Cause("The layer itself was given, and not what it gives.", f"{it}(x)")
        ]
    elif short == "ndarray":
        causes = [
            Cause("NumPy arrays become tensors first; weights are float32.", f"torch.from_numpy({name or 'x'}).float()")
        ]
    elif short == "tuple":
        causes = [
            Cause("Recurrent layers and attention give a tuple: the outputs, and their state.", f"{it}[0]"),
            Cause("Or a comma at the end of a line made a tuple of one.", f"{name or 'x'}, = …  # look for a comma"),
        ]
    elif short == "NoneType":
        causes = [
            Cause("A function gave nothing back: its `return` is missing.", "return x  # at the end of forward"),
        ]
    elif short == "list":
        causes = [
            Cause("A list of numbers becomes a tensor first.", f"torch.tensor({name or 'x'})"),
            Cause("A list of tensors is stacked.", f"torch.stack({name or 'x'})"),
        ]
    else:
        causes = [Cause(f"What is {_a(short)} becomes a tensor first.", f"torch.tensor({name or 'x'})")]
    where = f"`{situation.layer_name}`" if situation.layer_name and situation.layer is not value else f"`{wanted}`"
    return Reason(
        f"`{name or 'What was given'}` is {_a(short)}, and {where} wants a tensor.",
        "Layers and functions of PyTorch work on tensors only.",
        tuple(causes),
        named(name, situation.layer_name),
    )


@explains("not-a-tensor", "TypeError", r"([\w.]+) is not a Module subclass")
def not_a_module(match: re.Match, situation: Situation) -> Reason:
    """Explain a class or a function in a Sequential."""
    short = match[1].rpartition(".")[2]
    given = [ast.unparse(one) for one in situation.source.call.args] if situation.source.call is not None else []
    name = next((one for one in given if one.rpartition(".")[2] == short), "")
    is_class = hasattr(nn, short)
    cause = (
        Cause(
            "The class stands there, and not a layer made from it: the brackets are missing.",
            f"{name or f'nn.{short}'}(…)",
        )
        if is_class
        else Cause("A function or a tensor is no layer; a small module can hold it.", "class Lambda(nn.Module): …")
    )
    return Reason(f"`{name or short}` is no module.", "A container of modules holds modules.", (cause,), named(name))
