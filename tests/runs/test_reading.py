"""The list of runs: whatever state a folder is in, it is a row, and what is wrong with it is said."""

import json
import os

import pytest

from labkit.errors import CheckpointError
from labkit.runs.alone import Alone
from labkit.runs.listing import listing
from labkit.runs.reading import find, is_run, read
from labkit.runs.record import Record
from tests.runs.small_runs import small_run


@pytest.fixture(scope="module")
def pristine(tmp_path_factory) -> dict[str, bytes]:
    """The files of a real run."""
    folder = small_run(tmp_path_factory.mktemp("runs"), "real").folder
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def run(tmp_path, pristine):
    """The folder of a real run, to be damaged."""
    folder = tmp_path / "runs" / "mine"
    folder.mkdir(parents=True)
    for name, content in pristine.items():
        (folder / name).write_bytes(content)
    return folder


def row_of(folder) -> dict:
    (row,) = listing(folder.parent).rows
    return row


def test_a_finished_run_is_told_in_a_row(run):
    history = [json.loads(line) for line in (run / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    best = min(history, key=lambda row: row["val_loss"])
    assert row_of(run) == {
        "run": "mine",
        "status": "finished",
        "epochs": 2,
        "best val accuracy": best["val_accuracy"],
        "test accuracy": None,
        "seconds": round(sum(row["seconds"] for row in history), 1),
        "device": "cpu",
    }
    assert listing(run).rows == listing(run.parent).rows  # the folder of the run itself will do, too


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("run.json", None, "run.json is missing."),
        ("run.json", b"", "run.json is cut off or damaged."),
        ("run.json", b'{"config": {"epochs"', "run.json is cut off or damaged."),
        ("run.json", b"\xff\xfe", "run.json is cut off or damaged."),
        ("run.json", b"[" * 100_000, "run.json is cut off or damaged."),
        ("run.json", b"[1]", "run.json holds something else than it should."),
        ("run.json", b"{}", "run.json has no settings."),
        ("run.json", b'{"config": 3}', "run.json has no settings."),
        ("result.json", b"{", "result.json is cut off or damaged."),
        ("result.json", b"3", "result.json holds something else than it should."),
        ("history.jsonl", b'{"epoch": 1}\n{"ep', "history.jsonl is cut off or damaged in line 2."),
        ("history.jsonl", b'{"epoch": 2}\n', "history.jsonl is cut off or damaged in line 1."),
        ("history.jsonl", b'{"epoch": 1, "val_loss": "low"}\n', "history.jsonl is cut off or damaged in line 1."),
        ("history.jsonl", b'{"epoch": 1, "val_loss": 1%s}\n' % (b"0" * 400), "history.jsonl is cut off or damaged"),
        ("history.jsonl", b"\0\0\0\0", "history.jsonl is cut off or damaged in line 1."),
    ],
)
def test_a_damaged_run_is_listed_with_what_is_wrong(run, name, content, sentence):
    (run / name).unlink()
    if content is not None:
        (run / name).write_bytes(content)
    row = row_of(run)
    assert row["status"] == "damaged" and row["what is wrong"].startswith(sentence)
    assert len(str(listing(run.parent)).splitlines()) == 3


@pytest.mark.parametrize("name", ["run.json", "history.jsonl", "result.json"])
def test_a_folder_in_the_place_of_a_file_is_listed_too(run, name):
    (run / name).unlink()
    (run / name).mkdir()
    assert row_of(run)["status"] == "damaged" and name in row_of(run)["what is wrong"]


def test_what_is_readable_of_a_damaged_run_is_still_told(run):
    lines = (run / "history.jsonl").read_bytes().splitlines(keepends=True)
    (run / "history.jsonl").write_bytes(lines[0] + lines[1][:20])
    (run / "run.json").unlink()
    recorded = read(run)
    assert recorded.history == [json.loads(lines[0])] and recorded.result["status"] == "finished"
    assert len(recorded.problems) == 2


def test_states_of_a_run_that_has_not_ended(tmp_path):
    (tmp_path / "begun").mkdir()  # killed before the first file
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thoughts.txt").write_text("no run", encoding="utf-8")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "a file").write_text("no run", encoding="utf-8")
    failed = Record.create({"run_dir": str(tmp_path), "name": "failed"}, {})
    failed.fail(ValueError("full"))
    unfinished = Record.create({"run_dir": str(tmp_path), "name": "unfinished"}, {})
    unfinished._close()
    rows = {row["run"]: row for row in listing(tmp_path).rows}
    assert {name: row["status"] for name, row in rows.items()} == {
        "begun": "damaged",
        "failed": "failed",
        "unfinished": "unfinished",
    }
    assert rows["begun"]["what is wrong"] == "run.json is missing."
    assert rows["failed"]["what is wrong"] == "ValueError: full" and rows["unfinished"]["what is wrong"] == ""


def test_looking_changes_nothing(run):
    before = {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in run.iterdir()}
    listing(run.parent)
    assert before == {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in run.iterdir()}
    Alone(run).release()  # nothing is held either


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be locked here")
def test_a_run_at_work_is_running(run):
    held = Alone(run)
    assert row_of(run)["status"] == "running"
    held.release()
    assert row_of(run)["status"] == "finished"


def test_no_folder_is_said(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    for folder in (tmp_path / "none", tmp_path / "file", "a\0b"):
        with pytest.raises(CheckpointError, match="There are no runs to list in"):
            listing(folder)
    assert str(listing(tmp_path)) == f"0 runs in {tmp_path}"


def test_a_run_is_found_by_name_or_path_and_a_name_leads_nowhere_else(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find("mine") == find("mine", "runs") == find("runs/mine") == run.relative_to(tmp_path)
    assert find(run) == run and find("mine", run.parent) == run
    monkeypatch.chdir(run)
    assert is_run(find("."))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "thoughts.txt").write_text("no run", encoding="utf-8")
    for name in ("", "..", "../secret", "secret", "a\0b", "none", "x" * 5000):
        with pytest.raises(CheckpointError, match="There is no run"):
            find(name)
