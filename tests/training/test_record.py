import json
import subprocess

import pytest

from labkit.errors import CheckpointError
from labkit.training import Config
from labkit.training.record import Record

ROW = {"epoch": 1, "train_loss": 0.5, "val_loss": None, "seconds": 1.0}


def made(folder, **settings) -> Record:
    return Record.create(Config(run_dir=str(folder), **settings), {"parameters": 3})


def test_it_tells_what_was_done_where_and_with_what(tmp_path):
    record = json.loads((made(tmp_path, seed=4).folder / "run.json").read_text(encoding="utf-8"))
    assert record["config"]["seed"] == 4 and record["parameters"] == 3
    assert set(record["versions"]) == {"labkit", "python", "torch", "numpy"}
    assert record["started"] and record["machine"] and record["threads"] >= 1


def test_the_state_of_the_code_is_noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()

    def noted(name: str) -> dict:
        return json.loads((made(tmp_path.parent / "elsewhere", name=name).folder / "run.json").read_text())["git"]

    assert noted("clean") == {"commit": commit, "uncommitted_changes": False}
    (tmp_path / "new.py").write_text("1", encoding="utf-8")
    assert noted("changed") == {"commit": commit, "uncommitted_changes": True}


def test_outside_a_repository_there_is_no_state_of_the_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert json.loads((made(tmp_path).folder / "run.json").read_text(encoding="utf-8"))["git"] is None


def test_rows_are_on_the_disk_at_once(tmp_path):
    record = made(tmp_path)
    record.add_epoch(ROW)
    record.add_epoch(ROW | {"epoch": 2})
    lines = (record.folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
    record.finish({"status": "finished"})
    record.finish({"test_accuracy": 0.9})
    result = json.loads((record.folder / "result.json").read_text(encoding="utf-8"))
    assert result == {"status": "finished", "test_accuracy": 0.9}


def test_reopening_puts_the_history_back_to_the_checkpoint(tmp_path):
    record = made(tmp_path)
    for epoch in (1, 2, 3):
        record.add_epoch(ROW | {"epoch": epoch})
    record.finish({})
    Record.reopen(record.folder, [ROW])
    assert (record.folder / "history.jsonl").read_text(encoding="utf-8") == json.dumps(ROW) + "\n"


def test_a_folder_is_named_after_what_the_run_does(tmp_path):
    folder = made(tmp_path, data="some/where/my cats.tar.gz", seed=7).folder
    assert folder.name.startswith("my cats-cnn-seed7-")


def test_a_named_run_is_never_overwritten(tmp_path):
    made(tmp_path, name="mine")
    with pytest.raises(CheckpointError, match="named 'mine' exists in .* and is not overwritten"):
        made(tmp_path, name="mine")


def test_a_record_that_cannot_be_written_is_said(tmp_path):
    record = made(tmp_path, name="mine")
    (record.folder / "history.jsonl").mkdir()
    with pytest.raises(CheckpointError, match="record in .*mine cannot be written"):
        record.add_epoch(ROW)


def test_failing_hides_no_error_when_the_disk_refuses(tmp_path):
    record = made(tmp_path, name="mine")
    (record.folder / "result.json").mkdir()
    record.fail(ValueError("the real one"))  # silent: the caller raises the real one next
