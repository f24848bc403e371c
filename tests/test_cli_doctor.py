"""`labkit doctor FILE.py[:function]`, and how pieces are found by their names."""

import json
import sys

import pytest

from labkit.doctor.namespace import pieces_named
from labkit.errors import LabkitError
from tests.command_line import labkit, labkit_process, refused

SCRIPT = """
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

labels = torch.arange(240) % 2
inputs = torch.randn(240, 6) + 1.5 * labels[:, None]
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net{part}.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=20, shuffle=True)

def as_tuple():
    return net, criterion, optimizer, loader

def as_dict():
    return {{"model": net, "loss_fn": criterion, "optimizer": optimizer, "train_loader": loader}}

def nothing():
    return 3

if __name__ == "__main__":
    raise SystemExit("this trains")
"""


@pytest.fixture
def script(tmp_path):
    def write(name="train.py", part=""):
        (tmp_path / name).write_text(SCRIPT.format(part=part), encoding="utf-8")
        return tmp_path

    return write


def test_a_script_that_learns_has_no_fault(script):
    answer = labkit("doctor", "train.py", folder=script())
    assert answer.returncode == 0 and "No fault found" in answer.stdout and "nothing of the program" in answer.stdout


@pytest.mark.parametrize("function", ["", ":as_tuple", ":as_dict"])
def test_the_pieces_of_a_script_are_found(script, function):
    answer = labkit("doctor", f"train.py{function}", folder=script(part="[0]"))
    assert answer.returncode == 1 and answer.stdout.startswith("FAIL  param_not_optimised")


def test_a_fault_is_mended_and_told_as_json(script):
    folder = script(part="[0]")
    assert "mended param_not_optimised" in labkit("doctor", "train.py", "--apply", folder=folder).stdout
    answer = labkit("doctor", "train.py", "--json", folder=folder)
    assert json.loads(answer.stdout)["findings"][0]["fault"] == "param_not_optimised"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("missing.py", "There is no script missing.py"),
        ("train.py:build_all", "has no function 'build_all'. It has:"),
        ("train.py:nothing", "must return a dict of pieces"),
        ("empty.py", "has no variable model and no loss_fn and no optimizer and no train_loader"),
    ],
)
def test_what_has_no_pieces_is_a_sentence(script, file, said):
    folder = script()
    (folder / "empty.py").write_text("x = 1\n", encoding="utf-8")
    assert said in refused(labkit("doctor", file, folder=folder))


@pytest.mark.slow
def test_an_error_of_the_script_is_shown_as_pythons_own_and_explained(script):
    folder = script()
    (folder / "broken.py").write_text("import torch\n\ntorch.zeros(3) @ torch.zeros(4, 2)\n", encoding="utf-8")
    answer = labkit_process("doctor", "broken.py", folder=folder)
    assert answer.returncode == 1 and "importlib" not in answer.stderr
    assert answer.stderr.startswith("Traceback") and "torch.zeros(3) @" in answer.stderr


def test_a_number_called_loss_is_no_loss_function():
    with pytest.raises(LabkitError, match="no variable model and no loss_fn"):
        pieces_named({"loss": 0.3, "optimizer": object(), "net": "resnet"}, "This notebook")


def test_a_script_may_have_the_name_of_a_module(script):
    folder = script("json.py")
    before = sys.modules["json"]
    assert labkit("doctor", "json.py", folder=folder).returncode == 0 and sys.modules["json"] is before
