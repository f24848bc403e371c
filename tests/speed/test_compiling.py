"""Graphs are counted without a compiler; where one is missing, a sentence says so and nothing fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from labkit.speed import CountingBackend, graph_breaks, graphs_after

ROOT = Path(__file__).resolve().parents[2]


def in_one_graph(x):
    return torch.where(x.sum() > 0, x * 2, x - 1)


def with_a_branch(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def test_the_backend_notes_operations_and_changes_no_result():
    torch._dynamo.reset()
    backend, x = CountingBackend(), torch.arange(3.0)
    assert torch.equal(torch.compile(in_one_graph, backend=backend)(x), in_one_graph(x))
    assert len(backend.graphs) == 1 and "where" in backend.graphs[0]


def test_a_branch_on_a_value_makes_two_graphs_of_one_and_is_named():
    calls = [(torch.ones(3),), (-torch.ones(3),), (torch.ones(3),)]
    assert graphs_after(in_one_graph, calls) == [1, 1, 1]
    assert graphs_after(with_a_branch, calls) == [2, 3, 3]  # the other branch is a graph of its own
    found = graph_breaks(with_a_branch, torch.ones(3))
    [row] = found.rows
    assert row == {"line": "if x.sum() > 0:", "reason": "a branch on the value of a tensor"}
    assert found.caption == "2 graphs, 1 breaks"
    assert graph_breaks(in_one_graph, torch.ones(3)).rows == []


def test_new_sizes_compile_again_until_sizes_are_known_to_change():
    calls = [(torch.ones(size),) for size in (3, 4, 5, 6)]
    assert graphs_after(in_one_graph, calls, dynamic=False) == [1, 2, 3, 4]
    assert graphs_after(in_one_graph, calls) == [1, 2, 2, 2]


@pytest.mark.slow
def test_without_a_compiler_a_sentence_says_so(tmp_path):
    program = "import torch\nfrom labkit.speed import measure\nprint(measure('compile'))"
    changed = {"PATH": str(tmp_path), "CXX": "no-such-compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | changed
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "as written" in done.stdout and "torch.compile cannot translate on this computer" in done.stdout
    assert "compiled  " not in done.stdout
