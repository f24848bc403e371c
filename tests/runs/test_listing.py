"""Runs side by side: what was done differently, and what came of it."""

import json

import pytest

from labkit.errors import CheckpointError
from labkit.runs.listing import compare
from labkit.runs.reading import read
from tests.runs.small_runs import small_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # outside of any repository, whose state may change between two runs
        small_run(folder, "a")
        small_run(folder, "b", learning_rate=0.01, epochs=1)
        small_run(folder, "c")
    return folder


def test_only_what_differs_is_shown_and_the_results_stand_beside(folder):
    first, second = read(folder / "a"), read(folder / "b")
    comparison = compare([first, second])
    assert comparison.differences.rows == [
        {"what": "epochs", "a": 2, "b": 1},
        {"what": "learning_rate", "a": 0.02, "b": 0.01},
    ]
    results = {row["what"]: (row["a"], row["b"]) for row in comparison.results.rows}
    assert results["epochs"] == (2, 1) and results["status"] == ("finished", "finished")
    assert results["val loss"] == (first.history[-1]["val_loss"], second.history[-1]["val_loss"])
    assert "What differs" in str(comparison) and "What came of it" in comparison._repr_html_()
    assert json.loads(json.dumps(comparison.to_dict()))["differences"] == comparison.differences.rows


def test_surroundings_are_compared_too(folder, tmp_path):
    changed = read(folder / "a").facts
    changed["versions"]["torch"], changed["hardware"]["cpu"], changed["git"] = "0.1", "Babbage", {"commit": "abc"}
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").write_text(json.dumps(changed), encoding="utf-8")
    comparison = compare([read(folder / "a"), read(tmp_path / "a")])
    here, there = str(folder / "a"), str(tmp_path / "a")  # the same name twice: then it is the paths
    found = {row["what"]: row[there] for row in comparison.differences.rows}
    assert found["versions torch"] == "0.1" and found["hardware cpu"] == "Babbage" and found["git commit"] == "abc"
    assert comparison.results.rows[1] == {"what": "epochs", here: 2, there: 0}


def test_equal_runs_and_damaged_ones_can_be_compared(folder, tmp_path):
    assert "are the same in all of them" in str(compare([read(folder / "a"), read(folder / "c")]))
    (tmp_path / "empty").mkdir()
    comparison = compare([read(folder / "a"), read(tmp_path / "empty")])
    assert comparison.results.rows[0] == {"what": "status", "a": "finished", "empty": "damaged"}


def test_one_run_or_the_same_twice_is_refused(folder):
    with pytest.raises(CheckpointError, match="two or more"):
        compare([read(folder / "a")])
    with pytest.raises(CheckpointError, match="named twice"):
        compare([read(folder / "a"), read(folder / "." / "a")])
