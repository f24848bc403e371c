"""What an exercise declares: its texts, its inputs, and the wrong answers that people really give."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from labkit.exercises import families
from labkit.exercises.differences import Tolerance


@dataclass(frozen=True)
class Misconception:
    """A wrong answer that people really give.

    name: the wrong idea in a few words. answer: code of the same kind as a right answer. explanation: Markdown that
    tells the learner what this idea does and where it leads.
    """

    name: str
    answer: Any
    explanation: str


@dataclass
class Task:
    """A task with a check that understands wrong answers.

    prompt: Markdown. stub, solved: the text of the learner's cell, with `...` where the answer goes, and answered;
    run as a cell (torch, np, nn and F are there) it defines `name`. hints: from a nudge to nearly the answer.
    cases: draws the inputs of every case from a generator on the CPU; a value has the one case `()`.
    run: how an answer is run, see `families`. tolerance: how close is equal, and whether the graph counts.
    note: what a teacher may add. praise: one sentence after a right answer.
    """

    name: str
    prompt: str
    stub: str
    solved: str
    hints: tuple[str, ...]
    cases: Callable[[torch.Generator], list[tuple]]
    misconceptions: tuple[Misconception, ...] = ()
    run: Callable[..., Any] = families.call
    tolerance: Tolerance = field(default_factory=Tolerance)
    praise: str = ""
    note: str = ""
    points: int = 1

    def reference(self) -> Any:
        """Run the solution as a cell of its own and return what it defines."""
        return defined_by(self.solved, self.name)


def defined_by(source: str, name: str) -> Any:
    """Run source text as a cell of its own, with torch, np, nn and F at hand, and return what it defines as `name`."""
    namespace = {"torch": torch, "np": np, "nn": nn, "F": functional, "__name__": "exercise"}
    exec(compile(source, f"<{name}>", "exec"), namespace)
    return namespace[name]
