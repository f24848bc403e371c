import pytest
import torch

from labkit.doctor.recording import record, record_evaluation
from tests.doctor.small import program


def test_an_update_as_it_was():
    healthy = program()
    recording = record(healthy, updates=12, seconds=60)
    assert len(recording.updates) == 12 and recording.error is None  # ten batches, and two of the next epoch
    update = recording.updates[3]
    assert [mark.kind for mark in update.marks] == ["backward", "step", "stepped", "end"]
    assert update.learning_rates == [0.1] and set(update.gradients) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert not update.marks[0].nonzero and len(update.marks[1].nonzero) == 4
    assert update.losses[0].value.item() == pytest.approx(update.marks[0].loss)
    assert recording.live == [0] * 12
    record_evaluation(recording, recording.program.val_loader)
    assert recording.scores[0] == recording.scores[1] > 0.8
    assert not any(call.training[""] for call in recording.evaluation_forwards)


def test_the_movement_is_that_of_the_rule():
    """Plain SGD moves a weight by learning rate times gradient."""
    healthy = program()
    healthy.optimizer = torch.optim.SGD(healthy.model.parameters(), lr=0.1)
    size = healthy.model[0].weight.norm().item()
    update = record(healthy, updates=1).updates[0]
    assert update.moved["0.weight"] == pytest.approx(0.1 * update.gradients["0.weight"] / size, rel=1e-4)


def test_graphs_that_are_kept_are_counted():
    kept = []

    def train_step(model, batch, loss_fn, optimizer):
        loss = loss_fn(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(loss)

    recording = record(program(train_step=train_step), updates=4, seconds=60)
    assert recording.live == [1, 2, 3, 4]


def test_an_exception_ends_it_and_is_kept():
    def train_step(model, batch, loss_fn, optimizer):
        raise RuntimeError("no")

    recording = record(program(train_step=train_step))
    assert len(recording.updates) == 1 and str(recording.error) == "no"
