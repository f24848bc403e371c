"""The probe of the model."""

from dataclasses import dataclass

from labkit.doctor.program import Program
from labkit.doctor.recording import Recording


@dataclass
class ModelEvidence:
    """What was seen of the model."""


def look(program: Program, recording: Recording) -> ModelEvidence:
    """Look at the model: take copies of the program; the recording has some updates and an evaluation of one."""
    return ModelEvidence()
