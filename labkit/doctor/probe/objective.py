"""What is asked of the model: what the loss does, which outputs it gets, where the numbers break, what is predicted."""

import contextlib
from dataclasses import dataclass, field

from labkit import randomness
from labkit.doctor.probe.objective_classes import ClassesEvidence, look_at_classes
from labkit.doctor.probe.objective_loss import LossEvidence, View, look_at_loss
from labkit.doctor.probe.objective_numeric import NumericEvidence, look_at_numbers
from labkit.doctor.probe.objective_outputs import OutputsEvidence, look_at_outputs
from labkit.doctor.probe.objective_sequence import SequenceEvidence, look_at_sequences
from labkit.doctor.program import Program
from labkit.doctor.records import Recording


@dataclass
class ObjectiveEvidence:
    """What was seen of the objective.

    loss: of the first call of loss_fn, None if there was none that could be repeated. outputs, numbers, sequences,
    classes: see there. weight_of_batch: what backward began from, divided by what loss_fn gave; batch: samples of that
    update, the same in all of them or None. whole_targets: whether the loader gives targets of whole numbers.
    as_loaded: whether the loss gets the targets in the shape in which the loader gives them.
    """

    loss: LossEvidence | None = None
    outputs: OutputsEvidence = field(default_factory=OutputsEvidence)
    numbers: NumericEvidence = field(default_factory=NumericEvidence)
    sequences: SequenceEvidence = field(default_factory=SequenceEvidence)
    classes: ClassesEvidence = field(default_factory=ClassesEvidence)
    weight_of_batch: float | None = None
    batch: int | None = None
    whole_targets: bool = False
    as_loaded: bool = False
    own_step: bool = False

    @property
    def last_batch(self) -> int | None:
        """How many samples the last batch of an epoch has, where it is smaller."""
        return self.numbers.last_batch

    @property
    def last_batch_error(self) -> Exception | None:
        """What an update with as many samples as the last batch raises."""
        return self.numbers.last_batch_error


def look(program: Program, recording: Recording) -> ObjectiveEvidence:
    """Look at the objective: loss_fn is called again, and updates of copies are made with other outputs."""
    seen = ObjectiveEvidence(own_step=program.train_step is not None)
    if not recording.updates:
        return seen
    seen.numbers = look_at_numbers(program, recording)
    if recording.error is not None or not recording.updates[0].losses or not recording.updates[0].forwards:
        return seen
    with randomness.frozen_randomness(0):
        with contextlib.suppress(ValueError):
            view = View(program.copy().loss_fn, recording.updates[0].losses[0])
            seen.loss = look_at_loss(view)
            seen.sequences = look_at_sequences(program, recording, view)
        seen.outputs = look_at_outputs(program, recording)
        seen.classes = look_at_classes(program, recording)
    with contextlib.suppress(Exception):  # batches of another form
        _weight(recording, seen)
    return seen


def _weight(recording: Recording, seen: ObjectiveEvidence) -> None:
    """Compare what backward began from with what loss_fn gave."""
    targets = recording.updates[0].batch[1]
    seen.whole_targets = not targets.is_floating_point()
    seen.as_loaded = seen.loss is not None and seen.loss.targets == tuple(targets.shape)
    update = recording.updates[0]
    seen.batch = len(targets)
    backward = [mark.loss for mark in update.marks if mark.kind == "backward"]
    if len(backward) == 1 and len(update.losses) == 1 and backward[0] is not None:
        value = float(update.losses[0].value)
        seen.weight_of_batch = backward[0] / value if value else None
