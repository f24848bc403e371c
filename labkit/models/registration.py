"""Find what a module uses and does not know: it is not trained, not saved and not moved to the device."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.module import register_module_forward_pre_hook

from labkit.errors import ConfigError
from labkit.models.dry_run import left_as_it_was, need_model
from labkit.models.inspect import shape_trace
from labkit.models.reachable import Found, reachable
from labkit.table import Table


@dataclass(frozen=True)
class Hidden:
    """Something that is not registered. where: its path; what: what it is; why: what hides it; fix: code and words."""

    where: str
    what: str
    why: str
    fix: str


@dataclass(frozen=True, repr=False)
class Registration:
    """What is hidden in a model: `table` has a row for each thing, `advice` a sentence with the fix as code."""

    name: str
    hidden: tuple[Hidden, ...]

    @property
    def is_complete(self) -> bool:
        """Whether everything that was found is registered."""
        return not self.hidden

    @property
    def table(self) -> Table:
        """One row for each hidden thing."""
        rows = [{"where": one.where, "what": one.what, "hidden by": one.why} for one in self.hidden]
        return Table(rows, f"{self.name}: {len(rows) or 'nothing'} reachable and not registered")

    @property
    def advice(self) -> list[str]:
        """One sentence for each fix, with the first thing that it brings to light."""
        by_fix: dict[str, list[Hidden]] = {}
        for one in self.hidden:
            by_fix.setdefault(one.fix, []).append(one)
        return [_sentence(*alike) + f" {fix}" for fix, alike in by_fix.items()]

    def __repr__(self) -> str:
        return "\n\n".join([str(self.table), *self.advice])

    def _repr_markdown_(self) -> str:
        return "\n\n".join([self.table._repr_html_(), *(f"- {sentence}" for sentence in self.advice)])


def _sentence(first: Hidden, *others: Hidden) -> str:
    count = f" (and {len(others)} more)" if others else ""
    return f"`{first.where}`{count}: a {first.what}, {first.why}."


def registration(
    model: nn.Module, example: Tensor | None = None, optimizer: torch.optim.Optimizer | None = None
) -> Registration:
    """Find the tensors and modules that are reachable from a model but not registered in it.

    example: a batch that the model takes; with it forward runs twice, which finds layers and parameters that are made
    or used there and belong to nobody. optimizer: is asked whether it has the parameters that the model has now.
    The model is left as it was. Raises ConfigError when the example does not fit the model.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile has wrapped
    need_model(model)
    known = {id(module) for module in model.modules()}
    known |= {id(one) for one in (*model.parameters(), *model.buffers())}
    hidden = []
    for found in reachable(model):
        if id(found.thing) not in known and _matters(found, model):
            hidden.append(Hidden(found.path, _what(found.thing), _why(found), _fix(found)))
            known |= _parts(found.thing)
    if example is not None:
        shape_trace(model, example)
        hidden += _made_in_forward(model, example, known)
    if optimizer is not None:
        hidden += _not_in(optimizer, model)
    return Registration(type(model).__name__, tuple(hidden))


def _parts(thing: Tensor | nn.Module) -> set[int]:
    if isinstance(thing, Tensor):
        return {id(thing)}
    return {id(one) for one in (*thing.modules(), *thing.parameters(), *thing.buffers())}


def _matters(found: Found, model: nn.Module) -> bool:
    """Leave out modules without state, and tensors that torch and torchvision look after themselves.

    Those are weights that pruning and weight_norm compute anew, and constants such as the anchors of a detector, which
    its forward moves to the device.
    """
    if isinstance(found.thing, nn.Module):
        return has_state(found.thing)
    owner = model.get_submodule(found.owner)
    if type(owner).__module__.startswith(("torch.", "torchvision.")) and not found.thing.requires_grad:
        return False
    registered = dict(owner.named_parameters(recurse=False))
    return not any(f"{found.attribute}{ending}" in registered for ending in ("_orig", "_v", "_g"))


def has_state(module: nn.Module) -> bool:
    """Say whether it matters that a module is registered: it has weights or buffers, or acts by its mode."""
    tensors = any(True for _ in (*module.parameters(), *module.buffers()))
    return tensors or any(isinstance(one, _DropoutNd) for one in module.modules())


def _what(thing: Tensor | nn.Module) -> str:
    if isinstance(thing, Tensor):
        return f"tensor {'×'.join(map(str, thing.shape)) or 'scalar'}"
    values = sum(parameter.numel() for parameter in thing.parameters())
    return f"{type(thing).__name__} with {values:,} parameters"


def _why(found: Found) -> str:
    if found.holder != "attribute":
        return {
            "list": "in a plain list or tuple",
            "dict": "in a plain dict",
            "nested list": "in a list inside a list or dict",
            "function": "held by a function",
            "object": "held by an object that is no module",
            "class": "an attribute of the class, shared by all its models",
        }[found.holder]
    if isinstance(found.thing, nn.Module):
        return "set behind the back of nn.Module"
    return "the result of a forward pass, with its graph" if found.thing.grad_fn else "a plain tensor"


def _fix(found: Found) -> str:
    """Return the fix as a sentence with code."""
    name = f"self.{found.attribute}"
    tensor = isinstance(found.thing, Tensor)
    trained = tensor and found.thing.requires_grad
    match found.holder:
        case "attribute" if tensor and found.thing.grad_fn:
            return f"If it is only looked at later, keep `{name} = ….detach()`."
        case "attribute" if trained:
            return f"Make it a parameter: `{name} = nn.Parameter({name}.detach())`."
        case "attribute" if tensor:
            return f'Make it a buffer: `self.register_buffer("{found.attribute}", …)` in `__init__`.'
        case "attribute":
            return f"Assign it as `{name} = …` after `super().__init__()`, not through `__dict__`."
        case "list" | "dict" if trained:
            kind = "List" if found.holder == "list" else "Dict"
            return f"Write `{name} = nn.Parameter{kind}({name})`."
        case "list":
            return _buffers(found) if tensor else f"Write `{name} = nn.ModuleList({name})`."
        case "dict":
            return _buffers(found) if tensor else f"Write `{name} = nn.ModuleDict({name})`; the keys must be strings."
        case "nested list" if not tensor:
            return f"Both levels must be modules: `{name} = nn.ModuleList(nn.ModuleList(row) for row in {name})`."
        case "class":
            return f"Move `{found.attribute} = …` into `__init__` as `{name} = …`."
    kind = "nn.Parameter" if trained else "buffer" if tensor else "module"
    return f"Give the module an attribute of its own for this {kind}, and let `forward` use that."


def _buffers(found: Found) -> str:
    return f'Register each tensor: `self.register_buffer(f"{found.attribute}_{{number}}", tensor)`.'


def _made_in_forward(model: nn.Module, example: Tensor, known: set[int]) -> list[Hidden]:
    """Run forward twice and return the layers with state, and the trained tensors, that nobody had registered."""
    with left_as_it_was(model), torch.enable_grad():
        model.eval()
        first, second = _used(model, example), _used(model, example)
    again = {id(thing) for thing in second}
    hidden = []
    for thing in first:
        if id(thing) in known or (isinstance(thing, nn.Module) and not has_state(thing)):
            continue
        known |= _parts(thing)
        hidden.append(_stranger(thing, is_new=id(thing) not in again))
    return hidden


def _used(model: nn.Module, example: Tensor) -> list[nn.Module | Tensor]:
    """Run forward once; return the modules that were called, then the tensors to which gradients would flow.

    The list holds them, so that what the next run makes never has the id of one of these.
    """
    called: list[nn.Module] = []
    handle = register_module_forward_pre_hook(lambda module, inputs: called.append(module))
    try:
        output = model(example)
    finally:
        handle.remove()
    return [*called, *_leaves(output)]


def _stranger(thing: Tensor | nn.Module, is_new: bool) -> Hidden:
    what = "module" if isinstance(thing, nn.Module) else "nn.Parameter"
    why = "made anew in every forward pass" if is_new else "used in forward, and no attribute leads to it"
    fix = f"Make this {what} once, in `__init__`, as an attribute of `self`; `forward` only uses it."
    return Hidden("forward", _what(thing), why, fix)


def _leaves(output: object) -> Iterator[Tensor]:
    """Yield the tensors to which gradients of an output would flow, each once."""
    if isinstance(output, Tensor):
        waiting, seen = [output.grad_fn], set()
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if hasattr(node, "variable"):
                yield node.variable
            waiting += [parent for parent, _ in node.next_functions]
    elif isinstance(output, dict):
        yield from _leaves(list(output.values()))
    elif isinstance(output, list | tuple):
        for one in output:
            yield from _leaves(one)


def _not_in(optimizer: torch.optim.Optimizer, model: nn.Module) -> list[Hidden]:
    """Return the trained parameters that an optimizer does not have, as after a layer was exchanged."""
    if not hasattr(optimizer, "param_groups"):
        raise ConfigError(f"optimizer must be an optimizer of torch, got {type(optimizer).__name__}.")
    has = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return [
        Hidden(
            f"model.{name}",
            _what(parameter),
            "not in the optimizer",
            "Make the optimizer after the last layer is in place: `optimizer = …(model.parameters(), …)`.",
        )
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and id(parameter) not in has
    ]
