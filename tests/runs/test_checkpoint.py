import os
import pickle
import subprocess
import sys

import pytest
import torch

from labkit.errors import CheckpointError
from labkit.runs import checkpoint


def content(number: int = 1) -> dict:
    return {
        "weights": {"a": torch.full((50,), float(number))},
        "epoch": number,
        "rate": 0.1,
        "names": ["x", None, True],
    }


def number_in(path) -> int:
    return checkpoint.load(path)["epoch"]


def test_what_is_saved_comes_back_and_plain_torch_reads_it_too(tmp_path):
    path = tmp_path / "last.pt"
    checkpoint.save(path, content())
    for loaded in (checkpoint.load(path), torch.load(path, weights_only=True)):
        assert torch.equal(loaded["weights"]["a"], torch.ones(50))
        assert (loaded["epoch"], loaded["rate"], loaded["names"]) == (1, 0.1, ["x", None, True])
    assert [file.name for file in tmp_path.iterdir()] == ["last.pt"]


def test_the_previous_one_is_kept(tmp_path):
    path = tmp_path / "last.pt"
    for number in (1, 2, 3):
        checkpoint.save(path, content(number))
    assert number_in(path) == 3 and number_in(checkpoint.previous(path)) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["last.previous.pt", "last.pt"]


def test_any_damage_is_found_and_the_previous_one_used(tmp_path, capsys):
    path = tmp_path / "last.pt"
    checkpoint.save(path, content(1))
    checkpoint.save(path, content(2))
    good = path.read_bytes()
    for position in range(0, len(good), 97):
        damaged = bytearray(good)
        damaged[position] ^= 1
        path.write_bytes(bytes(damaged))
        assert number_in(path) == 1, position
    for length in range(0, len(good), 97):
        path.write_bytes(good[:length])
        assert number_in(path) == 1, length
    path.unlink()
    assert number_in(path) == 1
    assert "Going on from last.previous.pt." in capsys.readouterr().out


def test_when_both_are_damaged_both_reasons_are_given(tmp_path):
    path = tmp_path / "last.pt"
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(CheckpointError, match=r"last.pt .* was not written by labkit. There is no last.previous.pt"):
        checkpoint.load(path)


class Attack:
    """A pickle that would make a file if it were ever loaded."""

    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        return os.mkdir, (str(self.victim),)


@pytest.mark.parametrize("signed", [False, True], ids=["raw", "with a right checksum"])
@pytest.mark.parametrize("how", ["pickle", "torch"])
def test_code_in_a_checkpoint_is_never_run(tmp_path, signed, how):
    path, victim = tmp_path / "last.pt", tmp_path / "victim"
    if how == "pickle":
        path.write_bytes(pickle.dumps(Attack(victim)))
    else:
        torch.save({"schema": 1, "model": Attack(victim)}, path)
    if signed:
        payload = path.read_bytes()
        digest = checkpoint.hashlib.sha256(payload).hexdigest().encode()
        path.write_bytes(payload + b"\nlabkit-sha256:" + digest)
    with pytest.raises(CheckpointError, match="holds more than plain data|was not written by labkit"):
        checkpoint.load(path)
    assert not victim.exists()


def test_another_layout_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "last.pt"
    monkeypatch.setattr(checkpoint, "SCHEMA", 99)
    checkpoint.save(path, {})
    assert torch.load(path, weights_only=True) == {"schema": 99}, "plain torch reads it as well"
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="layout that this labkit does not know"):
        checkpoint.load(path)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "last.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match="cut off"):
        checkpoint.load(tmp_path / "last.pt")


FULL_DISK = """
import resource, sys, torch
from pathlib import Path
from labkit.runs import checkpoint
from labkit.errors import CheckpointError
path = Path(sys.argv[1])
checkpoint.save(path, {"epoch": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # the system now refuses larger files
try:
    checkpoint.save(path, {"epoch": 2, "weights": torch.zeros(100_000)})
except CheckpointError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="limits on the size of a file are a POSIX matter")
def test_a_disk_that_refuses_leaves_the_good_checkpoint_alone(tmp_path):
    path = tmp_path / "last.pt"
    child = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True)
    assert "last.pt could not be saved" in child.stdout and "unharmed" in child.stdout
    assert number_in(path) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["last.pt"]


def test_a_folder_that_is_gone_is_said(tmp_path):
    with pytest.raises(CheckpointError, match="could not be saved in .*gone"):
        checkpoint.save(tmp_path / "gone" / "last.pt", content())
