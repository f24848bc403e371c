"""The benchmark of imports starts real processes and ends with one JSON line."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_ends_with_one_json_line():
    command = [sys.executable, "-m", "benchmarks.imports", "--rounds", "1", "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=ROOT, check=True)
    figures = json.loads(answer.stdout.splitlines()[-1])
    assert list(figures) == ["import_ms", "imports_torch", "help_seconds"]
    assert figures["imports_torch"] is False and figures["help_seconds"] > 0
