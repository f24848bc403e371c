"""What the learner holds in the hand: exercises, predictions, and the chapter that has them as attributes."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from labkit.errors import LabkitError
from labkit.exercises import checking, progress
from labkit.exercises.declaration import Task
from labkit.exercises.differences import dtype_name
from labkit.exercises.results import Result, indented, say


@dataclass
class Exercise(Task):
    """A task that the learner holds in the hand: check an answer, ask for a hint, see the solution."""

    chapter: str = field(default="", init=False)
    _attempts: int = field(default=0, init=False, repr=False)
    _hints_shown: int = field(default=0, init=False, repr=False)

    def judge(self, answer: Any = ..., attempt: int = 0) -> Result:
        """Return what there is to say about an answer, showing and recording nothing. Each attempt has other inputs."""
        return checking.judge(self, answer, attempt)

    def check(self, answer: Any = ...) -> None:
        """Judge an answer, show the result and note it in the learner's progress. Never raises."""
        result = self.judge(answer, self._attempts)
        self._attempts += 1
        progress.record_check(self.chapter, self.name, result.outcome, result.misconception)
        say(result.markdown)

    def hint(self, level: int | None = None) -> None:
        """Show the next hint, or the hint of a given level, from 1."""
        chosen = min(self._hints_shown + 1, len(self.hints)) if level is None else level
        if not 1 <= chosen <= len(self.hints):
            say(f"{self.name} has the hints 1 to {len(self.hints)}.")
            return
        self._hints_shown = max(self._hints_shown, chosen)
        progress.record_hint(self.chapter, self.name, chosen)
        last = " The next step is `solution()`." if chosen == len(self.hints) else ""
        say(f"**Hint {chosen} of {len(self.hints)}.** {self.hints[chosen - 1]}{last}")

    def solution(self) -> None:
        """Show the solution, and note that it was looked at."""
        progress.record_solution(self.chapter, self.name)
        say(f"**One solution.** Others may be as right.\n\n{indented(self.solved)}")

    def __repr__(self) -> str:
        return f"{self.name}: check({self.name}), hint(), solution()"


@dataclass
class Prediction:
    """A question to answer before running the cell that settles it.

    question: Markdown. choices: each possible answer, with what the difference between it and the measurement teaches;
    under `answer`, why it is so. answer: what the measurement gives.
    """

    name: str
    question: str
    answer: str
    choices: dict[str, str]
    chapter: str = field(default="", init=False)

    def reveal(self, guess: Any, measured: Any) -> None:
        """Compare a prediction with what was measured, show what that teaches, and note it."""
        guessed, found = self.nearest(guess), as_choice(measured)
        if guess is not ... and guessed in self.choices:
            progress.record_prediction(self.chapter, self.name, guessed, guessed == found)
        say(self.judge(guess, measured).markdown)

    def judge(self, guess: Any, measured: Any) -> Result:
        """Return what there is to say about a prediction, without showing or recording it."""
        guessed, found = self.nearest(guess), as_choice(measured)
        if found not in self.choices:
            text = f"**Measured: {found}.** Expected was one of {self.listed()}: this PyTorch is not the tested one."
            return Result(self.name, "raised", text)
        if guess is ...:
            return Result(self.name, "not attempted", f"**Measured: {found}.** You have not predicted yet.")
        if guessed not in self.choices:
            return Result(self.name, "wrong", f"`{guessed}` is not among the answers: {self.listed()}.")
        if guessed == found:
            return Result(self.name, "right", f"**As you predicted: {found}.** {self.choices[found]}")
        text = f"**You predicted {guessed}, measured is {found}.** {self.choices[guessed]}"
        return Result(self.name, "wrong", text, guessed)

    def nearest(self, guess: Any) -> str:
        """Return the choice that a guess means: blanks, capitals and quotation marks do not count."""
        text = as_choice(guess)
        return {_bare(choice): choice for choice in self.choices}.get(_bare(text), text)

    def listed(self) -> str:
        """Return the choices as text."""
        return ", ".join(f"`{choice}`" for choice in self.choices)


@dataclass
class Chapter:
    """The exercises and predictions of one notebook, each an attribute: `lab.column_means`."""

    name: str
    exercises: list[Exercise]
    predictions: list[Prediction] = field(default_factory=list)

    def __post_init__(self) -> None:
        for part in self:
            part.chapter = self.name

    def __iter__(self) -> Iterator[Exercise | Prediction]:
        return iter([*self.exercises, *self.predictions])

    def __getitem__(self, name: str) -> Exercise | Prediction:
        """Return an exercise or prediction. Raises LabkitError with the nearest names."""
        parts = {part.name: part for part in self}
        if name not in parts:
            close = difflib.get_close_matches(name, parts, n=1)
            meant = f" Did you mean {close[0]!r}?" if close else f" It has {', '.join(parts)}."
            raise LabkitError(f"Chapter {self.name} has no exercise {name!r}.{meant}")
        return parts[name]

    def __getattr__(self, name: str) -> Exercise | Prediction:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except LabkitError as error:
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        return [part.name for part in self]

    def __repr__(self) -> str:
        named = ", ".join(exercise.name for exercise in self.exercises)
        return f"{self.name}: {len(self.exercises)} exercises ({named}) and {len(self.predictions)} predictions"


def _bare(choice: str) -> str:
    return re.sub(r"[\s'\"]", "", choice).lower()


def as_choice(value: Any) -> str:
    """Return a guess or a measured value as one of the choices: torch.float32 is "float32", (2, 3) is "(2, 3)"."""
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value)
