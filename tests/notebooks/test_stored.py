"""The notebooks in the repository are what a fresh build of their text gives, and keep the rules of the course."""

from pathlib import Path

import pytest

from labkit.course import builder, compare, expansion, rules

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def test_there_are_chapters_and_each_has_its_notebook_and_no_notebook_is_without_text(chapters):
    names = {chapter.name for chapter in chapters}
    assert {"00_start_here", "05_training_loop", "09_cifar10"} <= names
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == names


def test_text_ids_and_metadata_are_those_of_the_source(chapter):
    assert compare.text_difference(builder.read_stored(chapter), builder.read_source(chapter)) == ""


def test_every_rule_is_kept(chapter):
    assert rules.problems(builder.read_stored(chapter), expansion.declared(chapter)) == []


def test_the_parameters_are_checked_in_the_cell_after_theirs(chapter):
    code = [cell.source for cell in builder.read_stored(chapter).cells if cell.cell_type == "code"]
    assert "chosen = parameters(globals())" in code[1].splitlines()


def test_learners_get_no_solution_and_every_check_says_not_attempted(chapter):
    lab = expansion.declared(chapter)
    notebook = builder.read_stored(chapter)
    checks = [cell for cell in notebook.cells if "check" in cell.metadata]
    assert [cell.metadata["check"] for cell in checks] == ([exercise.name for exercise in lab.exercises] if lab else [])
    for cell in checks:
        exercise = lab[cell.metadata["check"]]
        assert [output.data["text/plain"] for output in cell.outputs] == [exercise.judge(...).plain]
        lines = {line.strip() for line in exercise.solved.splitlines()} - {"", "pass"}
        for part in notebook.cells:
            missing = lines - {line.strip() for line in part.source.splitlines()}
            assert missing, f"the solution of {exercise.name} stands in a cell"


def test_papermill_shows_type_and_help_of_every_parameter(declared):
    assert "fast" in declared
    for parameter in declared.values():
        assert parameter["inferred_type_name"] in ("str", "int", "float", "bool", "list", "dict")
        assert parameter["help"]


@pytest.mark.slow
def test_outputs_are_those_of_a_fresh_build(chapter):
    assert builder.check(chapter).explanation == ""
