import practice
import pytest
import torch

from labkit import exercises
from labkit.errors import LabkitError
from labkit.exercises import Chapter, Prediction, progress


@pytest.fixture
def chapter(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    prediction = Prediction(
        "promotion",
        "Which dtype has an int64 tensor plus 0.5?",
        "float32",
        {"float32": "Floats win.", "int64": "Nothing is cut off.", "float64": "That is NumPy."},
    )
    return Chapter("90_practice", [practice.column_means(), practice.labels()], [prediction])


def test_a_check_says_the_result_and_records_it_and_returns_nothing(chapter, capsys):
    assert chapter.column_means.check(lambda x: x.mean(dim=1)) is None
    assert "Not yet: rows for columns." in capsys.readouterr().out
    chapter.column_means.check(lambda x: x.mean(dim=0))
    assert capsys.readouterr().out.startswith("Right. 3 cases agree.")
    kept = progress.read()["chapters"]["90_practice"]["exercises"]["column_means"]
    assert kept["misconceptions"] == {"rows for columns": 1}
    assert kept["checks"]["right"] == 1


def test_checking_nothing_is_not_attempted(chapter, capsys):
    chapter.labels.check()
    assert capsys.readouterr().out == "labels is not attempted yet: replace the `...`.\n"
    chapter.labels.check(...)  # replaced since, perhaps, and the cell was not run
    assert "run that cell" in capsys.readouterr().out


@pytest.mark.parametrize("guess", ["FLOAT32", " float 32", "'float32'"])
def test_blanks_capitals_and_quotation_marks_of_a_guess_do_not_count(chapter, guess):
    assert chapter.promotion.judge(guess, torch.float32).is_right
    chapter.promotion.reveal(guess, torch.float32)
    assert "float32" in str(progress.read()["chapters"]["90_practice"])


def test_hints_come_one_after_the_other_and_any_of_them_by_its_number(chapter, capsys):
    exercise = chapter.column_means
    said = []
    for level in (None, None, None, 1, 9):
        exercise.hint(level)
        said.append(capsys.readouterr().out)
    assert said[0].startswith("Hint 1 of 2.") and said[1].startswith("Hint 2 of 2.")
    assert "solution()" in said[1] and "solution()" not in said[0]
    assert said[2] == said[1] and said[3] == said[0]
    assert "has the hints 1 to 2" in said[4]


def test_the_solution_is_shown_only_when_asked_for(chapter, capsys):
    chapter.column_means.solution()
    assert "return x.mean(dim=0)" in capsys.readouterr().out
    assert "return x.mean(dim=0)" not in repr(chapter.column_means) + repr(chapter)


@pytest.mark.parametrize(
    ("guess", "outcome", "says"),
    [
        (..., "not attempted", "Measured: float32. You have not predicted yet."),
        ("float32", "right", "As you predicted: float32. Floats win."),
        (torch.float32, "right", "As you predicted: float32."),
        ("int64", "wrong", "You predicted int64, measured is float32. Nothing is cut off."),
        ("floaty", "wrong", "`floaty` is not among the answers: `float32`, `int64`, `float64`."),
    ],
)
def test_a_prediction_is_compared_with_the_measurement(chapter, guess, outcome, says, capsys):
    measured = (torch.tensor([1]) + 0.5).dtype
    assert chapter.promotion.judge(guess, measured).outcome == outcome
    chapter.promotion.reveal(guess, measured)
    assert says in capsys.readouterr().out


def test_a_measurement_that_the_course_does_not_know_is_said(chapter):
    assert "not the tested one" in chapter.promotion.judge("int64", torch.float16).plain


def test_a_misspelt_name_gets_the_nearest(chapter):
    with pytest.raises(LabkitError, match="no exercise 'colum_means'. Did you mean 'column_means'"):
        chapter["colum_means"]
    with pytest.raises(AttributeError, match="Did you mean 'labels'"):
        _ = chapter.label
    assert set(dir(chapter)) == {"column_means", "labels", "promotion"}


def test_a_chapter_is_found_by_name_or_number_and_an_unknown_one_lists_the_others():
    for name in exercises.names():
        assert exercises.load(name) is exercises.load(name.split("_")[0])
    with pytest.raises(LabkitError, match="There are no exercises for '77'"):
        exercises.load("77")
