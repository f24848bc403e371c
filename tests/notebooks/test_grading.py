"""The instructor edition of a chapter with exercises in the hands of the real nbgrader."""

import csv
import importlib.util
import shutil
from pathlib import Path

import nbformat
import pytest
from programs import run

from labkit.course import builder, expansion

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("nbgrader") is None,
        reason='nbgrader is not installed; `pip install -e ".[grading]"` brings it',
    ),
]


@pytest.fixture(scope="module")
def chapter(with_exercises):
    """The first chapter with exercises; the others have the same cells."""
    return with_exercises[0]


@pytest.fixture(scope="module")
def course(chapter, tmp_path_factory) -> Path:
    """A course of nbgrader with the chapter as an assignment that is ready for learners."""
    folder = tmp_path_factory.mktemp("course")
    source = folder / "source" / "chapters"
    run("labkit", "solve", chapter.name, "--out", source)
    (source / "nbgrader_config.py").rename(folder / "nbgrader_config.py")
    run("nbgrader", "generate_assignment", "chapters", folder=folder)
    return folder


@pytest.fixture(scope="module")
def expected(course, chapter) -> dict[str, int]:
    """What three learners hand in is graded: none, every other, all exercises answered. Their points, by name."""
    handed_in = {
        "untouched": submit(course, chapter, "untouched", slice(0)),
        "half": submit(course, chapter, "half", slice(None, None, 2)),
        "right": submit(course, chapter, "right", slice(None)),
    }
    run("nbgrader", "autograde", "chapters", folder=course)
    return handed_in


def submit(course: Path, chapter, student: str, answered: slice) -> int:
    """Hand in the assignment with some of the exercises answered, and return the points that these are worth."""
    target = course / "submitted" / student / "chapters"
    shutil.copytree(course / "release" / "chapters", target)
    path, points = target / chapter.notebook.name, 0
    solved = {exercise.name: exercise for exercise in expansion.declared(chapter).exercises[answered]}
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if exercise := solved.get(cell.metadata.get("exercise")):
            cell.source = exercise.solved
            points += exercise.points
    nbformat.write(notebook, path)
    return points


def test_what_nbgrader_releases_is_the_learners_notebook(course, chapter):
    released = nbformat.read(course / "release" / "chapters" / chapter.notebook.name, as_version=4)
    ours = builder.read_source(chapter)
    assert [(cell.cell_type, cell.source) for cell in released.cells] == [
        (cell.cell_type, cell.source) for cell in ours.cells
    ]
    assert "labkit" not in released.metadata and not any("learner" in cell.metadata for cell in released.cells)


def test_stubs_get_nothing_and_right_answers_their_points(course, chapter, expected):
    run("nbgrader", "export", folder=course)
    with open(course / "grades.csv", encoding="utf-8", newline="") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    whole = sum(exercise.points for exercise in expansion.declared(chapter).exercises)
    assert 0 == expected["untouched"] < expected["half"] <= expected["right"] == whole
    assert {student: float(row["score"]) for student, row in rows.items()} == expected
    assert {float(row["max_score"]) for row in rows.values()} == {whole}


def test_an_untouched_notebook_fails_nowhere_but_in_the_tests_that_learners_do_not_see(course, chapter, expected):
    graded = nbformat.read(course / "autograded" / "untouched" / "chapters" / chapter.notebook.name, as_version=4)
    for cell in graded.cells:
        failed = any(output.output_type == "error" for output in cell.get("outputs", []))
        assert failed == ("check" in cell.metadata), cell.source
