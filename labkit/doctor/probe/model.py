"""The probe of the model: where gradients go, how it starts, what its answers depend on, what its layers do."""

from dataclasses import dataclass, field

from labkit.doctor.probe.model_answers import AnswersEvidence, look_at_answers
from labkit.doctor.probe.model_graph import GraphEvidence, look_at_graph
from labkit.doctor.probe.model_layers import LayersEvidence, look_at_layers
from labkit.doctor.probe.model_layout import LayoutEvidence, look_at_layout
from labkit.doctor.probe.model_start import StartEvidence, look_at_start
from labkit.doctor.program import Program
from labkit.doctor.records import Recording


@dataclass
class ModelEvidence:
    """What was seen of the model, by topic."""

    graph: GraphEvidence = field(default_factory=GraphEvidence)
    start: StartEvidence = field(default_factory=StartEvidence)
    answers: AnswersEvidence = field(default_factory=AnswersEvidence)
    layers: LayersEvidence = field(default_factory=LayersEvidence)
    layout: LayoutEvidence = field(default_factory=LayoutEvidence)


def look(program: Program, recording: Recording) -> ModelEvidence:
    """Look at the model: all experiments are made on copies."""
    return ModelEvidence(
        look_at_graph(program, recording),
        look_at_start(program, recording),
        look_at_answers(program, recording),
        look_at_layers(program, recording),
        look_at_layout(program, recording),
    )
