"""Follow the gradients through the updates: made, clipped, used, cleared, or neither."""

import math
from statistics import median

from torch import Tensor

from labkit.doctor.probe.updates_evidence import UpdatesEvidence, marks_of, parameters_of
from labkit.doctor.records import Mark, Recording, Update


def look_at_order(recording: Recording, seen: UpdatesEvidence) -> None:
    """Follow the gradients through all updates: made, used, cleared, or neither.

    An update with a loss or a gradient that is not finite is left out: a careful loop throws such a gradient away.
    """
    marks = [(update, mark) for update in recording.updates if _is_finite(update) for mark in update.marks]
    seen.backwards = sum(mark.kind == "backward" for _, mark in marks)
    steps = [mark for _, mark in marks if mark.kind == "step"]
    seen.steps = len(steps)
    own = recording.program.optimizer
    seen.own_steps = sum(recording.optimizers[mark.optimizer] is own for mark in steps)
    for number, optimizer in enumerate(recording.optimizers):
        held = {id(parameter) for parameter in parameters_of(optimizer)}
        names = {name for name, parameter in recording.program.model.named_parameters() if id(parameter) in held}
        if names:
            _follow(marks, number, names, seen)
    _thrown_away(marks, seen)


def _is_finite(update: Update) -> bool:
    numbers = [mark.loss for mark in update.marks] + [norm for mark in update.marks for norm in mark.norms.values()]
    return all(math.isfinite(number) for number in numbers if number is not None)


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
        if mark.loss is None or len(values) != 1 or values[0] == 0 or len(marks_of(update, "backward")) != 1:
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


def look_at_clipping(recording: Recording, seen: UpdatesEvidence) -> None:
    """Count the calls that clip, and those that come at a moment when it has no effect."""
    for update in recording.updates:
        scaled = any(event.kind == "scale" and event.subject.is_enabled() for event in update.events)
        for event in update.events:
            if event.kind != "clip" or event.arguments.get("max_norm") == float("inf"):
                continue  # without a limit it only measures
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
        if len(recording.optimizers) == 1:
            _parts_clipped(update, seen)


def _parts_clipped(update: Update, seen: UpdatesEvidence) -> None:
    """Note how many of the gradients that one optimizer used had been clipped, all calls together."""
    steps = marks_of(update, "step")
    clips = [event for event in update.events if event.kind == "clip" and event.arguments.get("with_gradient")]
    clips = [event for event in clips if event.arguments.get("max_norm") != float("inf")]
    if len(steps) != 1 or not clips or clips[-1].order > steps[0].order:
        return
    clipped = sum(event.arguments["with_gradient"] for event in clips)
    there = sum(norm is not None for norm in steps[0].norms.values())
    limit = clips[0].arguments.get("max_norm")
    if clipped < there and limit is not None:
        seen.clipped_in_part.append((clipped, there, float(limit)))
