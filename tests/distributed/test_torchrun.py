"""`torchrun … -m labkit train` as a user lives through it: a process that is killed, Ctrl-C, going on, and refusals."""

import json
import os
import signal
import sys
import time

import psutil
import pytest
import torch.distributed as dist

from labkit import distributed
from labkit.errors import DeviceError, ProcessError
from tests.command_line import labkit, refused
from tests.distributed import launching

needs_gloo = pytest.mark.skipif(not dist.is_gloo_available(), reason="this torch has no way for processes to talk")
SENTENCE = "Another process of this run has ended or does not answer, so this one stops, too."
SMALL = ["--data", "digits", "--model", "mlp", "--batch-size", "16", "--device", "cpu", "--save-every", "20"]


def epochs_in(folder) -> int:
    history = folder / "history.jsonl"
    return len(history.read_text(encoding="utf-8").splitlines()) if history.exists() else 0


def wait_for_an_epoch(launched, folder, before: int) -> None:
    while epochs_in(folder) <= before and launched.poll() is None:
        time.sleep(0.05)
    assert launched.poll() is None, launched.communicate()


@pytest.mark.slow
@needs_gloo
def test_a_killed_process_ends_the_others_with_a_sentence_and_the_run_goes_on(tmp_path):
    folder = tmp_path / "run"
    launched = launching.start(
        2, "-m", "labkit", "train", *SMALL, "--epochs", 8, "--run-dir", tmp_path, "--name", "run"
    )
    wait_for_an_epoch(launched, folder, 0)
    children = {child.environ()["RANK"]: child for child in psutil.Process(launched.pid).children()}
    children["1"].kill()
    _, said = launching.finish(launched)
    assert said.count(f"labkit: {SENTENCE}") == 1 and "closing signal SIGKILL" not in said, said
    assert SENTENCE in json.loads((folder / "result.json").read_text(encoding="utf-8"))["error"]

    launched = launching.start(2, "-m", "labkit", "train", "--resume", folder)
    wait_for_an_epoch(launched, folder, epochs_in(folder))
    if sys.platform != "win32":
        launched.send_signal(signal.SIGINT)
        _, said = launching.finish(launched)
        assert said.count("labkit: stopped by you. To go on: labkit train --resume") == 1, said
        status = json.loads((folder / "result.json").read_text(encoding="utf-8"))["status"]
        assert status == "interrupted"
    else:
        launching.finish(launched)

    finished = labkit("train", "--resume", str(folder), "--json")
    assert finished.returncode == 0, finished.stderr
    summary = json.loads(finished.stdout)
    assert (summary["status"], summary["epochs"]) == ("finished", 8) and summary["test_accuracy"] > 0.9


def test_variables_that_are_missing_are_named():
    answer = refused(labkit("train", "--epochs", "1", "--run-dir", "", RANK="0", MASTER_ADDR="localhost"))
    assert "WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_PORT are missing. Start them with `torchrun" in answer


def test_a_device_with_a_number_and_too_few_gpus_are_refused(monkeypatch):
    for name, value in zip(distributed.group.VARIABLES, ("0", "99", "0", "99", "localhost", "1"), strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(DeviceError, match="would put all processes on one device"), distributed.joined("cuda:0"):
        pass
    with pytest.raises(DeviceError, match="99 processes were started here|cannot be used"), distributed.joined("cuda"):
        pass


def test_processes_that_do_not_come_are_said(monkeypatch):
    """This one is number 1 of two and asks for number 0, where nobody is."""
    values = "1", "2", "1", "2", "localhost", "no port"
    for name, value in zip(distributed.group.VARIABLES, values, strict=True):
        monkeypatch.setenv(name, value)
    with pytest.raises(ProcessError, match="The 2 processes did not find one another"), distributed.joined("cpu"):
        pass


def test_one_process_needs_no_group(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    with distributed.joined("cpu"):
        assert not distributed.are_several() and distributed.is_main() and distributed.size() == 1
    assert distributed.total(2, 3) == [2, 3] and distributed.any_of(True)
    assert "RANK" not in os.environ
