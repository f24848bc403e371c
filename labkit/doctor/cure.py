"""Apply the fixes that are mechanical, on a copy, and prove them: the findings are gone, and training is better."""

from collections.abc import Callable
from dataclasses import dataclass

from labkit.doctor.finding import Finding, Report
from labkit.doctor.program import Program
from labkit.doctor.trial import Comparison, compare
from labkit.doctor.undisturbed import undisturbed
from labkit.errors import LabkitError

MOST_FIXES = 4  # one after the other; a program with more faults is better read than mended


@dataclass(frozen=True)
class Cure:
    """A mended copy of a program, and the proof.

    program: the mended pieces, not trained any further than the original's were. applied: the findings whose fixes it
    has. left: what an examination of the mended program says. comparison: copies of the program before and after,
    trained beside each other.
    """

    program: Program
    applied: list[Finding]
    left: Report
    comparison: Comparison

    @property
    def proven(self) -> bool:
        """Whether every finding that was mended is gone, and nothing new has failed."""
        gone = {finding.fault for finding in self.applied}.isdisjoint(finding.fault for finding in self.left.findings)
        return gone and not self.left.failed

    def __str__(self) -> str:
        lines = [f"mended {finding.fault}: {finding.fix.splitlines()[0]}" for finding in self.applied]
        lines += [f"trained beside each other: {self.comparison}", "examined again:", str(self.left)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


def cure(report: Report, examine: Callable[..., Report]) -> Cure:
    """Mend a copy of the examined program, root cause first, until no mechanical fix is left.

    Raises LabkitError, in one sentence, when no finding has a mechanical fix.
    """
    if not any(finding.mend for finding in report.findings):
        found = ", ".join(finding.fault for finding in report.findings)
        raise LabkitError(
            f"Nothing here can be mended by itself ({found}): the code under `fix` is yours to write."
            if found
            else "There is nothing to mend: the doctor found no fault."
        )
    applied: list[Finding] = []
    program, left = report.program, report
    while len(applied) < MOST_FIXES and (finding := _next(left, applied)) is not None:
        program = mended(program, finding)
        applied.append(finding)
        left = examine(**program.pieces())

    def mend(trial: Program) -> None:
        for finding in applied:
            finding.mend(trial)

    with undisturbed(report.program):
        comparison = compare(report.program, mend, applied[0].judge)
    return Cure(program, applied, left, comparison)


def mended(program: Program, finding: Finding) -> Program:
    """Return a copy of a program with the fix of one finding."""
    with undisturbed(program):
        copy = program.copy()
        finding.mend(copy)
    return copy


def _next(report: Report, applied: list[Finding]) -> Finding | None:
    """Return the first finding that has a fix which was not tried yet."""
    tried = {finding.fault for finding in applied}
    return next((finding for finding in report.findings if finding.mend and finding.fault not in tried), None)
