"""The probe of the objective."""

from dataclasses import dataclass

from labkit.doctor.program import Program
from labkit.doctor.recording import Recording


@dataclass
class ObjectiveEvidence:
    """What was seen of the objective."""

    last_batch: int | None = None
    last_batch_error: Exception | None = None


def look(program: Program, recording: Recording) -> ObjectiveEvidence:
    """Look at the objective: take copies of the program; the recording has some updates and an evaluation of one."""
    return ObjectiveEvidence()
