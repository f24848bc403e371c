"""The benchmark of cures counts what became of each program, whatever that is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cure import outcome, told
from tests.faults.program import Program, corpus

ROOT = Path(__file__).resolve().parents[2]


def named(name: str) -> Program:
    return next(program for program in corpus() if program.name == name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cure_is_told_from_none():
    result, figures = outcome(named("optimizer_of_another_network"))
    assert result == "cured" and figures.startswith("ill 0.")
    healthy = named("optimizer_of_another_network")
    twin = Program(healthy.name, healthy.fault, healthy.healthy, healthy.healthy, healthy.effect, gap=0.1)
    assert outcome(twin) == ("not found", "no finding")


def raises() -> dict:
    raise ZeroDivisionError("an error of the doctor")


def test_an_error_counts_as_not_cured_and_is_shown():
    name, result, figures, seconds = told(Program("odd", "lr_too_low", raises, raises, "hurts", gap=0.1))
    assert (name, result) == ("odd", "not cured") and seconds >= 0
    assert figures.startswith("[lr_too_low]: the doctor failed\n") and "ZeroDivisionError" in figures


@pytest.mark.slow
def test_it_ends_with_one_json_line():
    command = [sys.executable, "-m", "benchmarks.cure", "--only", "head_replaced_after", "--workers", "1", "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=ROOT, check=True)
    counts = json.loads(answer.stdout.splitlines()[-1])
    assert counts.keys() == {"curable", "cured", "not_cured", "not_found"} and counts["curable"] == 1
