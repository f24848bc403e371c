"""Where gradients do not arrive: parameters that nobody knows, graphs that are cut, values changed behind autograd."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.modules.module import register_module_forward_pre_hook

from labkit import randomness
from labkit.doctor.probe.model_runs import same, value_of_update, without_data
from labkit.doctor.probe.model_slopes import hard_operations, slopes_along_the_gradient
from labkit.doctor.probe.model_trace import CUTS, STEPS, traced
from labkit.doctor.probe.updates import looks_as_made, optimizers_of
from labkit.doctor.program import Program
from labkit.doctor.records import Recording
from labkit.models.reachable import reachable
from labkit.models.registration import has_state, registration


@dataclass
class GraphEvidence:
    """What was seen of the way from the loss to the parameters.

    hidden: what takes part in the loss, gets a gradient, is in no optimizer and is not registered: path -> what it is
    and its fix. cut: trainable parameters in an optimizer that never get a gradient although the loss depends on them.
    cut_layers: layers with such parameters whose output has no graph. cuts: operations that ended a graph, with their
    layer; steps: those of them whose slope is zero everywhere. thawed_no_more:
    parameters that had a gradient in the last update and are frozen after the evaluation.
    unexplained: share of the loss's change with its outputs that its gradient does not explain. hard: operations
    without a gradient in loss_fn. behind: values changed in place, unseen by autograd. slope, measured_slope: of the
    loss along its gradient, by autograd and by two values of the loss.
    """

    hidden: dict[str, tuple[str, str]] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)
    optimised: int = 0
    cut_layers: list[str] = field(default_factory=list)
    cuts: list[tuple[str, str]] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
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
    seen.unexplained, seen.hard = hard_operations(program, recording)
    if seen.behind:
        seen.slope, seen.measured_slope = slopes_along_the_gradient(program, recording) or (None, None)
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
    with randomness.frozen_randomness(0), warnings.catch_warnings(), traced(model, CUTS | STEPS) as trace:
        warnings.simplefilter("ignore")

        def before(module: nn.Module, _: Any) -> None:
            if trace.layers:  # the model is running
                called[id(module)] = module

        hooks.append(register_module_forward_pre_hook(before))
        model.train()
        try:
            trial.step(recording.updates[0].batch)
        except Exception as error:  # what was seen until then counts
            del error
        finally:
            for hook in hooks:
                hook.remove()
    seen.steps = [(o.name, o.layer) for o in trace.operations if o.needs and o.name in STEPS]
    seen.cut_layers = list(blind)
    seen.cuts = [(o.name, o.layer) for o in trace.operations if o.needs and not o.gives]
    seen.cuts = list(dict.fromkeys(cut for cut in seen.cuts + seen.steps if cut != ("detach", "")))
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
        and all(
            _is_nothing(u.gradients.get(name), seen) and _is_nothing(u.made.get(name), seen) for u in recording.updates
        )
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


def _is_nothing(norm: float | None, seen: GraphEvidence) -> bool:
    """Say whether there is no gradient: None, or zero where a function that is flat everywhere was seen."""
    return norm is None or (norm == 0 and bool(seen.steps))


def _shake(model: nn.Module, names: list[str]) -> None:
    """Add noise to parameters, with an odd seed: a usual one might repeat the numbers of the weights."""
    draw = torch.Generator().manual_seed(920_419_823)
    with torch.no_grad():
        for name in names:
            parameter = model.get_parameter(name)
            noise = torch.randn(parameter.shape, generator=draw).to(parameter)
            parameter.add_(noise * (parameter.abs().mean() + 0.1))


def _compare_flags(program: Program, recording: Recording, names: set[str], seen: GraphEvidence) -> None:
    """Find parameters that had a gradient in the last update and are frozen after the evaluation."""
    if not recording.scores and recording.evaluation_error is None:
        return
    last = recording.updates[-1]
    seen.thawed_no_more = [
        name
        for name, parameter in recording.program.model.named_parameters()
        if name in names and not parameter.requires_grad and last.gradients.get(name)
    ]
