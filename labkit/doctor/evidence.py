"""All that was seen of a program: plain data, from which the rules draw their conclusions."""

from dataclasses import dataclass, field, fields

from labkit.doctor.probe.data import DataEvidence
from labkit.doctor.probe.evaluation import EvaluationEvidence
from labkit.doctor.probe.model import ModelEvidence
from labkit.doctor.probe.objective import ObjectiveEvidence
from labkit.doctor.probe.updates import UpdatesEvidence


@dataclass
class Evidence:
    """What each probe saw. error: the exception that ended the updates, or None. notes: what could not be examined."""

    data: DataEvidence
    model: ModelEvidence
    objective: ObjectiveEvidence
    updates: UpdatesEvidence
    evaluation: EvaluationEvidence
    error: Exception | None = None
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(f"{piece.name}: {getattr(self, piece.name)}" for piece in fields(self))
