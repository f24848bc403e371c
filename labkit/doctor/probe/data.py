"""The probe of the data."""

from dataclasses import dataclass

from labkit.doctor.program import Program
from labkit.doctor.recording import Recording


@dataclass
class DataEvidence:
    """What was seen of the data."""


def look(program: Program, recording: Recording) -> DataEvidence:
    """Look at the data: take copies of the program; the recording has some updates and an evaluation of one."""
    return DataEvidence()
