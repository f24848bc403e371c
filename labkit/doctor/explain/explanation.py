"""What is said about an error: plain data, as text and as a page."""

import html
import textwrap
from dataclasses import dataclass
from typing import NamedTuple

from labkit.doctor.explain.kinds import KINDS


class Cause(NamedTuple):
    """A likely cause and its fix. why: a sentence. fix: code with the user's names."""

    why: str
    fix: str


class Reason(NamedTuple):
    """What a rule found. what: a sentence with names and numbers. broken: the rule that was broken, a sentence.

    causes: the likely ones, the likeliest first. variables: the user's names that it is about, the main one first.
    """

    what: str
    broken: str
    causes: tuple[Cause, ...]
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Explanation:
    """The explanation of an error, as plain data.

    row: the kind of error, a name of `kinds.KINDS`. error: its type. where: "train.py, line 12, in forward".
    code: the statement of the user's that failed. operands: what it uses, as (name, in words). layer: the layer that
    raised it, with its name in the model, or "". what, broken, causes, variables: see `Reason`.
    """

    row: str
    error: str
    where: str
    code: str
    operands: tuple[tuple[str, str], ...]
    layer: str
    what: str
    broken: str
    causes: tuple[Cause, ...]
    variables: tuple[str, ...]

    @property
    def variable(self) -> str:
        """The user's name for the value that it is most about, "" if there is none."""
        return self.variables[0] if self.variables else ""

    @property
    def fix(self) -> str:
        """The fix of the likeliest cause, as code."""
        return self.causes[0].fix

    @property
    def chapter(self) -> str:
        """The chapter of the course that teaches it, such as "04_models"."""
        return KINDS[self.row].chapter

    def text(self, width: int = 100) -> str:
        """Return it as lines to read under a traceback."""
        lines = [f"{self.error}: {KINDS[self.row].title}", ""]
        if self.where:
            lines += [f"  {self.where}", *(f"      {line}" for line in self.code.splitlines()), ""]
        rows = [*self.operands, *([("layer", self.layer)] if self.layer else [])]
        if rows:
            column = min(max(len(name) for name, _ in rows), 30)
            lines += [*(f"  {name:<{column}}  {words}" for name, words in rows), ""]
        lines += [*textwrap.wrap(self.what, width), *textwrap.wrap(self.broken, width)]
        for number, cause in enumerate(self.causes):
            lines += ["", *textwrap.wrap(self._heading(number) + cause.why, width)]
            lines += [f"    {line}" for line in cause.fix.splitlines()]
        return "\n".join([*lines, "", f"Chapter {self.chapter} is about this."])

    def _heading(self, number: int) -> str:
        if len(self.causes) == 1:
            return "Likely cause: "
        return f"Likely cause {number + 1}: "

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        rows = [*self.operands, *([("layer", self.layer)] if self.layer else [])]
        table = "".join(f"<tr><td><code>{_safe(name)}</code></td><td>{_safe(words)}</td></tr>" for name, words in rows)
        causes = "".join(
            f"<p><b>{self._heading(number)}</b>{_safe(cause.why)}</p><pre>{_safe(cause.fix)}</pre>"
            for number, cause in enumerate(self.causes)
        )
        place = f"<p>{_safe(self.where)}</p><pre>{_safe(self.code)}</pre>" if self.where else ""
        return (
            f"<p><b>{_safe(self.error)}: {_safe(KINDS[self.row].title)}</b></p>{place}"
            f"<table>{table}</table><p>{_safe(self.what)} {_safe(self.broken)}</p>{causes}"
            f"<p>Chapter <code>{self.chapter}</code> is about this.</p>"
        )


def _safe(text: str) -> str:
    return html.escape(text)
