"""Claims about PyTorch that are decided by a measurement, not by whoever says them loudest.

The ledger holds sentences that people say, with a verdict. A claim that is taught also has an explanation for each
choice a learner can make, and a demonstration: code that takes the sentence apart, measures every part of it on this
computer, and so yields a verdict of its own. The tests compare the two; a PyTorch release that changes a fact turns
them red.
"""

import dataclasses
import difflib
import importlib
import json
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from labkit.errors import LabkitError
from labkit.exercises import ledger
from labkit.exercises.surroundings import undisturbed

#: What a learner can say about a claim, and what each verdict of the ledger comes to. No run decides the last one.
CHOICES = ("true", "false", "it depends")
CHOICE_OF = {
    "true": "true",
    "false": "false",
    "outdated": "false",
    "partly": "it depends",
    "depends": "it depends",
    "unverifiable-here": None,
}

_VERDICT_TEXTS = {"outdated": "false; it was right once, and is not any more", "partly": "it depends; a part holds"}
_CLAIMS_OF_A_CELL = re.compile(r"^# %%.*\bclaims=(\[[^\]]*\])", re.MULTILINE)


@dataclass(frozen=True)
class Evidence:
    """What a demonstration measured: for each part of the statement, whether it holds on this computer.

    Raises LabkitError when there is no part, or a part is something else than True or False.
    """

    parts: dict[str, bool]

    def __post_init__(self) -> None:
        if not self.parts:
            raise LabkitError("A demonstration must measure at least one part of its claim; this one returned none.")
        for sentence, holds in self.parts.items():
            if not isinstance(holds, bool):
                raise LabkitError(f"{sentence!r} must be measured as True or False; it is {type(holds).__name__}.")

    @property
    def choice(self) -> str:
        """The verdict of the measurements alone: every part holds, none does, or it depends."""
        holding = sum(self.parts.values())
        return "true" if holding == len(self.parts) else "it depends" if holding else "false"

    def __str__(self) -> str:
        lines = [f"  {'yes' if holds else 'no ':<3}  {sentence}" for sentence, holds in self.parts.items()]
        return "\n".join(["Measured on this computer:", *lines, f"So: {self.choice}."])

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        lines = [f"- **{'yes' if holds else 'no'}**: {sentence}" for sentence, holds in self.parts.items()]
        return "\n".join(["Measured on this computer:", "", *lines, "", f"So: **{self.choice}**."])


@dataclass(frozen=True)
class Claim:
    """One row of the ledger, together with what the course declares about it.

    statement: the sentence people say. right_statement: what to say instead, or what to add.
    explanations: choice -> what to tell the learner who chose it; empty while no chapter teaches the claim.
    measure: the demonstration. unmeasured: why nothing can be run, for a claim that the course judges by reasons.
    """

    id: str
    topic: str
    verdict: str
    statement: str
    right_statement: str
    explanations: dict[str, str] = field(default_factory=dict)
    measure: Callable[[], dict[str, bool]] | None = None
    unmeasured: str = ""

    @property
    def choice(self) -> str | None:
        """The right one of the three choices; None where nothing can be decided on a learner's computer."""
        return CHOICE_OF[self.verdict]

    @property
    def is_checkable(self) -> bool:
        """Tell whether a measurement can decide the claim."""
        return self.choice is not None and not self.unmeasured

    @property
    def verdict_text(self) -> str:
        """The verdict as a learner reads it, such as "false; it was right once, and is not any more"."""
        return _VERDICT_TEXTS.get(self.verdict, self.choice or "no run on this computer can decide it")

    def demonstrate(self) -> Evidence:
        """Measure the claim here and now, in a second or two, and leave no trace in torch's global state.

        Raises LabkitError when the claim has no demonstration, or when the demonstration itself fails.
        """
        if self.measure is None:
            undecided = (
                "No run on this computer can decide it." if self.choice is None else "No chapter teaches it yet."
            )
            why = self.unmeasured or undecided
            raise LabkitError(f"{self.id} has no demonstration. {why}")
        try:
            with undisturbed():  # what is about a warning catches it itself; others shall not frighten the learner
                return Evidence(self.measure())
        except LabkitError:
            raise
        except Exception as error:
            raise LabkitError(
                f"The demonstration of {self.id} stopped with {type(error).__name__}: {error}. It decides nothing here."
            ) from error


_declared: dict[str, dict] = {}


def claim(claim_id: str, *, true: str, false: str, depends: str) -> Callable[[Callable], Callable]:
    """Declare that the function below measures the claim, and what to say to each choice (Markdown).

    The function takes nothing and returns parts of the statement as sentences, each with whether it was measured to
    hold: all True makes the claim true, all False makes it false, and anything between makes it depend. It takes
    under two seconds on one CPU core, and needs no network, no GPU and no timing that a busy machine could upset.
    """

    def declare(measure: Callable[[], dict[str, bool]]) -> Callable[[], dict[str, bool]]:
        _declare(claim_id, true, false, depends, measure=measure)
        return measure

    return declare


def judged(claim_id: str, why: str, *, true: str, false: str, depends: str) -> None:
    """Declare a claim that no run bears on, such as advice: `why` says so, the rest is as for `claim`."""
    _declare(claim_id, true, false, depends, unmeasured=why)


def _declare(claim_id: str, true: str, false: str, depends: str, **rest: object) -> None:
    if claim_id in _declared:
        raise LabkitError(f"{claim_id} is declared twice among the demonstrations; keep one of them.")
    _declared[claim_id] = {"explanations": dict(zip(CHOICES, (true, false, depends), strict=True)), **rest}


def find(claim_id: str) -> Claim:
    """Return the claim with this id, such as "C041". Raises LabkitError for an id that the ledger does not have."""
    by_id = {known.id: known for known in all_claims()}
    wanted = str(claim_id).upper()
    if wanted not in by_id:
        close = difflib.get_close_matches(wanted, by_id, n=3)
        rest = f"close to it: {', '.join(close)}." if close else f"its ids go from {min(by_id)} to {max(by_id)}."
        raise LabkitError(f"The ledger has no claim {claim_id!r}; {rest}")
    return by_id[wanted]


def all_claims(topic: str = "") -> list[Claim]:
    """Return the claims in the ledger's order; with `topic`, those whose topic contains this text.

    Raises LabkitError for a text that no topic contains.
    """
    for module in pkgutil.iter_modules(ledger.__path__, f"{ledger.__name__}."):
        importlib.import_module(module.name)
    claims = [Claim(**row) for row in ledger.rows() if topic.lower() in row["topic"].lower()]
    if not claims:
        topics = {row["topic"].lower(): row["topic"] for row in ledger.rows()}
        close = [topics[each] for each in difflib.get_close_matches(topic.lower(), topics, n=3)]
        rest = f"close to it: {'; '.join(close)}." if close else f"there are: {'; '.join(topics.values())}."
        raise LabkitError(f"No topic contains {topic!r}; {rest}")
    return [dataclasses.replace(known, **_declared.get(known.id, {})) for known in claims]


def taught(root: Path | None = None) -> set[str]:
    """Return the ids that have a demonstration, and those that a cell of a chapter under `root` carries.

    Raises LabkitError when a cell carries an id that the ledger does not have.
    """
    known = {known.id: known for known in all_claims()}
    carried = set()
    for source in sorted((root / "notebooks" / "source").glob("*.py")) if root else []:
        for ids in _CLAIMS_OF_A_CELL.findall(source.read_text(encoding="utf-8")):
            unknown = set(json.loads(ids)) - set(known)
            if unknown:
                raise LabkitError(
                    f"{source.name} has a cell with the claim {min(unknown)}, which is not in the ledger."
                )
            carried |= set(json.loads(ids))
    return carried | {known_id for known_id, known in known.items() if known.measure}


def coverage(root: Path | None = None, topic: str = "") -> dict:
    """Count what the course teaches of the ledger, or of a topic: checkable, taught (numbers), missing, judged (ids).

    checkable: claims that a measurement can decide. taught: those of them with a demonstration or in a cell of a
    chapter. judged: claims that no run bears on, explained all the same; they are not among the checkable.
    """
    known_as_taught = taught(root)
    claims = all_claims(topic)
    checkable = [known.id for known in claims if known.is_checkable]
    missing = [claim_id for claim_id in checkable if claim_id not in known_as_taught]
    return {
        "checkable": len(checkable),
        "taught": len(checkable) - len(missing),
        "missing": missing,
        "judged": [known.id for known in claims if known.unmeasured],
    }
