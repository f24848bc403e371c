"""Where gradients do not arrive: parameters that nobody knows, graphs that are cut, values changed behind autograd."""

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.modules.module import register_module_forward_pre_hook

from labkit import randomness
from labkit.doctor.copying import copied
from labkit.doctor.probe.model_runs import same, value_of_update, without_data
from labkit.doctor.probe.model_trace import CUTS, traced
from labkit.doctor.probe.updates import looks_as_made, optimizers_of
from labkit.doctor.program import Program
from labkit.doctor.recording import Recording, mapped
from labkit.models.reachable import reachable
from labkit.models.registration import has_state, registration


@dataclass
class GraphEvidence:
    """What was seen of the way from the loss to the parameters.

    hidden: what takes part in the loss, gets a gradient, is in no optimizer and is not registered: path -> what it is
    and its fix. cut: trainable parameters in an optimizer that never get a gradient although the loss depends on them.
    cut_layers: layers with such parameters whose output has no graph. cuts: operations that ended a graph, with their
    layer. thawed_no_more: parameters that had a gradient in the last update and are frozen after the evaluation.
    unexplained: share of the loss's change with its outputs that its gradient does not explain. hard: operations
    without a gradient in loss_fn. behind: values changed in place, unseen by autograd. slope, measured_slope: of the
    loss along its gradient, by autograd and by two values of the loss.
    """

    hidden: dict[str, tuple[str, str]] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    optimised: int = 0
    cut_layers: list[str] = field(default_factory=list)
    cuts: list[tuple[str, str]] = field(default_factory=list)
    thawed_no_more: list[str] = field(default_factory=list)
    unexplained: float = 0.0
    hard: list[str] = field(default_factory=list)
    behind: list[tuple[str, str]] = field(default_factory=list)
    slope: float | None = None
    measured_slope: float | None = None


def look_at_graph(program: Program, recording: Recording) -> GraphEvidence:
    """Run one update of a copy, with its layers and operations watched, and small changes of it."""
    seen = GraphEvidence()
    if not recording.updates:
        return seen
    held = {id(p) for one in optimizers_of(program, recording) for g in one.param_groups for p in g["params"]}
    names = {name for name, p in recording.program.model.named_parameters() if id(p) in held}
    seen.optimised = len(names)
    _watch_an_update(program, recording, seen)
    _find_cut_parameters(program, recording, names, seen)
    _compare_flags(program, recording, names, seen)
    _follow_the_loss(program, recording, seen)
    if seen.behind:
        _compare_slopes(program, recording, seen)
    return seen


def _watch_an_update(program: Program, recording: Recording, seen: GraphEvidence) -> None:
    trial = without_data(program)
    model = trial.model
    called: dict[int, nn.Module] = {}
    blind: dict[str, None] = {}
    names = {module: name for name, module in model.named_modules()}

    def after(module: nn.Module, _: Any, output: Any) -> None:
        needs = any(parameter.requires_grad for parameter in module.parameters(recurse=False))
        if needs and model.training and isinstance(output, Tensor) and not output.requires_grad:
            blind[names[module]] = None

    hooks = [module.register_forward_hook(after) for module in model.modules()]
    hooks.append(register_module_forward_pre_hook(lambda module, _: called.setdefault(id(module), module) and None))
    with randomness.frozen_randomness(0), warnings.catch_warnings(), traced(model, CUTS) as trace:
        warnings.simplefilter("ignore")
        model.train()
        try:
            trial.step(recording.updates[0].batch)
        except Exception:  # what was seen until then counts
            pass
        finally:
            for hook in hooks:
                hook.remove()
    seen.cut_layers = list(blind)
    seen.cuts = list(dict.fromkeys((o.name, o.layer) for o in trace.operations if o.needs and not o.gives))
    seen.behind = list(dict.fromkeys(trace.behind))
    _find_hidden(trial, called, seen)


def _find_hidden(trial: Program, called: dict[int, nn.Module], seen: GraphEvidence) -> None:
    """Find what got a gradient in the update and neither the model nor an optimizer knows."""
    known = {id(parameter) for parameter in trial.model.parameters()}
    known |= {id(p) for one in optimizers_of(trial, Recording(trial)) for g in one.param_groups for p in g["params"]}
    for module in (trial.loss_fn, *trial.context.values()):
        known |= {id(p) for p in module.parameters()} if isinstance(module, nn.Module) else set()
    advice = {hidden.where: hidden for hidden in registration(trial.model).hidden}
    for found in reachable(trial.model):
        if _is_trained(found.thing, known):
            hidden = advice.get(found.path)
            what = hidden.what if hidden else type(found.thing).__name__
            seen.hidden[found.path] = (what, hidden.fix if hidden else "")
            known |= {id(p) for p in _tensors(found.thing)}
    registered = {id(module) for module in trial.model.modules()}
    for module in called.values():
        if id(module) not in registered and has_state(module) and _is_trained(module, known):
            made = "Make this layer once, in `__init__`, as an attribute of `self`; `forward` only uses it."
            seen.hidden[f"{type(module).__name__} in forward"] = (repr(module), made)
            known |= {id(p) for p in _tensors(module)}


def _tensors(thing: Tensor | nn.Module) -> list[Tensor]:
    return list(thing.parameters()) if isinstance(thing, nn.Module) else [thing]


def _is_trained(thing: Tensor | nn.Module, known: set[int]) -> bool:
    """Say whether something has got a gradient, is unknown, and was not trained elsewhere (as a fixed part is)."""
    tensors = [
        t for t in _tensors(thing) if t.is_leaf and t.requires_grad and t.grad is not None and id(t) not in known
    ]
    if not tensors or not isinstance(thing, nn.Module):
        return bool(tensors)
    layers = (nn.Linear, nn.modules.conv._ConvNd, nn.RNNBase)
    matrices = [
        f"{name}.weight".lstrip(".")
        for name, module in thing.named_modules()
        if isinstance(module, layers) and getattr(module, "weight", None) is not None
    ]
    return not matrices or any(looks_as_made(thing, name, thing.get_parameter(name)) for name in matrices)


def _find_cut_parameters(program: Program, recording: Recording, names: set[str], seen: GraphEvidence) -> None:
    """Find parameters that never get a gradient, and change them: if the loss follows, its graph is cut."""
    without = [
        name
        for name, parameter in program.model.named_parameters()
        if parameter.requires_grad
        and name in names
        and all(u.gradients.get(name) is None and u.made.get(name) is None for u in recording.updates)
    ]
    if not without:
        return
    batch = recording.updates[0].batch
    before = value_of_update(program, batch)
    if not before or not same(before, value_of_update(program, batch)):
        return

    def changed(owner: str) -> bool:
        group = [name for name in without if name.rpartition(".")[0] == owner]
        return not same(before, value_of_update(program, batch, lambda trial: _shake(trial.model, group)))

    owners = list(dict.fromkeys(name.rpartition(".")[0] for name in without))
    if len(owners) > 6:
        owners = [owners[0], owners[len(owners) // 2], owners[-1]]
    depends = {owner for owner in owners if changed(owner)}
    seen.cut = [name for name in without if name.rpartition(".")[0] in depends]


def _shake(model: nn.Module, names: list[str]) -> None:
    with torch.no_grad():
        for name in names:
            parameter = model.get_parameter(name)
            parameter.add_(torch.randn_like(parameter) * (parameter.abs().mean() + 0.1))


def _compare_flags(program: Program, recording: Recording, names: set[str], seen: GraphEvidence) -> None:
    if not recording.scores and recording.evaluation_error is None:
        return
    last = recording.updates[-1]
    seen.thawed_no_more = [
        name
        for name, parameter in recording.program.model.named_parameters()
        if name in names and not parameter.requires_grad and last.gradients.get(name)
    ]


def _follow_the_loss(program: Program, recording: Recording, seen: GraphEvidence) -> None:
    """Compare the change of loss_fn along a path of outputs with the sum of its gradients along it."""
    calls = recording.updates[0].losses
    if len(calls) != 1 or not isinstance(calls[0].outputs, Tensor) or not calls[0].outputs.is_floating_point():
        return
    loss_fn = copied({"loss_fn": program.loss_fn})["loss_fn"]
    outputs, targets = calls[0].outputs.detach().double(), mapped(calls[0].targets, _double)
    if not outputs.numel() or not outputs.isfinite().all():
        return
    way = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    way = way * (outputs.std(correction=0) + 0.1)
    values, slopes = [], []
    with randomness.frozen_randomness(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with traced(nn.Identity(), CUTS) as trace:
                loss_fn(outputs.clone().requires_grad_(), targets)
            seen.hard = sorted({o.name for o in trace.operations if o.needs and not o.gives})
            if not {"gt", "lt", "ge", "le", "round", "sign", "argmax"} & set(seen.hard) or {"detach", "data"} & set(
                seen.hard
            ):
                return
            for place in torch.linspace(-2, 2, 41, dtype=torch.float64):
                point = (outputs + place * way).requires_grad_()
                value = loss_fn(point, targets)
                (gradient,) = torch.autograd.grad(value, point)
                values.append(value.item())
                slopes.append((gradient * way).sum().item())
        except Exception:  # a loss that wants other types, or has no graph at all
            return
    steps = [(a + b) / 2 * 0.1 for a, b in zip(slopes, slopes[1:], strict=False)]
    changes = [b - a for a, b in zip(values, values[1:], strict=False)]
    missed = sum(abs(change - step) for change, step in zip(changes, steps, strict=True))
    seen.unexplained = missed / max(sum(map(abs, changes)), 1e-12)


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _compare_slopes(program: Program, recording: Recording, seen: GraphEvidence) -> None:
    """Compare the slope of the loss along its gradient with two values of the loss, in double precision."""
    update = recording.updates[0]
    if len(update.losses) != 1 or not update.forwards:
        return
    parts = copied({"model": program.model, "loss_fn": program.loss_fn})
    model = parts["model"].double().eval()
    inputs = mapped(update.forwards[0].inputs, _double)
    targets = mapped(update.losses[0].targets, _double)

    def loss() -> Tensor:
        with randomness.frozen_randomness(0):
            return parts["loss_fn"](model(*mapped(inputs, Tensor.clone)), targets)

    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        gradients = torch.autograd.grad(loss(), parameters, allow_unused=True)
        gradients = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, gradients, strict=True)]
        length = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
        values = []
        with torch.no_grad():
            for step in (1e-5, -2e-5):
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter += step / max(length, 1e-30) * gradient
                values.append(loss().item())
    except Exception:  # what cannot be computed in double precision is not compared
        return
    seen.slope, seen.measured_slope = length, (values[0] - values[1]) / 2e-5
