"""What the optimizers do: what they hold, what they find in the gradients, in which order, and what they move."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn import functional

from labkit.doctor.copying import reachable
from labkit.doctor.probe.rates import RatesEvidence, look_at_rates
from labkit.doctor.program import Program
from labkit.doctor.recording import Mark, Recording, Update


@dataclass
class UpdatesEvidence:
    """What was seen of the optimizers. Names are names of parameters in the model.

    watched, batches: updates that were watched, and batches of an epoch (None if the loader does not know).
    missing: trainable, with a gradient, and in no optimizer. missing_as_made: those of them that still look as their
    layer was made. ahead_of_optimised: those of them whose layer comes after all optimised ones. strangers: tensors in
    the optimizer that are no part of model, loss or context. shared: whether optimizer and model have any in common.
    steps: how many times any optimizer stepped; own_steps: the program's own. thrown_away: backward passes whose
    gradients were cleared before any step used them. emptied: steps that found every gradient cleared after a backward.
    kept: steps whose gradients still contained those that the step before had used. changed_after: steps after which
    the gradients were changed to other values that nothing used. windows: backward passes a step uses.
    weights: for each window the sum of (what backward began from ÷ what loss_fn gave), None if it cannot be told.
    clips: calls that clip; of these clips_before_backward, clips_after_step, and clips_of_others, whose parameters have
    no gradient.
    unscaled_late: clips that came before the scaler's `unscale_`. made: optimizers made inside updates.
    forgotten: steps that found the optimizer's state empty, although the step before had filled it.
    frozen_moved: parameters without requires_grad that an update moved; zeroed_moved: those whose gradient was set to
    zero before the step; evaluated_in_training: parts that are trained in evaluation mode, although it changes nothing
    in them; thawed, left_frozen: what the evaluation made trainable, or not. attribute_frozen: modules with a plain
    attribute requires_grad. nodes: operations in the graph of each backward. live: graphs alive after each update.
    reset: parameters that something else than an optimizer overwrote, with what was seen. shrunk: by which part
    all weights are made smaller between two steps. along: see Mark, for every step. rates: see RatesEvidence.
    """

    watched: int = 0
    batches: int | None = None
    raised: bool = False
    missing: list[str] = field(default_factory=list)
    missing_as_made: list[str] = field(default_factory=list)
    ahead_of_optimised: list[str] = field(default_factory=list)
    strangers: int = 0
    optimised: int = 0
    shared: bool = True
    steps: int = 0
    own_steps: int = 0
    backwards: int = 0
    thrown_away: int = 0
    emptied: int = 0
    kept: int = 0
    kept_names: list[str] = field(default_factory=list)
    changed_after: int = 0
    windows: list[int] = field(default_factory=list)
    weights: list[float | None] = field(default_factory=list)
    clips_before_backward: int = 0
    clips_after_step: int = 0
    clips_of_others: int = 0
    clips: int = 0
    unscaled_late: int = 0
    made: int = 0
    forgotten: int = 0
    frozen_moved: dict[str, float] = field(default_factory=dict)
    zeroed_moved: dict[str, float] = field(default_factory=dict)
    evaluated_in_training: list[str] = field(default_factory=list)
    thawed: list[str] = field(default_factory=list)
    left_frozen: list[str] = field(default_factory=list)
    attribute_frozen: list[str] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    reset: dict[str, str] = field(default_factory=dict)
    shrunk: float = 0.0
    along: list[float] = field(default_factory=list)
    moved: float | None = None
    rates: RatesEvidence = field(default_factory=RatesEvidence)


def look(program: Program, recording: Recording) -> UpdatesEvidence:
    """Look at the updates of a recording; nothing is run except schedules, on copies."""
    seen = UpdatesEvidence(watched=len(recording.updates), raised=recording.error is not None)
    seen.batches = program.batches()
    _membership(program, recording, seen)
    _order(recording, seen)
    _clipping(recording, seen)
    _freezing(program, recording, seen)
    seen.made = sum(event.kind == "optimizer made" for update in recording.updates for event in update.events)
    seen.stateful = any(
        "momentum_buffer" in s or "exp_avg" in s for o in recording.optimizers for s in o.state.values()
    )
    seen.nodes = [mark.nodes for update in recording.updates for mark in _marks(update, "backward")][:12]
    seen.live = recording.live
    moves = [value for update in recording.updates for value in update.moved.values() if value > 0]
    seen.moved = median(moves) if moves else 0.0
    _resets(recording, seen)
    seen.along = [mark.along for update in recording.updates for mark in update.marks if mark.kind == "step"]
    seen.rates = look_at_rates(program, recording)
    return seen


def _marks(update: Update, *kinds: str) -> list[Mark]:
    return [mark for mark in update.marks if mark.kind in kinds]


def optimizers_of(program: Program, recording: Recording) -> list[torch.optim.Optimizer]:
    """Return the recorded copy's optimizers: its own, those in its context or its functions, those that stepped."""
    known = [thing for thing in reachable(_pieces(recording.program)) if isinstance(thing, torch.optim.Optimizer)]
    return [*known, *(one for one in recording.optimizers if all(one is not other for other in known))]


def _pieces(program: Program) -> dict:
    return {name: piece for name, piece in vars(program).items() if name not in ("train_loader", "val_loader")}


def _membership(program: Program, recording: Recording, seen: UpdatesEvidence) -> None:
    copy = recording.program
    held = {id(p): p for one in optimizers_of(program, recording) for p in _parameters(one)}
    own = {id(p) for p in _parameters(copy.optimizer)}
    parameters = dict(copy.model.named_parameters())
    seen.optimised = len(own)
    seen.shared = any(id(parameter) in own for parameter in parameters.values())
    with_gradient = {name for update in recording.updates for name, norm in update.gradients.items() if norm}
    seen.missing = [n for n, p in parameters.items() if p.requires_grad and id(p) not in held and n in with_gradient]
    seen.missing_as_made = [
        name for name in seen.missing if looks_as_made(program.model, name, program.model.get_parameter(name))
    ]
    optimised = [number for number, parameter in enumerate(parameters.values()) if id(parameter) in held]
    order = {name: number for number, name in enumerate(parameters)}
    seen.ahead_of_optimised = [name for name in seen.missing if optimised and order[name] > max(optimised)]
    belongs = {id(p) for thing in reachable(_pieces(copy)) if isinstance(thing, nn.Module) for p in thing.parameters()}
    seen.strangers = sum(1 for key in own if key not in belongs and held[key].grad is None)


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def looks_as_made(model: nn.Module, name: str, parameter: Tensor) -> bool:
    """Say whether a weight matrix lies in the bounds of torch's own initialisation, as no trained one does for long.

    Linear and convolution layers start uniform in ±1/√fan_in, recurrent ones in ±1/√hidden_size (torch documentation).
    Of other layers nothing is known: False.
    """
    owner = model.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, nn.RNNBase):
        bound = owner.hidden_size**-0.5
    elif isinstance(owner, nn.Linear | nn.modules.conv._ConvNd) and getattr(owner, "weight", None) is not None:
        bound = owner.weight[0].numel() ** -0.5
    else:
        return False
    return parameter.detach().abs().max().item() <= bound * 1.0001


def _order(recording: Recording, seen: UpdatesEvidence) -> None:
    """Follow the gradients through all updates: made, used, cleared, or neither."""
    marks = [(update, mark) for update in recording.updates for mark in update.marks]
    seen.backwards = sum(mark.kind == "backward" for _, mark in marks)
    steps = [mark for _, mark in marks if mark.kind == "step"]
    seen.steps = len(steps)
    own = recording.program.optimizer
    seen.own_steps = sum(recording.optimizers[mark.optimizer] is own for mark in steps)
    for number, optimizer in enumerate(recording.optimizers):
        held = {id(parameter) for parameter in _parameters(optimizer)}
        names = {name for name, parameter in recording.program.model.named_parameters() if id(parameter) in held}
        if names:
            _follow(marks, number, names, seen)
    _thrown_away(marks, seen)


def _follow(marks: list[tuple[Update, Mark]], number: int, names: set[str], seen: UpdatesEvidence) -> None:
    """Follow the gradients of one optimizer's parameters from one of its steps to the next."""
    backwards: list[tuple[Update, Mark]] = []
    stepped: Mark | None = None
    remembered = 0
    for position, (update, mark) in enumerate(marks):
        if mark.kind == "backward":
            backwards.append((update, mark))
        elif mark.kind == "step" and mark.optimizer == number:
            began_clean = [not (before.nonzero & names) for _, before in backwards]
            if stepped is not None and backwards and not any(began_clean) and stepped.nonzero & names:
                seen.kept += 1
                seen.kept_names = sorted(stepped.nonzero & names)
            seen.forgotten += remembered > 0 and mark.state == 0
            if backwards and not (mark.nonzero & names) and any(mark.accumulated.get(name) for name in names):
                seen.emptied += 1
            if backwards:
                seen.windows.append(len(backwards))
                seen.weights.append(_weight(backwards, mark))
        elif mark.kind == "stepped" and mark.optimizer == number:
            stepped, backwards = mark, []
            remembered = mark.state
            after = next((later for _, later in marks[position + 1 :]), None)
            if after is not None and after.kind in ("backward", "end") and _changed(mark, after, names):
                seen.changed_after += 1


def _changed(before: Mark, after: Mark, names: set[str]) -> bool:
    """Say whether gradients were changed to other values that are not zero."""
    pairs = [(before.norms.get(name), after.norms.get(name)) for name in names]
    pairs = [(old, new) for old, new in pairs if old and new]
    return bool(pairs) and any(abs(old - new) > 1e-6 * old for old, new in pairs)


def _weight(backwards: list[tuple[Update, Mark]], step: Mark) -> float | None:
    """Return how much a window weighs its samples: 1 if its gradient is that of the mean over its batches.

    What backward began from is compared with what loss_fn gave, and the gradients at the step with those that the last
    backward left: a sum can be divided here or there.
    """
    total = 0.0
    for update, mark in backwards:
        values = [
            float(call.value) for call in update.losses if isinstance(call.value, Tensor) and call.value.numel() == 1
        ]
        if mark.loss is None or len(values) != 1 or values[0] == 0 or len(_marks(update, "backward")) != 1:
            return None
        total += mark.loss / values[0]
    factors = [now / step.accumulated[n] for n, now in step.norms.items() if now and step.accumulated.get(n)]
    return total * median(factors) if factors else total


def _thrown_away(marks: list[tuple[Update, Mark]], seen: UpdatesEvidence) -> None:
    """Count backward passes whose gradients were gone before the next backward, without any step between."""
    waiting: set[str] = set()
    for position, (_, mark) in enumerate(marks):
        if mark.kind == "backward":
            if waiting and not (mark.nonzero & waiting):
                seen.thrown_away += 1
            following = marks[position + 1][1] if position + 1 < len(marks) else mark
            waiting = following.nonzero if following.kind == "end" or following.kind == "step" else set()
        elif mark.kind == "step":
            waiting = set()


def _resets(recording: Recording, seen: UpdatesEvidence) -> None:
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


def _clipping(recording: Recording, seen: UpdatesEvidence) -> None:
    for update in recording.updates:
        scaled = any(event.kind == "scale" and event.subject.is_enabled() for event in update.events)
        for event in update.events:
            if event.kind != "clip":
                continue
            seen.clips += 1
            before = [mark for mark in update.marks if mark.order < event.order]
            after = [mark for mark in update.marks if mark.order > event.order]
            if before and before[-1].kind == "stepped":
                seen.clips_after_step += 1
            elif not any(mark.kind == "backward" for mark in before) and any(m.kind == "backward" for m in after):
                seen.clips_before_backward += 1
            elif event.arguments.get("with_gradient") == 0:
                seen.clips_of_others += 1
            unscaled = any(other.kind == "unscale" and other.order < event.order for other in update.events)
            seen.unscaled_late += scaled and not unscaled


def _freezing(program: Program, recording: Recording, seen: UpdatesEvidence) -> None:
    held = {id(p) for one in optimizers_of(program, recording) for p in _parameters(one)}
    parameters = dict(recording.program.model.named_parameters())
    for update in recording.updates:
        moved = {name for name, change in update.moved.items() if change > 0 and id(parameters.get(name)) in held}
        late = {name for name in moved & update.frozen if update.gradients.get(name) is not None}
        if _steps_only(update):
            seen.frozen_moved.update({name: update.moved[name] for name in late})
        steps = _marks(update, "step")
        by_hand = {n for m in steps for n, norm in m.norms.items() if norm == 0 and m.accumulated.get(n)}
        seen.zeroed_moved.update({name: update.moved[name] for name in by_hand & moved})
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
        seen.thawed = [name for name in during if after.get(name)]
        seen.left_frozen = [
            name for name, trained in before.items() if trained and name not in during and not after[name]
        ]


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
