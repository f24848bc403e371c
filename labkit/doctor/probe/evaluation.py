"""What the evaluation does: the modes it runs in, what it changes, what its score is worth, what it keeps."""

import time
from dataclasses import dataclass, field
from itertools import pairwise

import torch
import torch.nn as nn
from torch import Tensor

from labkit import randomness
from labkit.doctor.events import Event
from labkit.doctor.nested import leaves
from labkit.doctor.probe.evaluation_scores import ScoresEvidence, look_at_scores, small_loader
from labkit.doctor.probe.evaluation_states import StatesEvidence, look_at_states
from labkit.doctor.program import Program
from labkit.doctor.records import ForwardCall, Recording

NORMS = nn.modules.batchnorm._BatchNorm
DROPS = nn.modules.dropout._DropoutNd
SECONDS = 3.0  # an evaluation that takes longer is not run again


@dataclass
class EvaluationEvidence:
    """What was seen of the evaluation.

    error: what the evaluation raised. in_training_mode: dropout and batch-norm layers that were in training mode in
    an evaluation's forward; dropped: (p, how often) of dropout that was on in an evaluation. repeated: whether the
    same inputs went through the model more than once, as when the mean of several passes is meant.
    training_in_evaluation: dropout and batch-norm layers that a step had switched to evaluation mode when it trained;
    training_updates: in how many of the watched updates. scores: see ScoresEvidence. states: see StatesEvidence.
    plateau: mode of the ReduceLROnPlateau that gets the score. own_score: whether the program has an evaluation of
    its own. better_is_higher: whether better models get higher scores, None if unknown.
    """

    error: Exception | None = None
    in_training_mode: list[str] = field(default_factory=list)
    dropped: tuple[float, int] | None = None
    repeated: bool = False
    training_in_evaluation: list[str] = field(default_factory=list)
    training_updates: int = 0
    watched: int = 0
    scores: ScoresEvidence = field(default_factory=ScoresEvidence)
    states: StatesEvidence = field(default_factory=StatesEvidence)
    plateau: str | None = None
    own_score: bool = False
    better_is_higher: bool | None = None


def look(program: Program, recording: Recording) -> EvaluationEvidence:
    """Look at the recorded evaluation, and evaluate copies on small loaders, with models whose answers are known."""
    seen = EvaluationEvidence(error=recording.evaluation_error, watched=len(recording.updates))
    _training_modes(recording, seen)
    if recording.error is not None:
        return seen
    _evaluation_modes(recording, seen)
    scheduler, seen.own_score = program.scheduler, program.evaluate is not None
    seen.plateau = scheduler.mode if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) else None
    if program.val_loader is None or seen.error is not None:
        return seen
    with randomness.frozen_randomness(0):
        begin = time.thread_time()
        loader = small_loader(program.val_loader)
        if loader is None:
            return seen
        seen.states = look_at_states(program, loader)
        if time.thread_time() - begin < SECONDS:
            seen.scores = look_at_scores(program, recording)
    seen.better_is_higher = _direction(program, seen)
    return seen


def _active(module: nn.Module) -> bool:
    """Say whether training mode makes a difference for a layer itself."""
    if isinstance(module, NORMS):
        return module.track_running_stats
    return isinstance(module, DROPS) and module.p > 0


def _evaluation_modes(recording: Recording, seen: EvaluationEvidence) -> None:
    modules = dict(recording.program.model.named_modules())
    calls = [call for call in recording.evaluation_forwards if not call.requires_grad or not call.grad_enabled]
    calls = calls or recording.evaluation_forwards
    for name, module in modules.items():
        if _active(module) and any(call.training.get(name) for call in calls):
            seen.in_training_mode.append(name or "model")
    on = [event for event in recording.evaluation_events if event.kind == "dropout" and _is_on(event)]
    if on:
        seen.dropped = (float(on[0].arguments["p"]), len(on))
    seen.repeated = _repeated(calls)


def _is_on(event: Event) -> bool:
    return bool(event.arguments.get("training")) and bool(event.arguments.get("p"))


def _repeated(calls: list[ForwardCall], passes: int = 3) -> bool:
    """Say whether the same inputs came three times or more in a row: a mean over passes is meant."""
    first = [next((leaf for leaf in leaves(call.inputs) if isinstance(leaf, Tensor)), None) for call in calls]
    same = [a is not None and b is not None and a.shape == b.shape and torch.equal(a, b) for a, b in pairwise(first)]
    longest = run = 1
    for again in same:
        run = run + 1 if again else 1
        longest = max(longest, run)
    return longest >= (2 * passes if all(same) else passes)  # it was evaluated twice: one batch comes twice as often


def _training_modes(recording: Recording, seen: EvaluationEvidence) -> None:
    """Find layers that train in evaluation mode because a step switched them."""
    modules = dict(recording.program.model.named_modules())
    switched = [
        event.subject
        for update in recording.updates
        for event in update.events
        if event.kind == "mode" and event.arguments.get("mode") is False
    ]
    inside = {id(part) for module in switched if isinstance(module, nn.Module) for part in module.modules()}
    for name, module in modules.items():
        trained = any(parameter.requires_grad for parameter in module.parameters()) or isinstance(module, DROPS)
        if not (_active(module) and trained and id(module) in inside):
            continue
        modes = [
            call.training.get(name)
            for update in recording.updates
            for call in update.forwards
            if call.requires_grad and call.grad_enabled
        ]
        still = [mode for mode in modes if mode is False]
        if still:
            seen.training_in_evaluation.append(name or "model")
            seen.training_updates = max(seen.training_updates, len(still))


def _direction(program: Program, seen: EvaluationEvidence) -> bool | None:
    """Say whether better models get higher scores: by models whose answers are known, or as the accuracy does."""
    if program.evaluate is None:
        return True
    right, wrong = seen.scores.right, seen.scores.wrong
    return None if right is None or wrong is None or right == wrong else right > wrong
