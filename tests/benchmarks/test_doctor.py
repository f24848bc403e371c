"""The benchmark of the doctor counts what is said, whatever that is, of programs in the corpus and in a folder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.doctor import Outcome, outcome, programs
from tests.faults.program import corpus

ROOT = Path(__file__).resolve().parents[2]
KEYS = {"faulty", "first_finding_right", "any_finding_right", "healthy", "false_fail", "false_warn", "crashes"}
KEYS |= {"median_seconds", "longest_seconds"}

CASE = """
import torch
from torch.utils.data import DataLoader, TensorDataset

FAULT = "label_encoding"  # three classes, counted from 1


def program(first):
    x, y = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 3 + first
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    pieces = {"model": model, "loss_fn": torch.nn.CrossEntropyLoss(), "optimizer": optimizer}
    return pieces | {"train_loader": loader, "val_loader": None}


def build():
    return program(1)


def healthy():
    return program(0)
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with one faulty program and a file that is none."""
    (tmp_path / "case_from_one.py").write_text(CASE, encoding="utf-8")
    (tmp_path / "notes.py").write_text("raise RuntimeError('not a case')", encoding="utf-8")
    return tmp_path


def test_every_program_of_the_corpus_is_examined_and_every_faulty_one_with_its_twin():
    found = {name: expected for name, expected, _ in programs(None, "")}
    for program in corpus():
        assert found[program.name] == (() if program.fault == "none" else (program.fault, *program.also))
        assert (f"{program.name} (mended)" in found) == (program.fault != "none")


@pytest.mark.parametrize("name", ["wines_counted_from_one", "class_numbers_read_as_floats"])
def test_a_fault_that_is_proven_is_the_first_finding(name):
    found = {known: (expected, build) for known, expected, build in programs(None, name)}
    result = outcome(name, *found[name], seed=0)
    assert result.first_right and result.any_right and result.crash == "" and result.seconds > 0
    assert not result.false("fail"), "a faulty program cannot be blamed without reason"


def test_a_folder_adds_its_cases_and_their_twins(folder):
    names = [(name, expected) for name, expected, _ in programs(folder, "from_one.py")]
    assert names == [("case_from_one", ("label_encoding",)), ("case_from_one (mended)", ())]


def test_an_examination_that_raises_is_counted():
    result = outcome("nothing to examine", ("label_encoding",), lambda: {"model": None}, seed=0)
    assert result.crash.startswith("Traceback") and result.findings == [] and not result.first_right


def test_first_any_and_false_findings_are_told_apart():
    said = [("a", "warn"), ("b", "fail")]
    second, healthy = Outcome("x", ("b",), 0, said), Outcome("y", (), 0, said)
    assert second.any_right and not second.first_right and not second.false("fail")
    assert healthy.false("fail") and healthy.false("warn") and not healthy.false("note")
    assert not Outcome("z", (), 0).false("fail") and not Outcome("z", ("b",), 0).any_right


@pytest.mark.slow
def test_it_ends_with_one_json_line(folder):
    command = [sys.executable, "-m", "benchmarks.doctor", "--cases", str(folder), "--only", "from_one.py", "--json"]
    finished = subprocess.run([*command, "--seeds", "2"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    table = json.loads(finished.stdout.splitlines()[-1])
    assert set(table) == KEYS and (table["faulty"], table["healthy"]) == (1, 2)
    assert (table["first_finding_right"], table["crashes"]) == (1, 0)
