"""Killed 20 times and resumed: every run ends as the uncut one; and a difference of one bit would be seen."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.kill import contents, first_difference

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_runs_killed_20_times_end_as_the_uncut_one():
    command = [sys.executable, "-m", "benchmarks.kill", "--times", "20", "--json"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", timeout=1800)
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout.splitlines()[-1]) == {"kills": 20, "identical": 20}, finished.stdout


def test_a_number_of_kills_below_one_is_refused():
    command = [sys.executable, "-m", "benchmarks.kill", "--times", "0"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 2 and "--times must be at least 1" in finished.stderr


def state() -> dict:
    return {"model": {"weight": torch.zeros(2)}, "history": [{"loss": 0.5, "seconds": 1.0}], "rng": (1, "x")}


def test_a_difference_of_one_bit_is_seen_and_its_place_named():
    other = state()
    other["model"]["weight"][1] = -0.0
    assert torch.equal(other["model"]["weight"], state()["model"]["weight"]), "equal as numbers, not as bits"
    assert first_difference(contents(other), contents(state())) == "model / weight"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda state: state["history"][0].update(loss=0.25), "history / 0 / loss"),
        (lambda state: state["history"].append({"loss": 0.5}), "history / 1 / loss"),
        (lambda state: state.pop("rng"), "rng / 0"),
        (lambda state: state["model"].update(weight=torch.zeros(2, dtype=torch.float64)), "model / weight"),
        (lambda state: state["history"][0].update(seconds=2.0), ""),
    ],
    ids=["number", "more", "less", "dtype", "only the clock"],
)
def test_differences_are_found_anywhere_but_in_what_a_clock_says(change, place):
    other = state()
    change(other)
    assert first_difference(contents(other), contents(state())) == place
