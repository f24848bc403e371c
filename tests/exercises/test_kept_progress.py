"""The learner's file: what it keeps, and that neither kills, nor other notebooks, nor the disk take it away."""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from labkit.errors import LabkitError
from labkit.exercises import progress

# Notes right answers for ever, and after each one prints how many are kept. It imports the module by its file, because
# labkit.exercises loads torch: then a process would take seconds to start.
WRITER = """
import itertools, sys
sys.path.insert(0, sys.argv[1])
import progress
for number in itertools.count(1):
    progress.record_check("01_tensors", sys.argv[2], "right")
    if any(progress._waiting.values()):
        sys.exit("The disk did not take it.")
    print(number, flush=True)
"""


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """The file of a learner who has done nothing yet, in a folder that is not there yet."""
    path = tmp_path / "home" / "progress.json"
    monkeypatch.setenv("LABKIT_PROGRESS", str(path))
    return path


@pytest.fixture(autouse=True)
def forget_what_was_said():
    progress._already_said.clear()


def exercise(name: str = "column_means") -> dict:
    return progress.read()["chapters"]["01_tensors"]["exercises"][name]


# What is kept


def test_nothing_done_reads_as_empty_and_makes_no_file(own):
    assert progress.read() == {"schema": 1, "name": "", "chapters": {}, "claims": {}}
    assert not own.parent.exists()


def test_checks_are_counted_by_outcome_and_wrong_idea(own):
    progress.record_check("01_tensors", "column_means", "wrong", "means of the rows")
    progress.record_check("01_tensors", "column_means", "wrong")
    progress.record_check("01_tensors", "column_means", "raised")
    progress.record_check("01_tensors", "column_means", "right")
    progress.record_check("01_tensors", "column_means", "wrong", "means of the rows")
    assert exercise() == {
        "checks": {"wrong": 3, "raised": 1, "right": 1},
        "misconceptions": {"means of the rows": 2},
    }


def test_what_was_not_attempted_is_not_noted(own):
    progress.record_check("01_tensors", "column_means", "not attempted")
    assert not own.exists()


def test_the_strongest_hint_and_the_solution_are_kept(own):
    for level in (2, 3, 1):
        progress.record_hint("01_tensors", "column_means", level)
    assert exercise() == {"hint": 3}
    progress.record_solution("01_tensors", "column_means")
    assert exercise() == {"hint": 3, "solution": True}


def test_the_first_prediction_counts_and_a_claim_once_right_stays_right(own):
    progress.record_prediction("01_tensors", "promotion", "float64", False)
    progress.record_prediction("01_tensors", "promotion", "float32", True)
    for is_right in (False, True, False):
        progress.record_claim("C041", "true" if is_right else "false", is_right)
    expected = {"right_at_once": False, "is_right": True}
    read = progress.read()
    assert read["chapters"]["01_tensors"]["predictions"] == {"promotion": {"first": "float64"} | expected}
    assert read["claims"] == {"C041": {"first": "false"} | expected}


def test_errors_openings_and_a_name(own):
    progress.record_opened("01_tensors")
    progress.record_opened("01_tensors")
    progress.record_error("01_tensors", "RuntimeError")
    progress.record_name("Ångström")
    assert progress.read()["chapters"] == {"01_tensors": {"opened": 2, "errors": {"RuntimeError": 1}}}
    assert "Ångström" in own.read_text(encoding="utf-8")
    progress.record_name("")
    assert progress.read()["name"] == ""


def test_keys_of_a_later_labkit_are_kept(own):
    progress.record_opened("01_tensors")
    content = progress.read() | {"explained": {"C001": 2}}
    own.write_text(json.dumps(content), encoding="utf-8")
    progress.record_opened("01_tensors")
    assert progress.read()["explained"] == {"C001": 2}


# Where it is kept


def test_without_a_choice_it_lies_in_the_home_folder(monkeypatch):
    monkeypatch.delenv("LABKIT_PROGRESS")
    assert progress.place() == Path.home() / ".labkit" / "progress.json"
    monkeypatch.setenv("LABKIT_PROGRESS", "~/elsewhere.json")
    assert progress.place() == Path.home() / "elsewhere.json"


def test_tests_and_what_they_start_record_nothing():
    assert progress.place() is None


@pytest.mark.parametrize("off", ["off", "OFF", " off "])
def test_off_records_nothing_and_reads_as_empty(off, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", off)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    progress.record_check("01_tensors", "column_means", "right")
    assert progress.read()["chapters"] == {}
    assert list(tmp_path.iterdir()) == []


# Damage, and disks that refuse


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"schema": 1, "chap', "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a progress file"),
        (b"{}", "not a progress file"),
        (b'{"schema": 2}', "not a progress file"),
        (b'{"schema": true}', "not a progress file"),
        (b'{"schema": 1, "chapters": {"01_tensors": {"opened": -1}}}', "not a progress file"),
        (b'{"schema": 1, "chapters": {"01_tensors": {"opened": true}}}', "not a progress file"),
        (b'{"schema": 1, "chapters": {"01_tensors": {"opened": ' + b"9" * 4300 + b"}}}", "not a progress file"),
        (b'{"schema": 1, "chapters": {"01_tensors": []}}', "not a progress file"),
        (b'{"schema": 1, "chapters": {"01_tensors": {"errors": {"RuntimeError": "many"}}}}', "not a progress file"),
    ],
)
def test_a_damaged_file_is_kept_aside_and_said_in_a_sentence(text, said, own, capsys):
    for number in (1, 2):
        own.parent.mkdir(exist_ok=True)
        own.write_bytes(text)
        progress.record_check("01_tensors", "column_means", "right")
        assert exercise() == {"checks": {"right": 1}}
        assert own.with_name(f"progress.damaged-{number}.json").read_bytes() == text
        sentence = capsys.readouterr().err
        assert said in sentence and f"kept as progress.damaged-{number}.json" in sentence


def test_a_name_that_utf_8_does_not_have_is_kept(own):
    progress.record_name("\udcff")
    progress.record_opened("01_tensors")
    assert (progress.read()["name"], opened_count(own)) == ("\udcff", 1)


def opened_count(own: Path) -> int:
    return json.loads(own.read_bytes())["chapters"]["01_tensors"]["opened"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes among its files, and links only for administrators")
def test_a_link_leads_to_its_file_and_a_pipe_is_neither_read_nor_replaced(own, capsys):
    own.parent.mkdir()
    own.symlink_to("real.json")
    progress.record_opened("01_tensors")
    assert own.is_symlink() and opened_count(own.with_name("real.json")) == 1
    own.unlink()
    os.mkfifo(own)
    progress.record_opened("01_tensors")
    assert own.is_fifo() and sorted(path.name for path in own.parent.iterdir() if "lock" not in path.name) == [
        "progress.json",
        "real.json",
    ]
    assert f"Not a file: {own}" in capsys.readouterr().err
    for path in (None, own):
        with pytest.raises(LabkitError, match="Not a file"):
            progress.read(path)


def test_reading_alone_keeps_a_damaged_file_aside_too(own, capsys):
    own.parent.mkdir()
    own.write_bytes(b"{")
    assert progress.read()["chapters"] == {}
    assert own.with_name("progress.damaged-1.json").exists() and not own.exists()
    assert "not JSON" in capsys.readouterr().err


def test_a_file_of_someone_else_is_refused_and_not_touched(tmp_path):
    path = tmp_path / "theirs.json"
    with pytest.raises(LabkitError, match=r"cannot be read.*theirs\.json"):
        progress.read(path)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(LabkitError, match=r"theirs\.json is damaged"):
        progress.read(path)
    assert [each.name for each in tmp_path.iterdir()] == ["theirs.json"]


def test_a_place_that_cannot_be_written_is_said_once_and_the_lesson_goes_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "file" / "progress.json"))
    for _ in range(3):
        progress.record_check("01_tensors", "column_means", "right")
        progress.record_opened("01_tensors")
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("labkit: your progress cannot be saved") and "LABKIT_PROGRESS" in said


READ_ONLY = """
import os, sys
sys.path.insert(0, sys.argv[1])
import progress
if os.geteuid() == 0:
    os.seteuid(65534)  # root may write everywhere
for _ in range(2):
    progress.record_check("01_tensors", "column_means", "right")
print(progress.read()["chapters"])
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows does not protect folders by chmod")
def test_a_read_only_folder_is_said_once_and_its_file_still_read(tmp_path, monkeypatch):
    with tempfile.TemporaryDirectory() as name:  # tmp_path is closed to other users
        folder = Path(name)
        path = folder / "progress.json"
        path.write_text('{"schema": 1, "chapters": {"00_start_here": {"opened": 1}}}', encoding="utf-8")
        folder.chmod(0o555)
        monkeypatch.setenv("LABKIT_PROGRESS", str(path))
        command = [sys.executable, "-c", READ_ONLY, str(Path(progress.__file__).parent)]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=60)
        folder.chmod(0o755)
        assert finished.returncode == 0, finished.stderr
        assert finished.stdout.strip() == "{'00_start_here': {'opened': 1}}"
        assert len(finished.stderr.splitlines()) == 1 and "Permission denied" in finished.stderr


def test_what_the_disk_refused_is_written_with_the_next_that_it_takes(own, capsys):
    own.parent.write_text("in the way", encoding="utf-8")
    progress.record_check("01_tensors", "column_means", "right")
    own.parent.unlink()
    progress.record_opened("01_tensors")
    assert progress.read()["chapters"]["01_tensors"] == {
        "exercises": {"column_means": {"checks": {"right": 1}}},
        "opened": 1,
    }


def test_a_lock_that_is_never_freed_is_waited_for_once_in_a_while_only(own, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LOCK_SECONDS", 0.1)
    own.parent.mkdir()
    with progress._lock(own):
        progress.record_opened("01_tensors")
    assert "cannot be saved" in capsys.readouterr().err
    progress.record_opened("01_tensors")
    assert progress.read()["chapters"]["01_tensors"]["opened"] == 2


# Several at once, and kills


def start_writer(name: str) -> subprocess.Popen:
    folder = str(Path(progress.__file__).parent)
    return subprocess.Popen([sys.executable, "-c", WRITER, folder, name], stdout=subprocess.PIPE, text=True)


def kept(name: str) -> int:
    return exercise(name)["checks"]["right"]


def kill_while_writing(writer: subprocess.Popen, seconds: float) -> int:
    """Wait for the first note, then so long, then kill; return how many notes were said to be kept."""
    first = writer.stdout.readline()
    time.sleep(seconds)
    writer.kill()
    rest, _ = writer.communicate()
    return (first + rest).count("\n")  # a line that the kill cut off does not count


def test_threads_of_one_notebook_lose_nothing(own):
    def note(name: str) -> None:
        for _ in range(20):
            progress.record_error("01_tensors", name)

    threads = [threading.Thread(target=note, args=(name,)) for name in ("RuntimeError", "TypeError", "RuntimeError")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert progress.read()["chapters"]["01_tensors"]["errors"] == {"RuntimeError": 40, "TypeError": 20}


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_two_notebooks_at_once_and_kills_while_writing_lose_nothing(kills, own):
    """One process writes all the time, while others beside it are killed at any moment: nothing is lost."""
    said: dict[str, int] = {}
    chance = random.Random(0)
    with start_writer("steady") as steady:
        for number in range(kills):
            name = f"killed{number}"
            with start_writer(name) as writer:
                said[name] = kill_while_writing(writer, chance.uniform(0, 0.05))
            assert 1 <= said[name] <= kept(name), "a note that was said to be kept is gone"
        said["steady"] = kill_while_writing(steady, 0)
    for name, count in said.items():
        assert count <= kept(name) <= count + 1, "only the note in hand may be kept without having been said"
    assert said["steady"] > kills
    assert not list(own.parent.glob("*damaged*"))
