"""A case of the clinic: a short training script of which some lines were replaced by faulty ones."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labkit.errors import LabkitError

Swap = tuple[str, str]  # lines as they stand, and the lines that take their place
Measure = Callable[[dict[str, Any]], float]


@dataclass(frozen=True)
class Script:
    """A sound training script, and how to see what it has really learned.

    source: Python that builds `model`, `loss_fn`, `optimizer`, `train_loader`, `val_loader`, `train_step` and
    `evaluate`, then trains in a loop that begins with `for epoch in`. measure: a trained script's names -> a number,
    larger is better. score: what the script's `evaluate` returns. chance: its value for one who guesses.
    """

    name: str
    source: str
    measure: Measure
    score: str
    chance: float


@dataclass(frozen=True)
class Case:
    """One fault in one script. What is shown is what runs: `code` with the fault, `cured` without.

    name: of the patient; it says nothing about the fault. level: 1 (the curves nearly say it) to 3 (they do not).
    label: the fault, a word of `labkit.doctor.clinic.words.WORDS`. chapter: where its mechanism is taught.
    story: what a colleague reports. explanation: what happens, and why it looks as it does. cure: one sentence.
    fault: (sound lines, faulty lines). setting: changes of the script that both versions share.
    gap: by how much, at least, the cured run measures better. measure: what is measured; default: as the script says.
    silent: the program's own score hides the damage. also: labels that are right as well.
    """

    name: str
    level: int
    label: str
    chapter: str
    script: Script
    story: str
    explanation: str
    cure: str
    fault: tuple[Swap, ...]
    setting: tuple[Swap, ...] = ()
    gap: float = 0.05
    measure: Measure | None = None
    silent: bool = False
    also: tuple[str, ...] = ()

    @property
    def cured(self) -> str:
        """The script without the fault."""
        return swapped(self.script.source, self.setting)

    @property
    def code(self) -> str:
        """The script with the fault, as the learner sees it."""
        return swapped(self.cured, self.fault)

    def source(self, cured: bool = False) -> str:
        """Return the script that runs."""
        return self.cured if cured else self.code

    def diff(self) -> str:
        """Return the cure as code: the lines to take out begin with -, those to put in with +."""
        lines = difflib.unified_diff(self.code.splitlines(), self.cured.splitlines(), lineterm="", n=1)
        return "\n".join(line for line in list(lines)[2:] if not line.startswith("@@"))

    def measured(self, names: dict[str, Any]) -> float:
        """Return what a trained script is really worth."""
        return float((self.measure or self.script.measure)(names))


def swapped(source: str, swaps: tuple[Swap, ...]) -> str:
    """Replace lines. Raises LabkitError for lines that are not there, or there more than once."""
    for old, new in swaps:
        if source.count(old) != 1:
            raise LabkitError(f"These lines are in the script {source.count(old)} times, not once: {old!r}.")
        source = source.replace(old, new)
    return source
