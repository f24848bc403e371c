"""What TensorBoard reads is what the history says, each epoch once, whatever happened in between."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from labkit.runs.record import Record
from labkit.training import resume
from tests.runs.small_runs import small_run
from tests.training.helpers import small_loaders, small_model

CURVES = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "learning_rate", "gradient_norm")


def row(epoch: int) -> dict:
    return {"epoch": epoch, "train_loss": 1 / epoch, "val_loss": None, "seconds": 10.0}


def drawn(folder: Path, name: str = "train_loss") -> list[tuple[int, float]]:
    """Return (epoch, value) of each point of a curve, as TensorBoard reads them."""
    events = EventAccumulator(str(folder))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


def made(folder: Path) -> Record:
    return Record.create({"run_dir": str(folder), "name": "mine"}, {})


def test_the_curves_are_the_history(tmp_path):
    run = small_run(tmp_path, "mine")
    for name in CURVES:
        assert drawn(run.folder, name) == [(one["epoch"], pytest.approx(one[name])) for one in run.history], name


def test_a_point_is_on_the_disk_at_once(tmp_path):
    record = made(tmp_path)
    for epoch in (1, 2):
        record.add_epoch(row(epoch))
        assert [point[0] for point in drawn(record.folder)] == list(range(1, epoch + 1))
    record.finish({})


@pytest.mark.parametrize("jump", [0.0, -3600.0], ids=["steady clock", "clock set back"])
def test_a_run_that_goes_on_draws_no_epoch_twice(tmp_path, monkeypatch, jump):
    record = made(tmp_path)
    for epoch in (1, 2, 3):
        record.add_epoch(row(epoch))
    record._close()  # as if it had been killed before the checkpoint of epoch 3
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    record = Record.reopen(record.folder, [row(1), row(2)])
    for epoch in (3, 4):
        record.add_epoch(row(epoch))
    record.finish({})
    assert drawn(record.folder) == [(epoch, pytest.approx(1 / epoch)) for epoch in (1, 2, 3, 4)]


def test_a_tensorboard_that_watches_the_folder_draws_no_epoch_twice(tmp_path):
    record = made(tmp_path)
    for epoch in (1, 2, 3):
        record.add_epoch(row(epoch))
    watching = EventAccumulator(str(record.folder))
    watching.Reload()
    record._close()
    record = Record.reopen(record.folder, [row(1)])
    for epoch in (2, 3, 4):
        record.add_epoch(row(epoch))
    record.finish({})
    watching.Reload()
    assert [event.step for event in watching.Scalars("train_loss")] == [1, 2, 3, 4]


def test_an_event_file_that_was_cut_costs_its_last_point_only(tmp_path):
    record = made(tmp_path)
    for epoch in (1, 2):
        record.add_epoch(row(epoch))
    record._close()
    (events,) = record.folder.glob("events*")
    events.write_bytes(events.read_bytes()[:-7])
    record = Record.reopen(record.folder, [row(1), row(2)])
    record.add_epoch(row(3))
    record.finish({})
    assert [point[0] for point in drawn(record.folder)] == [1, 3]


def test_a_real_run_that_was_cut_and_resumed(tmp_path):
    whole = small_run(tmp_path, "whole", epochs=3)
    cut = tmp_path / "cut"
    shutil.copytree(whole.folder, cut)
    (cut / "last.previous.pt").replace(cut / "last.pt")  # the checkpoint of epoch 2; events and history know 3
    resumed = resume(small_model(), *small_loaders(), cut)
    assert len(resumed.history) == 3
    for name in CURVES:
        assert drawn(cut, name) == drawn(whole.folder, name)


def test_tensorboard_is_loaded_only_where_a_run_is_recorded():
    program = "import sys, labkit.training\nprint([name for name in sys.modules if 'tensorboard' in name])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
