"""What an evaluation or a step keeps of the weights, and what it does to them."""

import contextlib
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.modules.module import _IncompatibleKeys

from labkit.doctor.copying import reachable
from labkit.doctor.events import Recorder
from labkit.doctor.program import Program
from labkit.doctor.trial import train

UPDATES = 6


@dataclass
class StatesEvidence:
    """What is kept and what is changed.

    living: (kind, names) of what an evaluation or a step keeps and what goes on changing with the model: "state" (a
    dict of its tensors) or "model" (the model itself under another name). changed_weights, changed_buffers: what an
    evaluation changes. restored: whether the weights are then what they were at an earlier evaluation, although the
    score was better now. missing, unexpected: names of a load with strict=False of which not one fits.
    """

    living: tuple[str, list[str]] | None = None
    changed_weights: list[str] = field(default_factory=list)
    changed_buffers: list[str] = field(default_factory=list)
    restored: bool = False
    better: bool | None = None
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)


def look_at_states(program: Program, loader: Any) -> StatesEvidence:
    """Evaluate a copy, train it a little and evaluate it again; compare what is kept and what has changed."""
    seen = StatesEvidence()
    with contextlib.suppress(Exception):  # whatever the user's pieces raise
        _loads(program, seen)
        copy = program.copy()
        before = _holders(copy)
        first, start = _evaluated(copy, loader, seen)
        train(copy, UPDATES)
        second, _ = _evaluated(copy, loader, seen)
        if first is not None and second is not None:
            seen.better = second > first
        if seen.changed_weights:
            now = copy.model.state_dict()
            seen.restored = all(torch.equal(now[name], start[name]) for name in seen.changed_weights)
        seen.living = _living(copy, before)
    return seen


def _evaluated(program: Program, loader: Any, seen: StatesEvidence) -> tuple[float | None, dict[str, Tensor]]:
    """Evaluate once; note what that changes. Return the score and the state before."""
    model = program.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    recorder = Recorder()
    with recorder.listening():
        score = program.score(loader)
    weights = {name for name, _ in model.named_parameters()}
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    seen.changed_weights = [name for name in changed if name in weights]
    seen.changed_buffers = sorted({*seen.changed_buffers, *(name for name in changed if name not in weights)})
    for event in recorder.events:
        state, strict = event.arguments.get("state_dict"), event.arguments.get("strict")
        if event.kind == "load" and strict is False and isinstance(event.subject, nn.Module):
            _compare_names(list(event.subject.state_dict()), list(state or ()), seen)
    with contextlib.suppress(TypeError, ValueError):
        return float(score), before
    return None, before


def _loads(program: Program, seen: StatesEvidence) -> None:
    """Find answers of `load_state_dict` that somebody kept and nobody read."""
    names = set(program.model.state_dict())
    for thing in reachable(vars(program)):
        if isinstance(thing, _IncompatibleKeys) and set(thing.missing_keys) >= names:
            seen.missing, seen.unexpected = list(thing.missing_keys), list(thing.unexpected_keys)


def _compare_names(wanted: list[str], given: list[str], seen: StatesEvidence) -> None:
    if given and not set(wanted) & set(given):
        seen.missing, seen.unexpected = wanted, given


def _holders(program: Program) -> dict[int, tuple[Any, dict]]:
    """Return every dict and every object with attributes that the pieces lead to, and what it holds now."""
    inside = {id(vars(module)) for module in program.model.modules()}
    inside |= {
        id(part)
        for module in program.model.modules()
        for part in (module._parameters, module._buffers, module._modules)
    }
    pieces = {name: piece for name, piece in vars(program).items() if name not in ("train_loader", "val_loader")}
    found = {}
    for thing in reachable(pieces):
        holds = thing if isinstance(thing, dict) else getattr(thing, "__dict__", None)
        if isinstance(holds, dict) and id(holds) not in inside and not isinstance(thing, torch.optim.Optimizer):
            found[id(holds)] = (holds, dict(holds))
    return found


def _living(program: Program, before: dict[int, tuple[Any, dict]]) -> tuple[str, list[str]] | None:
    """Find what was put somewhere since then and shares its memory with the weights that are trained."""
    model = program.model
    live = {value.data_ptr() for value in model.state_dict().values() if value.numel()}
    parameters = {id(parameter) for parameter in model.parameters()}
    for key, (holds, _) in _holders(program).items():
        old = before.get(key, (None, {}))[1]
        fresh = {name: value for name, value in holds.items() if name not in old or old[name] is not value}
        tensors = {
            name: value
            for name, value in fresh.items()
            if isinstance(value, Tensor) and id(value) not in parameters and isinstance(name, str)
        }
        shared = [name for name, value in tensors.items() if value.numel() and value.data_ptr() in live]
        if shared and len(shared) >= min(2, len(live)) and len(shared) >= len(tensors) / 2:
            return "state", shared
        names = [str(name) for name, value in fresh.items() if value is model and old.get(name) is None]
        if names and key in before:
            return "model", names
    return None
