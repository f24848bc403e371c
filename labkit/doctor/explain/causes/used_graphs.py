"""Graphs that a backward has used up."""

import ast
import re
from collections.abc import Iterator

from torch import Tensor

from labkit.doctor.explain.causes.graphs import loss_of
from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import named
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.history import calls_in, function_at, loops_at, names_in, steps
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


@explains("backward-twice", "RuntimeError", r"Trying to backward through the graph a second time")
def twice(match: re.Match, situation: Situation) -> Reason:
    """Explain a graph that is used up: a state carried over, a loss made before the loop, two losses."""
    loss = loss_of(situation)
    found = [*_carried(situation, loss), *_before_the_loop(situation, loss), *_kept_in_module(situation)]
    found = found or _several_backwards(situation, loss)
    return Reason(
        f"A part of the graph of `{loss.name}` was already gone through by a backward, which freed it.",
        "A graph is good for one backward; every forward makes a new one.",
        tuple(cause for _, cause in found),
        named(loss.name, *(name for name, _ in found)),
    )


def _carried(situation: Situation, loss: Operand) -> Iterator[tuple[str, Cause]]:
    """Yield the variables that take the graph of one round of the loop into the next."""
    loops = set(loops_at(situation.place))
    for step in steps(situation.place):
        if not loops & set(step.loops):
            continue
        if step.name == loss.name and isinstance(step.node, ast.AugAssign):
            why = f"`{step.name}` keeps the graphs of all batches before: `{step.text}`."
            yield step.name, Cause(why, f"loss.backward()\n{step.name} += loss.item()")
        elif isinstance(step.node, ast.Assign) and step.name in names_in(step.value) and step.name != loss.name:
            why = f"`{step.name}` carries the graph of the batch before into this one: `{step.text}`."
            yield step.name, Cause(why, _detached(step.name, situation))


def _before_the_loop(situation: Situation, loss: Operand) -> list[tuple[str, Cause]]:
    """Return what was computed once, before the loop in which backward is called."""
    loops = set(loops_at(situation.place))
    names = names_in(ast.parse(loss.name, mode="eval"))
    for step in [step for name in names for step in situation.made(name)] if loops else []:
        variables = situation.place.global_variables | dict(situation.place.variables)
        if not loops & set(step.loops) and calls_in(step.value) and getattr(variables.get(step.name), "grad_fn", None):
            why = f"`{step.name}` is made once, before the loop, and every round needs a graph of its own."
            return [(step.name, Cause(why, f"{step.text}  # inside the loop"))]
    return []


def _kept_in_module(situation: Situation) -> Iterator[tuple[str, Cause]]:
    """Yield the tensors with a graph that a module keeps from one forward to the next."""
    for name, model in situation.models:
        for attribute, value in vars(model).items():
            if isinstance(value, Tensor) and value.grad_fn is not None:
                why = f"`{name}.{attribute}` carries the graph of one forward into the next."
                yield f"{name}.{attribute}", Cause(why, f"self.{attribute} = self.{attribute}.detach()")


def _several_backwards(situation: Situation, loss: Operand) -> list[tuple[str, Cause]]:
    """Return what to do about backward being called more than once in a function."""
    function = function_at(situation.place)
    called = [
        ast.unparse(node.func.value)
        for node in (ast.walk(function) if function is not None else ())
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
    ]
    others = [name for name in dict.fromkeys(called) if name != loss.name]
    if others and called.count(loss.name) < 2:
        why = f"`{others[0]}` and `{loss.name}` share a part of the graph, and backward was called for each."
        return [(others[0], Cause(why, f"({others[0]} + {loss.name}).backward()"))]
    why = (
        f"backward was called for `{loss.name}` before. Once is enough; if twice is meant, the first "
        f"must keep the graph."
    )
    return [(loss.name, Cause(why, f"{loss.name}.backward(retain_graph=True)  # the first time"))]


def _detached(name: str, situation: Situation) -> str:
    value = situation.place.variables.get(name, situation.place.global_variables.get(name))
    if isinstance(value, tuple):
        return f"{name} = tuple(one.detach() for one in {name})"
    return f"{name} = {name}.detach()"
