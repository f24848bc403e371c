"""Apply the fixes that are mechanical, on a copy, and prove them: the findings are gone, and training is better."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean

from labkit.doctor.finding import Finding, Report
from labkit.doctor.program import Program
from labkit.doctor.trial import Comparison, compare, training_loss
from labkit.doctor.undisturbed import undisturbed
from labkit.errors import LabkitError
from labkit.randomness import frozen_randomness

MOST_FIXES = 4  # one after the other; a program with more faults is better read than mended


@dataclass(frozen=True)
class Cure:
    """A mended copy of a program, and the proof.

    program: the mended pieces, not trained any further than the original's were. applied: the findings whose fixes it
    has. left: what an examination of the mended program says. comparison: copies of the program before and after,
    trained beside each other. learns: whether the mended ones became better than they were untrained.
    """

    program: Program
    applied: list[Finding]
    left: Report
    comparison: Comparison
    learns: bool

    @property
    def proven(self) -> bool:
        """Whether every finding that was mended is gone, nothing else fails, and the mended program learns."""
        gone = {finding.fault for finding in self.applied}.isdisjoint(_faults(self.left))
        return gone and not self.left.failed and self.learns

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
    if not any(map(_fixes, report.findings)):
        found = ", ".join(finding.fault for finding in report.findings)
        raise LabkitError(
            f"Nothing here can be mended by itself ({found}): the code under `fix` is yours to write."
            if found
            else "There is nothing to mend: the doctor found no fault."
        )
    applied: list[Finding] = []
    program, left = report.program, report
    while len(applied) < MOST_FIXES and (finding := _next(left, applied)) is not None:
        tried = _try(program, finding, examine)
        if tried is None:
            break
        finding, program, left = tried
        applied.append(finding)
    if not applied:
        raise LabkitError(f"No fix of {report.findings[0].fault} could be applied here: the code is yours to write.")
    comparison = _compared(report.program, applied)
    return Cure(program, applied, left, comparison, _learns(program, applied, comparison))


def _try(program: Program, finding: Finding, examine: Callable[..., Report]) -> tuple[Finding, Program, Report] | None:
    """Return a finding with the fix that mends it, the mended program and what is left; None if no fix can be applied.

    That is the first fix under which the finding is gone and training is better. Where the finding came from a trial,
    its fixes differ in degree only, a learning rate of a tenth or a hundredth: then it is the best of them.
    """
    results, fixes = [], _fixes(finding)
    for mend, code in fixes:
        chosen = replace(finding, mend=mend, fix=code or finding.fix)
        try:
            copy = mended(program, chosen)
            left = examine(**copy.pieces())
        except Exception:  # a fix that this program is not made for
            continue
        gone = finding.fault not in _faults(left)
        reached = -float("inf")
        if gone and len(fixes) > 1:
            comparison = _compared(program, [chosen])
            reached = fmean(comparison.after or [reached])
            if comparison.helps and not finding.confirm:
                return chosen, copy, left
        results.append(((gone, -len(left.findings), reached), (chosen, copy, left)))
    return max(results, key=lambda result: result[0])[1] if results else None


def _compared(program: Program, applied: list[Finding]) -> Comparison:
    def mend(trial: Program) -> None:
        for finding in applied:
            finding.mend(trial)

    with undisturbed(program):
        return compare(program, mend, applied[0].judge)


def _learns(program: Program, applied: list[Finding], comparison: Comparison) -> bool:
    """Say whether the mended copies ended better than the mended program begins, with every seed."""
    with undisturbed(program), frozen_randomness(0):
        try:
            untrained = float((applied[0].judge or training_loss)(program.copy()))
        except Exception:  # whatever the user's pieces raise
            return False
    return bool(comparison.after) and min(comparison.after) > untrained


def mended(program: Program, finding: Finding) -> Program:
    """Return a copy of a program with the fix of one finding."""
    with undisturbed(program):
        copy = program.copy()
        finding.mend(copy)
    return copy


def _fixes(finding: Finding) -> list[tuple[Callable[[Program], None], str]]:
    """Return the fixes of a finding, each with its code, and those of consequences that are the same fault."""
    same = [finding, *(other for other in finding.consequences if other.fault == finding.fault)]
    return [fix for one in same if one.mend for fix in ((one.mend, one.fix), *one.instead)]


def _faults(report: Report) -> set[str]:
    return {finding.fault for finding in report.findings}


def _next(report: Report, applied: list[Finding]) -> Finding | None:
    """Return the first finding that has a fix which was not tried yet."""
    tried = {finding.fault for finding in applied}
    return next((finding for finding in report.findings if _fixes(finding) and finding.fault not in tried), None)
