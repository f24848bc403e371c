"""What backward says: no graph, a graph that is used up, no single value, NaN."""

import ast
import re

import torch
from torch import Tensor

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.history import calls_in, names_in, steps
from labkit.doctor.explain.operands import Operand
from labkit.doctor.explain.situation import Situation

#: Calls and attributes after which nothing flows back, and what to do in their place.
_CUTS = {
    "detach": "it takes the value out of the graph: leave it out",
    "data": "it takes the value out of the graph: leave it out",
    "item": "it makes a Python number: leave it out, and use it only for printing",
    "tolist": "it makes Python numbers: leave it out",
    "numpy": "NumPy does not record: use the functions of torch",
    "argmax": "it gives indices, which have no gradient: give the loss the outputs themselves",
    "round": "it has no useful gradient: give the loss the values before",
    "sign": "it has no useful gradient: give the loss the values before",
    "tensor": "it makes a new tensor without a past: use torch.stack or the tensor itself",
    "from_numpy": "it makes a new tensor without a past: use the functions of torch",
    "Tensor": "it makes a new tensor without a past: use the tensor itself",
    "as_tensor": "it makes a new tensor without a past: use the tensor itself",
}


def loss_of(situation: Situation) -> Operand:
    """Return what backward was called on."""
    call = situation.source.call
    if call is not None and isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
        written = ast.unparse(call.func.value)
        if written not in ("torch.autograd", "autograd"):
            return Operand(written, situation.value_of(call.func.value))
    if call is not None and call.args:
        return Operand(ast.unparse(call.args[0]), situation.value_of(call.args[0]))
    tensors = [one for one in situation.operands if isinstance(one.value, Tensor)]
    return tensors[0] if tensors else Operand("loss", None)


@explains("no-graph", "RuntimeError", r"element \d+ of tensors does not require grad and does not have a grad_fn")
def no_graph(match: re.Match, situation: Situation) -> Reason:
    """Explain a loss without a past: the cut is looked for in the statements that made it."""
    loss = loss_of(situation)
    causes = _inputs(situation) or _cut(situation, loss)
    frozen = [name for name, model in situation.models if _is_frozen(model)]
    if frozen:
        fix = (
            f"for parameter in {frozen[0]}.parameters():\n    parameter.requires_grad_(True)  # of the layers to train"
        )
        causes.append(Cause(f"All parameters of `{frozen[0]}` are frozen.", fix))
    if not torch.is_grad_enabled():
        causes.insert(0, Cause("Recording is switched off for the whole program.", "torch.set_grad_enabled(True)"))
    if not causes:
        causes = _nothing_trained(situation, loss)
    if not causes:
        causes = [
            Cause("The outputs were computed under `torch.no_grad()`.", f"{loss.name}  # made outside of no_grad()"),
            Cause("A step on the way leaves the graph: detach, item, argmax, numpy, torch.tensor.", "outputs.grad_fn"),
            Cause("All parameters are frozen.", "[name for name, p in model.named_parameters() if p.requires_grad]"),
        ]
    return Reason(
        f"`{loss.name}` has no grad_fn: no operation on the way to it was recorded from something that is trained.",
        "backward follows the recorded operations from the loss to the parameters.",
        tuple(causes),
        named(loss.name, *(_names_of(causes))),
    )


def _nothing_trained(situation: Situation, loss: Operand) -> list[Cause]:
    """Return what to do where the loss was made from data alone, without a model."""
    names = [
        name
        for written in names_in(ast.parse(loss.name, mode="eval"))
        for name in [written, *_used(situation, written)]
    ]
    values = {name: situation.place.variables.get(name) for name in names}
    tensors = [name for name, value in values.items() if isinstance(value, Tensor)]
    leaves = [name for name in tensors if name != loss.name and values[name].is_floating_point()]
    if not leaves or any(values[name].requires_grad for name in tensors):
        return []
    if any(isinstance(value, torch.nn.Module) for value in values.values()):
        return []
    why = f"None of {', '.join(f'`{name}`' for name in leaves)} requires a gradient: nothing is trained here."
    return [Cause(why, f"{leaves[0]}.requires_grad_()  # before the forward, of what is to be trained")]


def _used(situation: Situation, name: str) -> list[str]:
    """Return the variables from which a variable was made."""
    return [used for step in situation.made(name) for used in names_in(step.value)]


def _inputs(situation: Situation) -> list[Cause]:
    """Return what to do where the gradient of something was asked for that does not require one."""
    call = situation.source.call
    if call is None or not ast.unparse(call.func).endswith("autograd.grad") or len(call.args) < 2:
        return []
    for node in call.args[1].elts if isinstance(call.args[1], ast.List | ast.Tuple) else call.args[1:2]:
        value = situation.value_of(node)
        if isinstance(value, Tensor) and not value.requires_grad:
            name = ast.unparse(node)
            return [
                Cause(
                    f"`{name}` does not require a gradient, so nothing was recorded.",
                    f"{name}.requires_grad_()  # before the forward",
                )
            ]
    return []


def _names_of(causes: list[Cause]) -> list[str]:
    return [name for cause in causes for name in re.findall(r"`(\w+)`", cause.why)]


def _is_frozen(model: torch.nn.Module) -> bool:
    parameters = list(model.parameters())
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def _cut(situation: Situation, loss: Operand) -> list[Cause]:
    """Return the statements on the way to the loss after which nothing flows back."""
    if situation.place is None:
        return []
    parts = [situation.source.expression] if situation.source.expression is not None else []
    causes = [_cause(ast.unparse(part), cut) for part in parts for cut in _cuts_in(part)]
    for name in dict.fromkeys([loss.name, *names_in(ast.parse(loss.name, mode="eval"))]):
        for step in situation.made(name):
            if not step.is_recorded:
                why = f"`{step.name}` was made under `torch.no_grad()`: `{step.text}`."
                return [*causes, Cause(why, f"{step.text}  # outside of the with block")]
            causes += [_cause(step.text, cut) for cut in _cuts_in(step.value)]
    return causes[:3]


def _cuts_in(node: ast.AST) -> list[str]:
    attributes = [part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)]
    return [name for name in dict.fromkeys([*calls_in(node), *attributes]) if name in _CUTS]


def _cause(statement: str, cut: str) -> Cause:
    what, _, instead = _CUTS[cut].partition(": ")
    return Cause(f"`{cut}` in `{statement}`: {what}.", f"{_without(statement, cut)}  # {instead}")


def _without(statement: str, cut: str) -> str:
    """Return a statement without a method that is called without arguments; others stay."""
    return re.sub(rf"\.{cut}(\(\))?(?![\w(])", "", statement) if cut in ("detach", "data", "item") else statement


@explains("backward-not-scalar", "RuntimeError", r"grad can be implicitly created only for scalar outputs")
def not_scalar(match: re.Match, situation: Situation) -> Reason:
    """Explain a loss of several values."""
    loss = loss_of(situation)
    sizes = f"is {shape(loss.value)}" if isinstance(loss.value, Tensor) else "has several values"
    causes = [Cause("It was not reduced to one number.", f"{simple(loss.name)}.mean().backward()")]
    call = situation.source.call
    if call is not None and ast.unparse(call.func).endswith("grad"):
        given = ", ".join([f"{simple(loss.name)}.sum()", *map(ast.unparse, call.args[1:])])
        why = "For the slope at every point the values are summed: each depends on its own point only."
        causes[0] = Cause(why, f"{ast.unparse(call.func)}({given})")
    losses = [
        (name, value)
        for name, value in [*situation.place.variables.items(), *situation.place.global_variables.items()]
        if getattr(value, "reduction", None) == "none"
    ]
    if losses:
        causes[0] = causes[0]._replace(why=f'`{losses[0][0]}` has reduction="none", and gives a loss for each sample.')
    return Reason(
        f"`{loss.name}` {sizes}.",
        "backward starts from one number; of several, PyTorch cannot know how much each of them counts.",
        tuple(causes),
        named(loss.name),
    )


@explains("nan-in-backward", "RuntimeError", r"Function '(\w+?)Backward\d*' returned nan values in its (\d+)th output")
def nan(match: re.Match, situation: Situation) -> Reason:
    """Explain what anomaly mode found."""
    loss, operation = loss_of(situation), match[1]
    fixes = {
        "Sqrt": ("The slope of a square root is infinite at 0.", "torch.sqrt(x + 1e-8)"),
        "Log": ("The logarithm of 0 is infinite, and so is its slope.", "torch.log(x + 1e-8)"),
        "Div": ("Something was divided by 0.", "a / (b + 1e-8)"),
        "Pow": ("The slope of a power below 1 is infinite at 0.", "(x + 1e-8) ** 0.5"),
        "Norm": ("The slope of a norm is not defined at 0.", "torch.sqrt((x ** 2).sum() + 1e-8)"),
        "LinalgVectorNorm": ("The slope of a norm is not defined at 0.", "torch.sqrt((x ** 2).sum() + 1e-8)"),
        "Exp": ("The exponential of a large number is infinite.", "torch.exp(x.clamp(max=50))"),
        "Acos": ("The slope is infinite at -1 and 1.", "torch.acos(x.clamp(-1 + 1e-6, 1 - 1e-6))"),
        "Mul": ("Something infinite was multiplied by 0, such as the logarithm of 0.", "x * torch.log(x + 1e-8)"),
        "Where": (
            "`where` takes the gradient of both sides, also of the one that is not chosen.",
            "x = torch.where(x > 0, x, 1.0)  # before the operation",
        ),
    }
    why, fix = fixes.get(
        operation, ("A value was 0 or infinite there.", "torch.isfinite(x).all()  # before that operation")
    )
    written = _line_with(operation.lower(), situation)
    causes = [Cause(why, f"{fix}  # a small number inside, not after")]
    what = f"The gradient of `{operation.lower()}` is NaN on the way back from `{loss.name}`"
    return Reason(
        what + (f"; it is used in `{written[1]}`." if written else "."),
        "A gradient is a product of slopes; one that is infinite, times 0, is NaN.",
        tuple(causes),
        named(*(written[:1] if written else ()), loss.name),
    )


def _line_with(operation: str, situation: Situation) -> tuple[str, str] | None:
    """Return the variable and the statement of the user's function in which an operation is called or written."""
    signs = {"div": ast.Div, "pow": ast.Pow, "mul": ast.Mult}
    for step in steps(situation.place) if situation.place else []:
        written = [part.op for part in ast.walk(step.value) if isinstance(part, ast.BinOp)]
        if operation in calls_in(step.value) or any(isinstance(one, signs.get(operation, ())) for one in written):
            used = [name for name in names_in(step.value) if name not in ("torch", "F", "math")]
            return (used[0] if used else step.name), step.text
    return None
