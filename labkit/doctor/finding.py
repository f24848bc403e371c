"""What the doctor says: findings, ordered with the root cause first and its consequences folded under it."""

import html
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from labkit.doctor.program import Program
from labkit.errors import LabkitError

SEVERITIES = ("fail", "warn", "note")


@dataclass
class Finding:
    """One fault: its label, what was measured, why it hurts, the fix as code, and how to see that it worked.

    severity: "fail" (proven by identity, order, equality or invariance), "warn" (statistical, and confirmed by a trial
    in which the fix did better), "note" (worth knowing). mend: does the fix to a Program in place, where it is
    mechanical. confirm: the finding only counts if a paired trial with `mend` does better, as `judge` sees it (see
    `labkit.doctor.trial.compare`). instead: fixes to try after it, each with its code or "" where that is the
    same. updates: how many a trial needs. weight: among findings of one severity the larger comes first. explains:
    labels of findings that are consequences of this one.
    """

    fault: str
    severity: str
    what: str
    why: str
    fix: str
    verify: str
    chapter: str
    mend: Callable[[Program], None] | None = None
    confirm: bool = False
    judge: Callable[[Program], float] | None = None
    instead: tuple[tuple[Callable[[Program], None], str], ...] = ()
    updates: int | None = None
    weight: float = 0.0
    explains: tuple[str, ...] = ()
    consequences: list["Finding"] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, with its consequences."""
        names = ("fault", "severity", "what", "why", "fix", "verify", "chapter")
        plain = {name: getattr(self, name) for name in names}
        return plain | {"mechanical": self.mend is not None, "consequences": [c.to_dict() for c in self.consequences]}

    def __str__(self) -> str:
        lines = [f"{self.severity.upper()}  {self.fault}: {self.what}", f"      why: {self.why}"]
        lines += [
            f"      {'fix: ' if number == 0 else '     '}{line}" for number, line in enumerate(self.fix.splitlines())
        ]
        lines += [f"      check: {self.verify}", f"      read: chapter {self.chapter}"]
        lines += [
            f"      follows from it: {consequence.fault}: {consequence.what}" for consequence in self.consequences
        ]
        return "\n".join(lines)


@dataclass
class Report:
    """All findings of an examination, root cause first; prints as text, shows as a table in a notebook.

    notes: what could not be examined, and why. seconds: how long it took. cure: does what `apply` promises.
    """

    findings: list[Finding]
    program: Program
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cure: Callable[["Report"], Any] | None = field(default=None, repr=False, compare=False)

    def apply(self) -> Any:
        """Mend what is mechanical on a copy, and return it with the proof, a `labkit.doctor.cure.Cure`.

        The examined pieces stay as they are; those of `.program` take their place. Raises LabkitError when no finding
        can be mended by itself, or the report was made by hand.
        """
        if self.cure is None:
            raise LabkitError("Only a report that examine(...) returned can be applied; this one was made by hand.")
        return self.cure(self)

    @property
    def failed(self) -> bool:
        """Whether there is a finding of severity "fail"."""
        return any(finding.severity == "fail" for finding in self.findings)

    def to_json(self) -> str:
        """Return the report as JSON text: findings, notes, seconds."""
        plain = {"findings": [f.to_dict() for f in self.findings], "notes": self.notes, "seconds": self.seconds}
        return json.dumps(plain, indent=2)

    def __str__(self) -> str:
        found = "\n\n".join(map(str, self.findings)) or "No fault found."
        return "\n".join([found, *(f"note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return "".join(map(_as_html, self.findings)) or "<p>No fault found.</p>"


class FaultError(LabkitError):
    """The doctor has proven a fault before the first update. `report` is all that it found."""

    def __init__(self, report: Report) -> None:
        self.report = report
        super().__init__(
            f"Nothing was trained, since the doctor found a fault.\n\n{report}\n\n"
            "Mend it and call fit again; fit(..., examine=False) trains all the same."
        )


def ordered(findings: list[Finding]) -> list[Finding]:
    """Return the findings with the root cause first; what a finding explains becomes one of its consequences."""
    findings = sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), -finding.weight))
    roots: list[Finding] = []
    for finding in findings:
        cause = next((root for root in roots if finding.fault in root.explains), None)
        same = next((root for root in roots if finding.fault == root.fault), None)
        (cause or same).consequences.append(finding) if cause or same else roots.append(finding)
    return roots


def _as_html(finding: Finding) -> str:
    parts = [
        f"<details open><summary><b>{finding.severity.upper()} {html.escape(finding.fault)}</b> "
        f"{html.escape(finding.what)}</summary>",
        f"<p>{html.escape(finding.why)}</p><pre>{html.escape(finding.fix)}</pre>",
        f"<p>Check: <code>{html.escape(finding.verify)}</code>. Read: chapter {html.escape(finding.chapter)}.</p>",
        "".join(f"<p>Follows from it: {html.escape(c.fault)}, {html.escape(c.what)}</p>" for c in finding.consequences),
        "</details>",
    ]
    return "".join(parts)
