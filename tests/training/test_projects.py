import dataclasses
import json
import signal

import pytest
import torch

from labkit import data
from labkit.errors import CheckpointError, DataError
from labkit.runs import checkpoint
from labkit.training import Config, evaluate, loaders, project, resume_project
from tests.training.helpers import assert_identical

QUICK = Config(epochs=2, model="lenet", device="cpu", log_every=5)


def test_a_project_leaves_a_complete_record(tmp_path):
    finished = project(QUICK.replace(run_dir=str(tmp_path)))
    folder = finished.run.folder
    names = {file.name for file in folder.iterdir()}
    assert {"run.json", "history.jsonl", "result.json", "last.pt", "best.pt"} <= names
    assert any(name.startswith("events.out.tfevents") for name in names)

    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert Config.from_parameters(record["config"]) == finished.config
    assert record["training_data"] == finished.splits.train.fingerprint()
    assert record["parameters"] == finished.parameters and record["versions"]["torch"] == torch.__version__
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows == finished.run.history and len(rows) == 2
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert result | finished.summary() == result and result["status"] == "finished"
    assert finished.test.accuracy == evaluate(finished.model, finished.test_loader).accuracy
    assert finished.test.classes == finished.splits.test.classes


def test_tensorboard_reads_the_events(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = project(QUICK.replace(run_dir=str(tmp_path))).run
    events = EventAccumulator(str(run.folder))
    events.Reload()
    drawn = [(event.step, event.value) for event in events.Scalars("val_loss")]
    assert drawn == [(row["epoch"], pytest.approx(row["val_loss"])) for row in run.history]


def test_two_unnamed_runs_never_share_a_folder(tmp_path):
    folders = {project(QUICK.replace(epochs=1, run_dir=str(tmp_path))).run.folder for _ in range(2)}
    assert len(folders) == 2


def test_nothing_is_written_without_a_run_dir(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert project(QUICK.replace(epochs=1, run_dir="")).run.folder is None
    assert list(tmp_path.iterdir()) == []


def test_only_training_pictures_are_augmented_and_all_share_the_training_statistics():
    splits = data.load("digits")
    train_loader, val_loader, test_loader = loaders(QUICK.replace(shift=1, flip=True, cutout=2), splits)
    for loader in (val_loader, test_loader):
        assert loader.statistics is not None
        assert all(torch.equal(a, b) for a, b in zip(loader.statistics, train_loader.statistics, strict=True))
        assert all(torch.equal(a[0], b[0]) for a, b in zip(loader, loader, strict=True))
    assert train_loader.batches.flip and not val_loader.batches.flip and not val_loader.batches.cutout


def test_an_interrupted_project_goes_on_to_the_same_end(tmp_path, monkeypatch):
    config = QUICK.replace(dropout=0.2)
    whole = project(config.replace(run_dir=str(tmp_path / "whole")))
    real_sums, seen = torch.nn.functional.cross_entropy, []

    def interrupting(*arguments, **options):
        seen.append(1)
        if len(seen) == 10:
            signal.raise_signal(signal.SIGINT)
        return real_sums(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.functional, "cross_entropy", interrupting)
        cut = project(config.replace(run_dir=str(tmp_path / "cut")))
    assert cut.run.status == "interrupted" and cut.test is None and cut.summary()["test_accuracy"] is None
    resumed = resume_project(cut.run.folder)
    assert resumed.run.status == "finished" and torch.equal(resumed.test.logits, whole.test.logits)
    assert_identical(dict(resumed.model.state_dict()), dict(whole.model.state_dict()))


def test_best_weights_can_be_used_without_the_run(tmp_path):
    finished = project(QUICK.replace(epochs=3, run_dir=str(tmp_path)))
    best = checkpoint.load(finished.run.folder / "best.pt")
    assert best["data"]["classes"] == list(finished.splits.train.classes)
    assert best["data"]["image_shape"] == [1, 8, 8]
    finished.model.load_state_dict(best["weights"])
    assert evaluate(finished.model, finished.val_loader).loss == best["val_loss"]


def test_no_run_in_the_folder_is_said(tmp_path):
    with pytest.raises(CheckpointError, match="no run folder"):
        resume_project(tmp_path / "nowhere")


def test_a_batch_larger_than_the_data_is_refused():
    with pytest.raises(DataError, match="batch_size=5000 is larger than the"):
        project(QUICK.replace(batch_size=5000, run_dir=""))


def test_splits_given_by_hand_are_used(tmp_path):
    splits = data.load("shapes", limit=200)
    finished = project(QUICK.replace(epochs=1, run_dir=""), splits)
    assert finished.splits is splits and len(finished.test.targets) == len(splits.test)
    assert dataclasses.is_dataclass(finished)
