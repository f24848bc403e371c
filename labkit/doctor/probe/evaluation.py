"""The probe of the evaluation."""

from dataclasses import dataclass

from labkit.doctor.program import Program
from labkit.doctor.recording import Recording


@dataclass
class EvaluationEvidence:
    """What was seen of the evaluation."""


def look(program: Program, recording: Recording) -> EvaluationEvidence:
    """Look at the evaluation: take copies of the program; the recording has some updates and an evaluation of one."""
    return EvaluationEvidence()
