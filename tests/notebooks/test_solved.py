"""`labkit solve all`: every chapter with its answers, each of which its own check calls right."""

from pathlib import Path

import nbformat
import pytest
from programs import ROOT, run

from labkit.course import expansion
from labkit.exercises.declaration import defined_by

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def solved(tmp_path_factory) -> Path:
    """The folder of all instructor editions."""
    folder = tmp_path_factory.mktemp("editions")
    printed = run("labkit", "solve", "all", "--out", folder).splitlines()
    assert [line.split()[0] for line in printed] == [path.stem for path in sorted(folder.glob("*.ipynb"))]
    return folder


def test_every_chapter_has_an_edition_with_its_times_and_without_errors(solved, chapters):
    assert sorted(path.name for path in solved.glob("*.ipynb")) == [chapter.notebook.name for chapter in chapters]
    for chapter in chapters:
        notebook = nbformat.read(solved / chapter.notebook.name, as_version=4)
        assert "| **all cells** |" in notebook.cells[1].source
        assert all(output.output_type != "error" for cell in notebook.cells for output in cell.get("outputs", []))


def test_every_check_says_right_and_every_prediction_holds(solved, with_exercises):
    for chapter in with_exercises:
        lab = expansion.declared(chapter)
        notebook = nbformat.read(solved / chapter.notebook.name, as_version=4)
        checks = {cell.metadata["check"]: cell for cell in notebook.cells if "check" in cell.metadata}
        assert sorted(checks) == sorted(exercise.name for exercise in lab.exercises)
        for name, cell in checks.items():
            right = lab[name].judge(defined_by(lab[name].solved, name))
            assert right.is_right and [output.data["text/plain"] for output in cell.outputs] == [right.plain]
        for prediction in lab.predictions:
            (cell,) = [cell for cell in notebook.cells if f"lab.{prediction.name}.reveal(" in cell.source]
            held = prediction.judge(prediction.answer, prediction.answer).plain
            assert held in [output.get("data", {}).get("text/plain") for output in cell.outputs]


@pytest.mark.parametrize(
    "turn", [0, *[pytest.param(turn, marks=pytest.mark.exhaustive) for turn in (1, 2)]]
)  # every third edition: the builder has run them all already
def test_the_editions_run_where_they_lie(solved, with_exercises, turn):
    editions = [solved / chapter.notebook.name for chapter in with_exercises[turn::3]]
    run("pytest", "--nbval-lax", "-q", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml", *editions)
