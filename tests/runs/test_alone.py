import os
import subprocess
import sys

import pytest

from labkit.errors import CheckpointError
from labkit.runs import alone
from labkit.runs.alone import Alone
from labkit.runs.record import Record

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders cannot be locked here")

HOLD = """
import sys, time
from pathlib import Path
from labkit.runs.alone import Alone
held = Alone(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def held(tmp_path):
    """A process that holds the folder, and that is killed at the end."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_another_process_is_refused_until_the_first_is_gone(held, tmp_path, monkeypatch):
    monkeypatch.setattr(alone, "PATIENCE", 0.3)
    with pytest.raises(CheckpointError, match="Another process is at work on the run in"):
        Alone(tmp_path)
    with pytest.raises(CheckpointError, match="Another process is at work"):
        Record.reopen(tmp_path, [])
    assert not (tmp_path / "history.jsonl").exists()
    held.kill()
    monkeypatch.setattr(alone, "PATIENCE", 10.0)
    Alone(tmp_path).release()


@pytest.mark.parametrize("end", [lambda record: record.finish({}), lambda record: record.fail(ValueError("odd"))])
def test_a_run_that_ended_can_be_resumed_in_the_same_process(tmp_path, monkeypatch, end):
    monkeypatch.setattr(alone, "PATIENCE", 0.0)
    record = Record.create({"run_dir": str(tmp_path), "name": "mine"}, {})
    with pytest.raises(CheckpointError, match="Another process"):
        Record.reopen(record.folder, [])
    end(record)
    end(Record.reopen(record.folder, []))
    Record.reopen(record.folder, []).finish({})
