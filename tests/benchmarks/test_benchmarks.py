"""Each benchmark runs and reports its ratios; how large they are depends on the machine and is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.measuring import median_seconds

ROOT = Path(__file__).resolve().parents[2]
RATIOS = {"loading": {"over_torchvision", "over_masked"}, "overhead": {"fit_over_inline", "peers_over_inline"}}
ARGUMENTS = {"overhead": ["--rounds", "1"]}
OTHERS = {"cure", "doctor", "imports", "kill"}  # have tests of their own


@pytest.mark.slow
@pytest.mark.parametrize("name", RATIOS)
def test_a_benchmark_ends_with_one_json_line_of_its_ratios(name):
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *ARGUMENTS.get(name, [])]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert finished.returncode == 0, finished.stderr
    ratios = json.loads(finished.stdout.splitlines()[-1])
    assert set(ratios) == RATIOS[name]
    figures = [one for value in ratios.values() for one in (value.values() if isinstance(value, dict) else [value])]
    assert all(value > 0 for value in figures)


def test_there_is_a_test_for_every_benchmark():
    modules = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"__init__", "measuring", "peers"}
    assert modules - OTHERS == set(RATIOS)


def test_contestants_take_turns_and_the_first_round_does_not_count():
    order = []
    seconds = median_seconds({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2)
    assert order == ["a", "b"] * 3 and set(seconds) == {"a", "b"}
