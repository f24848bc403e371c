"""The engine of the checks: run an answer, the solution and the known wrong answers on the same inputs, and compare.

An answer is right when nothing that can be seen tells it from the solution, however it was written. If it is wrong, and
a known wrong idea gives the same results on every case, then that idea is what to talk about.
"""

import inspect
import linecache
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from labkit.exercises.declaration import Task
from labkit.exercises.differences import Difference, Tolerance, differences
from labkit.exercises.families import WrongKind
from labkit.exercises.results import (
    NOT_ATTEMPTED,
    RAISED,
    RIGHT,
    WRONG,
    Result,
    case_text,
    error_line,
    given,
    indented,
)
from labkit.exercises.surroundings import undisturbed
from labkit.randomness import generator

_EXACT = Tolerance(relative=0, absolute=0, graph=True)
_PACKAGES = (str(Path(__file__).resolve().parents[1]), str(Path(torch.__file__).resolve().parent))


@dataclass(frozen=True)
class Observed:
    """What one run on one case showed: the result or the error, and which inputs (by position) it changed."""

    result: Any
    error: BaseException | None
    changed: frozenset[int]


def judge(exercise: Task, answer: Any, attempt: int = 0) -> Result:
    """Judge an answer on cases drawn for this attempt; errors of the answer are part of the result, never raised."""
    try:
        with undisturbed(seed=attempt):
            return _judged(exercise, answer, attempt)
    except WrongKind as error:
        return Result(exercise.name, WRONG, f"**Not yet.** {error}")
    except Exception as error:  # the result cannot even be looked at: a list in itself, a tensor class of one's own
        text = "**Not yet.** What your answer gives cannot be compared with what is expected:"
        return Result(exercise.name, WRONG, f"{text}\n\n{indented(error_line(error), 'text')}")


def _judged(exercise: Task, answer: Any, attempt: int) -> Result:
    observed = [] if answer is ... else observe(exercise, answer, attempt)
    if answer is ... or any(_has_ellipsis(one.result) for one in observed):
        ran = " If you have replaced it, run that cell, then this one." if attempt else ""
        text = f"**{exercise.name}** is not attempted yet: replace the `...`.{ran}"
        return Result(exercise.name, NOT_ATTEMPTED, text)
    expected = observe(exercise, exercise.reference(), attempt)
    if _alike(exercise, expected, observed):
        return Result(exercise.name, RIGHT, _praise(exercise, len(expected)))
    for misconception in exercise.misconceptions:
        if _alike(exercise, observe(exercise, misconception.answer, attempt), observed):
            text = f"**Not yet: {misconception.name}.** {misconception.explanation}"
            return Result(exercise.name, WRONG, text, misconception.name)
    return _first_trouble(exercise, expected, observed, attempt)


def observe(exercise: Task, answer: Any, attempt: int) -> list[Observed]:
    """Run an answer on every case, each with inputs of its own, and return what was seen.

    The inputs are drawn anew for each answer, from the same seed: equal numbers, and nothing that one answer does to
    them reaches another. Raises WrongKind.
    """
    observed = []
    for inputs, untouched in zip(_cases(exercise, attempt), _cases(exercise, attempt), strict=True):
        result = error = None
        with undisturbed(seed=attempt):
            try:
                result = exercise.run(answer, *inputs)
            except (WrongKind, KeyboardInterrupt):
                raise
            except BaseException as raised:  # SystemExit, CancelledError, …: an answer may raise what it likes
                error = raised
        changed = {place for place, pair in enumerate(zip(untouched, inputs, strict=True)) if _was_changed(*pair)}
        observed.append(Observed(result, error, frozenset(changed)))
    return observed


def _cases(exercise: Task, attempt: int) -> list[tuple]:
    with undisturbed(seed=attempt):
        return exercise.cases(generator(0, f"exercise {exercise.name}", index=attempt))


def _was_changed(before: Any, after: Any) -> bool:
    """Tell whether an input is another than it was. Models and optimizers are meant to change, and not looked at."""
    if isinstance(before, torch.nn.Module | torch.optim.Optimizer | torch.Generator):
        return False
    return bool(differences(before, after, _EXACT))


def _has_ellipsis(result: Any) -> bool:
    if isinstance(result, dict):
        return any(_has_ellipsis(one) for one in result.values())
    if isinstance(result, list | tuple):
        return any(_has_ellipsis(one) for one in result)
    return result is ...


def _alike(exercise: Task, one: list[Observed], other: list[Observed]) -> bool:
    """Tell whether two answers cannot be told apart by what was observed."""
    return len(one) == len(other) and not any(
        _differ(exercise, first, second) for first, second in zip(one, other, strict=True)
    )


def _differ(exercise: Task, one: Observed, other: Observed) -> bool:
    if one.error is not None or other.error is not None:
        return one.error is None or other.error is None or error_line(one.error) != error_line(other.error)
    return one.changed != other.changed or bool(differences(one.result, other.result, exercise.tolerance))


def _praise(exercise: Task, cases: int) -> str:
    counted = "" if cases == 1 else f" {cases} cases agree."
    return f"**Right.**{counted} {exercise.praise}".rstrip()


def _first_trouble(exercise: Task, expected: list[Observed], observed: list[Observed], attempt: int) -> Result:
    """Describe the first case in which the answer raised, changed an input that it should not, or differs."""
    names = _argument_names(exercise)
    for position, (right, mine) in enumerate(zip(expected, observed, strict=True)):
        if not _differ(exercise, right, mine):
            continue
        inputs = dict(zip(names, _cases(exercise, attempt)[position], strict=False))
        if mine.error is not None:
            return Result(exercise.name, RAISED, _raised_text(given(inputs, numbers=False), mine.error))
        if extra := mine.changed - right.changed:
            which = " and ".join(f"`{names[place]}`" for place in sorted(extra))
            text = f"**Not yet.** Your function changes its input {which}. Whoever called it still needs that value: "
            return Result(exercise.name, WRONG, text + "work on a new tensor, or on a `clone()`.", "changes its input")
        found = differences(right.result, mine.result, exercise.tolerance)
        found = found or [Difference("", "input", "changed in place", "left as it was")]
        numbers = any(one.what in ("value", "input") for one in found)
        start = "**Not yet.**" + (" " if inputs else "\n\n")  # a list of Markdown begins on a line of its own
        return Result(exercise.name, WRONG, start + case_text(given(inputs, numbers), found))
    raise AssertionError("called for an answer without a difference")


def _argument_names(exercise: Task) -> list[str]:
    """Return the names of the inputs as a run of its own names them, or else the solution; what is left is numbered."""
    run, reference = inspect.signature(exercise.run).parameters, exercise.reference()
    if not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in run.values()):
        names = list(run)[1:]  # the first is the answer
    else:
        names = list(inspect.signature(reference).parameters) if inspect.isroutine(reference) else []
    return names + [f"input {place}" for place in range(len(names), 16)]


def _raised_text(inputs: str, error: BaseException) -> str:
    where = f" {inputs}" if inputs else ""
    line = _own_line(error)
    at = f"\n\nIt was raised in your line\n\n{indented(line)}" if line else ""
    return f"**It raised an error.**{where}\n\n{indented(error_line(error), 'text')}{at}"


def _own_line(error: BaseException) -> str:
    """Return the learner's line that led to an error: the last one that is neither torch's nor labkit's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_PACKAGES)]
    return linecache.getline(own[-1].filename, own[-1].lineno or 0).strip() if own else ""
