import json
import subprocess
from pathlib import Path

import pytest
from filelock import FileLock

from labkit.errors import CheckpointError
from labkit.runs import alone
from labkit.runs.record import Record
from labkit.training import Config

ROW = {"epoch": 1, "train_loss": 0.5, "val_loss": None, "seconds": 1.0}


def made(folder, **settings) -> Record:
    return Record.create(Config(run_dir=str(folder), **settings).to_dict(), {"parameters": 3})


def test_it_tells_what_was_done_where_and_with_what(tmp_path):
    record = json.loads((made(tmp_path, seed=4).folder / "run.json").read_text(encoding="utf-8"))
    assert record["config"]["seed"] == 4 and record["parameters"] == 3
    assert set(record["versions"]) == {"labkit", "python", "torch", "torchvision", "numpy"}
    assert record["started"] and record["machine"] and record["threads"] >= 1
    hardware = record["hardware"]
    assert hardware["cpu"] and hardware["instructions"] and hardware["cores"] >= 1 and hardware["memory"] > 10**8


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


def test_without_git_there_is_no_state_of_the_code(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
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


@pytest.mark.parametrize(
    "name", ["last.pt", "last.previous.pt", "best.pt", "history.jsonl", "result.json", "notes.txt"]
)
def test_a_named_run_is_never_overwritten(tmp_path, name):
    folder = made(tmp_path, name="mine").folder
    (folder / name).write_text("mine", encoding="utf-8")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(CheckpointError, match="named 'mine' exists in .* and is not overwritten"):
        made(tmp_path, name="mine")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize("left", [[], [".in_use"], [".in_use", "run.json.tmp"], [".in_use", "run.json", "last.pt.tmp"]])
def test_a_folder_in_which_no_run_ever_began_is_used_again(tmp_path, capsys, left):
    (tmp_path / "mine").mkdir()
    for name in left:
        (tmp_path / "mine" / name).write_text("", encoding="utf-8")
    record = made(tmp_path, name="mine", seed=4)
    assert "mine was cut off before its first checkpoint, so it begins anew" in capsys.readouterr().out
    assert json.loads((record.folder / "run.json").read_text(encoding="utf-8"))["config"]["seed"] == 4


def test_a_folder_in_which_a_run_is_beginning_is_left_to_it(tmp_path, monkeypatch):
    first = made(tmp_path, name="mine")
    before = (first.folder / "run.json").read_bytes()
    monkeypatch.setattr(alone, "PATIENCE", 0.0)
    with pytest.raises(CheckpointError, match="Another process is at work on the run in"):
        made(tmp_path, name="mine", seed=4)
    assert (first.folder / "run.json").read_bytes() == before
    monkeypatch.setattr(FileLock, "acquire", refuse)  # as on a disk that knows no locks: it may be in use
    with pytest.raises(CheckpointError, match="named 'mine' exists in"):
        made(tmp_path, name="mine", seed=4)
    assert (first.folder / "run.json").read_bytes() == before


def refuse(*_, **__):
    raise OSError(28, "No space left on device")


def test_a_record_that_cannot_be_written_is_said(tmp_path):
    record = made(tmp_path, name="mine")
    (record.folder / "history.jsonl").mkdir()
    with pytest.raises(CheckpointError, match="record in .*mine cannot be written"):
        record.add_epoch(ROW)


def test_a_run_dir_that_is_a_file_is_said(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    for name in ("", "mine"):
        with pytest.raises(CheckpointError, match="run folder in .*file cannot be written.*another run_dir"):
            made(tmp_path / "file", name=name)


def test_a_run_dir_of_a_user_who_does_not_exist_is_a_plain_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert made(Path("~no-such-user"), name="mine").folder.is_dir()
    with pytest.raises(CheckpointError, match="cannot be written"):
        made(Path("a\0b"), name="mine")


@pytest.mark.parametrize(
    ("data", "stem"), [(".", "pictures"), (".hidden", "hidden"), ("--x", "x"), ("na\udcffme", "naudcffme"), ("é/", "é")]
)
def test_odd_names_of_data_give_usable_names_of_folders(tmp_path, data, stem):
    folder = made(tmp_path, data=data).folder
    assert folder.name.startswith(f"{stem}-cnn-seed0-")
    folder.name.encode("utf-8")
    assert len(made(tmp_path, data="x" * 250).folder.name) < 120


def test_a_run_that_cannot_begin_leaves_its_name_free(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Record, "_write", refuse)
        with pytest.raises(CheckpointError, match="No space left"):
            made(tmp_path, name="mine")
    assert made(tmp_path, name="mine").folder.is_dir()


@pytest.mark.parametrize("damage", ["", "{", "[1]", "null", "3"])
def test_a_damaged_result_is_written_anew(tmp_path, damage):
    record = made(tmp_path, name="mine")
    (record.folder / "result.json").write_text(damage, encoding="utf-8")
    record.finish({"status": "finished"})
    assert json.loads((record.folder / "result.json").read_text(encoding="utf-8")) == {"status": "finished"}


def test_the_error_of_an_attempt_goes_when_a_resume_succeeds(tmp_path):
    record = made(tmp_path, name="mine")
    record.fail(ValueError("full"))
    record.finish({"status": "finished"})
    assert json.loads((record.folder / "result.json").read_text(encoding="utf-8")) == {"status": "finished"}


def test_failing_hides_no_error_when_the_disk_refuses(tmp_path):
    record = made(tmp_path, name="mine")
    (record.folder / "result.json").mkdir()
    record.fail(ValueError("the real one"))  # silent: the caller raises the real one next
