"""Look at the weights between the updates: who else writes into them, and do frozen ones stay as they are?"""

from difflib import get_close_matches
from itertools import pairwise
from statistics import median

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn import functional

from labkit.doctor.probe.updates_evidence import UpdatesEvidence, marks_of, optimizers_of, parameters_of
from labkit.doctor.program import Program
from labkit.doctor.records import Mark, Recording, Update


def look_for_resets(recording: Recording, seen: UpdatesEvidence) -> None:
    """Find weights that changed between two steps: back to an earlier state, or to something without relation."""
    marks = [mark for update in recording.updates for mark in update.marks if mark.weights]
    earlier: set[tuple[str, int]] = set()
    undone: list[float] = []
    shrunk: list[float] = []
    for number, (before, after) in enumerate(pairwise(marks)):
        if (before.kind, after.kind) != ("stepped", "step") or number == 0:
            earlier |= _prints(before)
            continue
        changed = [name for name, now in after.weights.items() if _print(before.weights[name]) != _print(now)]
        for name in changed:
            old, now = before.weights[name].flatten(), after.weights[name].flatten()
            if now.numel() > 1 and (name, _print(now)) in earlier:
                seen.reset[name] = "they are again what they were some updates before"
            elif old.numel() >= 64 and functional.cosine_similarity(old, now, dim=0) < 0.5 and old.norm() > 0:
                seen.reset[name] = "they have nothing in common with what the update before had left"
        if changed:
            undone.append(_undone(marks[number - 1], before, after))
            shrunk.append(_shrunk(before, after))
        earlier |= _prints(before)
    if len(undone) >= 3 and min(undone) > 0.9:
        seen.reset["all of them"] = f"{100 * median(undone):.0f} % of every update is taken back"
    seen.shrunk = median(shrunk) if len(shrunk) >= 3 else 0.0


def _prints(mark: Mark) -> set[tuple[str, int]]:
    return {(name, _print(weight)) for name, weight in mark.weights.items()}


def _print(weight: Tensor) -> int:
    """Return a number that is the same for the same bits, and for hardly any others."""
    return hash(weight.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())


def _undone(begin: Mark, stepped: Mark, after: Mark) -> float:
    """Return the part of a step that was taken back before the next: 1 if all of it."""
    names = [name for name in begin.weights if name in after.weights]
    step = sum((stepped.weights[name] - begin.weights[name]).square().sum().item() for name in names)
    kept = sum((after.weights[name] - begin.weights[name]).square().sum().item() for name in names)
    return 1 - (kept / step) ** 0.5 if step > 0 else 0.0


def _shrunk(stepped: Mark, after: Mark) -> float:
    """Return by which part all weights became smaller between two steps, in the same proportion; else 0."""
    pairs = [(stepped.weights[name].norm().item(), weight.norm().item()) for name, weight in after.weights.items()]
    parts = [1 - new / old for old, new in pairs if old > 0]
    return median(parts) if parts and max(parts) - min(parts) < 1e-4 else 0.0


def look_at_freezing(program: Program, recording: Recording, seen: UpdatesEvidence) -> None:
    """Find parameters that are frozen and move, or are frozen only in name."""
    held = {id(p) for one in optimizers_of(program, recording) for p in parameters_of(one)}
    parameters = dict(recording.program.model.named_parameters())
    for update in recording.updates:
        moved = {name for name, change in update.moved.items() if change > 0 and id(parameters.get(name)) in held}
        late = {name for name in moved & update.frozen if update.gradients.get(name) is not None}
        if _steps_only(update):
            seen.frozen_moved.update({name: change for name, change in update.moved.items() if name in late})
        steps = marks_of(update, "step")
        by_hand = {n for m in steps for n, norm in m.norms.items() if norm == 0 and m.accumulated.get(n)}
        seen.zeroed_moved.update({name: change for name, change in update.moved.items() if name in by_hand & moved})
    seen.misspelt_freezing = misspelt_freezing(program.model)
    for name, module in program.model.named_modules():
        own = list(module.parameters())
        if vars(module).get("requires_grad") is False and any(parameter.requires_grad for parameter in own):
            seen.attribute_frozen.append(name or "model")
        held_in_eval = (
            bool(own)
            and all(
                id(recording.program.model.get_parameter(f"{name}.{n}")) in held for n, _ in module.named_parameters()
            )
            if name
            else False
        )
        if held_in_eval and _only_evaluated(name, module, recording):
            seen.evaluated_in_training.append(name)
    before, after = (
        {name: parameter.requires_grad for name, parameter in one.model.named_parameters()}
        for one in (program, recording.program)
    )
    if recording.scores:
        during = recording.updates[-1].frozen if recording.updates else set()
        seen.thawed = [name for name, trained in after.items() if trained and name in during]
        seen.left_frozen = [
            name for name, trained in before.items() if trained and name not in during and not after[name]
        ]


def misspelt_freezing(model: nn.Module) -> dict[str, str]:
    """Return name -> attribute of trainable parameters, or modules with such, that have one like requires_grad = False.

    Python makes a new attribute of every name, so `require_grad = False` raises nothing and freezes nothing.
    """
    named = [(name or "model", module, any(p.requires_grad for p in module.parameters()))
             for name, module in model.named_modules()]  # fmt: skip
    named += [(name, parameter, parameter.requires_grad) for name, parameter in model.named_parameters()]
    return {
        name: attribute
        for name, thing, trained in named
        if trained
        for attribute, value in vars(thing).items()
        if value is False and attribute != "requires_grad" and get_close_matches(attribute, ["requires_grad"], 1, 0.85)
    }


def _only_evaluated(name: str, module: nn.Module, recording: Recording) -> bool:
    """Say whether a part is in evaluation mode in training, is trained, and has no layer for which the mode matters."""
    calls = [call for update in recording.updates for call in update.forwards if call.training.get("")]
    kinds = (nn.modules.batchnorm._NormBase, nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention)
    matters = any(
        isinstance(part, kinds) or (not _is_torchs(part) and not list(part.children())) for part in module.modules()
    )
    trained = all(parameter.requires_grad for parameter in module.parameters())
    return trained and not matters and bool(calls) and not any(call.training.get(name, True) for call in calls)


def _is_torchs(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.")


def _steps_only(update: Update) -> bool:
    """Say whether nothing but optimizers can have written into the weights: no loading, no initialising."""
    return not any(event.kind in ("load", "initialise", "apply") for event in update.events)
