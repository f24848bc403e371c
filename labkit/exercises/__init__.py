"""Exercises that understand wrong answers, predictions, claims, and the learner's progress.

`lab = exercises.load("01_tensors")` gives those of a chapter; `lab.distances.check(distances)` checks an answer.
"""

import importlib
import pkgutil

from labkit.errors import LabkitError
from labkit.exercises import chapters
from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.exercise import Chapter, Exercise, Prediction
from labkit.exercises.results import Result

__all__ = ["Chapter", "Exercise", "Misconception", "Prediction", "Result", "Tolerance", "load", "names"]


def load(name: str) -> Chapter:
    """Return the exercises of a chapter by its name ("01_tensors") or number ("01").

    Raises LabkitError that lists the chapters with exercises.
    """
    for chapter in _all_chapters():
        if name in (chapter.name, chapter.name.split("_")[0]):
            return chapter
    raise LabkitError(f"There are no exercises for {name!r}. Chapters with exercises: {', '.join(names())}.")


def names() -> list[str]:
    """Return the names of the chapters that have exercises, in order."""
    return sorted(chapter.name for chapter in _all_chapters())


def _all_chapters() -> list[Chapter]:
    names = [module.name for module in pkgutil.iter_modules(chapters.__path__)]
    modules = [importlib.import_module(f"{chapters.__name__}.{name}") for name in names]
    return [module.CHAPTER for module in modules if hasattr(module, "CHAPTER")]  # long chapters are in several modules
