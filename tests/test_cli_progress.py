"""`labkit progress` and `labkit progress merge`, in this process: each start of Python with torch takes seconds."""

import json

import pytest
from click.testing import CliRunner, Result

from labkit import cli
from labkit.errors import LabkitError
from labkit.exercises import progress


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """The file of a learner who was wrong once."""
    path = tmp_path / "progress.json"
    monkeypatch.setenv("LABKIT_PROGRESS", str(path))
    progress.record_check("01_tensors", "column_means", "wrong", "rows for columns")
    return path


def labkit(*arguments: str) -> Result:
    return CliRunner().invoke(cli.labkit, ["progress", *arguments])


def test_it_shows_the_progress_and_says_where_it_lies(own):
    shown = labkit()
    assert shown.exit_code == 0 and "Claims: none answered yet." in shown.output
    assert shown.output.splitlines()[-1] == f"Kept in {own}"


def test_json_is_the_file(own):
    assert json.loads(labkit("--json").output) == json.loads(own.read_text(encoding="utf-8"))


def test_a_name_is_given_and_taken_back(own):
    assert labkit("--name", "Ada").exit_code == 0
    assert progress.read()["name"] == "Ada"
    assert labkit("--name", "").exit_code == 0
    assert progress.read()["name"] == ""


def test_when_recording_is_off_it_says_so_and_keeps_no_name(monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", "off")
    assert "LABKIT_PROGRESS is off" in labkit().output
    refused = labkit("--name", "Ada").exception
    assert isinstance(refused, LabkitError) and "your name is not kept" in str(refused)


def test_the_help_says_what_the_file_holds_and_that_it_stays_here():
    said = " ".join(labkit("--help").output.split())
    assert "~/.labkit/progress.json, and is sent nowhere" in said
    assert "no code, no times, and no name unless you give one" in said


def test_merge_prints_tables_or_json(own):
    assert "rows for columns" in labkit("merge", str(own)).output
    room = json.loads(labkit("merge", "--json", str(own)).output)
    assert room["learners"] == 1 and room["exercises"][0]["stuck"] == 1


def test_merge_names_a_broken_file_and_refuses_when_there_is_no_other(own, tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    merged = labkit("merge", str(own), str(broken))
    assert merged.exit_code == 0 and "Left out" in merged.output and "broken.json" in merged.output
    assert isinstance(labkit("merge", str(broken)).exception, LabkitError)


@pytest.mark.parametrize("arguments", [["merge"], ["--json", "merge", "a.json"], ["mege"]])
def test_mistakes_in_typing_are_answered(arguments):
    assert labkit(*arguments).exit_code == 2
