"""The probe of the updates."""

from dataclasses import dataclass

from labkit.doctor.program import Program
from labkit.doctor.recording import Recording


@dataclass
class UpdatesEvidence:
    """What was seen of the updates."""


def look(program: Program, recording: Recording) -> UpdatesEvidence:
    """Look at the updates: take copies of the program; the recording has some updates and an evaluation of one."""
    return UpdatesEvidence()
