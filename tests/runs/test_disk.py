"""A disk that refuses, a folder that goes, a clock that jumps, two at one run: a sentence, and no good file is lost."""

import builtins
import itertools
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from labkit.errors import CheckpointError
from labkit.runs import alone, checkpoint
from labkit.runs.record import Record
from labkit.training import fit, resume
from tests.runs.small_runs import QUICK, small_run
from tests.runs.test_alone import HOLD
from tests.training.helpers import small_loaders, small_model


def contents(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file() and file.name != ".in_use"}


class FullFile:
    """A file on a disk that has room for `room` more bytes."""

    def __init__(self, file, room: int):
        self.file, self.room = file, room

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, content: bytes) -> None:
        self.file.write(content[: self.room])
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("room", [0, 1, 500, 5_000])
def test_a_disk_that_is_full_after_some_bytes(tmp_path, monkeypatch, room):
    path = tmp_path / "last.pt"
    checkpoint.save(path, {"epoch": 1})
    checkpoint.save(path, {"epoch": 2})
    before, real_open = contents(tmp_path), open
    monkeypatch.setattr(
        builtins, "open", lambda *arguments, **options: FullFile(real_open(*arguments, **options), room)
    )
    with pytest.raises(CheckpointError, match="No space left on device. Checkpoints saved before are unharmed"):
        checkpoint.save(path, {"epoch": 3, "numbers": list(range(5_000))})
    monkeypatch.undo()
    assert contents(tmp_path) == before and checkpoint.load(path)["epoch"] == 2


@pytest.mark.parametrize(("step", "call"), [("fsync", 1), ("replace", 1), ("replace", 2), ("fsync", 2)])
def test_a_write_that_breaks_off_at_any_step_leaves_a_good_checkpoint(tmp_path, monkeypatch, step, call):
    path = tmp_path / "last.pt"
    checkpoint.save(path, {"epoch": 1})
    checkpoint.save(path, {"epoch": 2})
    real, calls = getattr(os, step), []

    def refuse(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise OSError(5, "Input/output error")
        return real(*arguments)

    monkeypatch.setattr(os, step, refuse)
    if os.name == "posix" or (step, call) != ("fsync", 2):  # a folder is forced to the disk on POSIX only
        with pytest.raises(CheckpointError, match="Input/output error"):
            checkpoint.save(path, {"epoch": 3})
    monkeypatch.undo()
    assert checkpoint.load(path)["epoch"] in (2, 3)
    assert not list(tmp_path.glob("*.tmp"))
    checkpoint.save(path, {"epoch": 4})
    assert checkpoint.load(path)["epoch"] == 4


@pytest.fixture
def read_only(tmp_path):
    """Return a folder with a finished run, and a function that makes it read-only, for an administrator, too."""
    disk = tmp_path / "disk"
    disk.mkdir()
    is_root = sys.platform == "linux" and os.geteuid() == 0
    if is_root and subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("an administrator needs a file system of their own for this, and none can be mounted")

    def lock() -> None:
        if is_root:
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        else:
            (disk / "mine").chmod(0o500)
            disk.chmod(0o500)

    yield disk, lock
    if is_root:
        subprocess.run(["umount", str(disk)], check=True)
    else:
        disk.chmod(0o700)
        (disk / "mine").chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be made read-only by their mode here")
def test_a_read_only_folder_is_said_and_nothing_in_it_changes(read_only):
    disk, lock = read_only
    run = small_run(disk, "mine")
    before = contents(run.folder)
    lock()
    with pytest.raises(CheckpointError, match="run folder in .* cannot be written: (Read-only|Permission denied)"):
        small_run(disk, "other")
    with pytest.raises(CheckpointError, match="record in .* cannot be written: (Read-only|Permission denied)"):
        resume(small_model(), *small_loaders(), run.folder)
    assert contents(run.folder) == before
    assert checkpoint.load(run.folder / "last.pt")["position"]["epoch"] == 2


@pytest.mark.parametrize("moment", ["in the first epoch", "at its end", "between two epochs"])
def test_a_folder_that_goes_during_a_run_is_said_and_does_not_come_back_in_part(tmp_path, monkeypatch, moment):
    folder, add_epoch = tmp_path / "gone", Record.add_epoch

    def go(*_) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def add(record: Record, row: dict) -> None:
        if moment == "at its end":
            go()
        add_epoch(record, row)
        if moment == "between two epochs":
            go()

    monkeypatch.setattr(Record, "add_epoch", add)
    model = small_model()
    if moment == "in the first epoch":
        model[4].register_forward_hook(go)
    with pytest.raises(CheckpointError, match="gone"):
        small_run(tmp_path, "gone", model=model)
    assert not folder.exists()


@pytest.mark.parametrize("jump", [-3600, 86_400])
def test_a_clock_that_jumps_back_or_on_changes_neither_names_nor_times(tmp_path, monkeypatch, jump):
    moments = itertools.count(1_700_000_000, jump)
    monkeypatch.setattr(time, "time", lambda: float(next(moments)))
    monkeypatch.setattr(time, "strftime", lambda _: "20260131-181500")
    runs = [small_run(tmp_path, "", seed=7) for _ in range(3)]
    stem = "digits-cnn-seed7-20260131-181500"
    assert [run.folder.name for run in runs] == [stem, f"{stem}-2", f"{stem}-3"]
    assert all(0 <= row["seconds"] < 3600 for run in runs for row in run.history)
    resumed = resume(small_model(), *small_loaders(), runs[0].folder)
    assert resumed.history == runs[0].history


def test_many_that_begin_at_once_never_share_a_folder(tmp_path, monkeypatch):
    began = []

    def begin(settings: dict) -> str:
        try:
            began.append(Record.create(settings | {"run_dir": str(tmp_path)}, {}))
            return began[-1].folder.name
        except CheckpointError as error:
            return str(error)

    monkeypatch.setattr(alone, "PATIENCE", 0.2)

    unnamed = {"name": "", "data": "digits", "model": "cnn", "seed": 0}
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(begin, [unnamed] * 8))) == 8
        answers = list(pool.map(begin, [{"name": "mine"}] * 8))
    assert answers.count("mine") == 1 and sum("Another process is at work" in answer for answer in answers) == 7


@pytest.mark.skipif(os.name != "posix", reason="folders cannot be locked here")
def test_of_two_processes_on_one_run_the_second_is_refused_and_changes_nothing(tmp_path, monkeypatch):
    run = small_run(tmp_path, "mine")
    before = contents(run.folder)
    first = subprocess.Popen([sys.executable, "-c", HOLD, str(run.folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline() == "held\n"
        monkeypatch.setattr(alone, "PATIENCE", 0.2)
        with pytest.raises(CheckpointError, match="Another process is at work on the run in .*mine. Wait"):
            resume(small_model(), *small_loaders(), run.folder)
        assert contents(run.folder) == before
        with pytest.raises(CheckpointError, match="exists in .* and is not overwritten"):
            fit(small_model(), *small_loaders(), QUICK.replace(run_dir=str(tmp_path), name="mine"))
        assert contents(run.folder) == before
    finally:
        first.kill()
        first.communicate()
    monkeypatch.undo()
    assert resume(small_model(), *small_loaders(), run.folder).status == "finished"
