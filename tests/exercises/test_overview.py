"""Progress beside the exercises that there are."""

import pytest

from labkit.exercises import overview, progress


@pytest.fixture(autouse=True)
def own(two_chapters, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))


def states() -> dict[str, str]:
    return {row["exercise"]: row["state"] for row in overview.exercise_rows(progress.read())}


def test_before_the_first_answer_everything_is_to_come():
    assert states() == {"column_means": "not tried", "labels": "not tried", "leaf": "not tried"}
    said = "Nothing tried yet: 3 exercises to come; the first is column_means in 01_tensors."
    assert overview.summary(progress.read()) == said
    assert overview.claims_sentence(progress.read()) == "Claims: none answered yet."


def test_a_begun_exercise_comes_next_before_one_that_waits():
    progress.record_check("01_tensors", "labels", "raised")
    progress.record_hint("01_tensors", "column_means", 1)
    assert states() == {"column_means": "not tried", "labels": "not right yet", "leaf": "not tried"}
    assert overview.summary(progress.read()) == "0 of 3 exercises right, 1 begun. Next: labels in 01_tensors."


def test_right_once_stays_right_and_the_rest_comes_next():
    progress.record_check("01_tensors", "labels", "right")
    progress.record_check("01_tensors", "labels", "wrong")
    assert states()["labels"] == "right"
    assert overview.summary(progress.read()) == "1 of 3 exercises right, 0 begun. Next: column_means in 01_tensors."
    for chapter, name in (("01_tensors", "column_means"), ("02_autograd", "leaf")):
        progress.record_check(chapter, name, "right")
    assert overview.summary(progress.read()) == "All 3 exercises are right."


def test_the_table_has_a_line_for_each_chapter_with_what_it_took():
    progress.record_check("01_tensors", "labels", "right")
    progress.record_check("01_tensors", "column_means", "wrong", "rows for columns")
    progress.record_hint("01_tensors", "column_means", 2)
    progress.record_solution("01_tensors", "column_means")
    progress.record_prediction("01_tensors", "promotion", "float64", False)
    progress.record_error("01_tensors", "RuntimeError")
    progress.record_claim("C041", "true", False)
    progress.record_claim("C042", "true", True)
    table = overview.chapter_table(progress.read())
    assert table.rows[0] == {
        "chapter": "01_tensors",
        "exercises": 2,
        "right": 1,
        "not right yet": 1,
        "with a hint": 1,
        "solution seen": 1,
        "predicted rightly": "0 of 1",
        "errors met": 1,
    }
    assert [row["chapter"] for row in table.rows] == ["01_tensors", "02_autograd"]
    assert overview.claims_sentence(progress.read()) == "Claims: 2 answered, 1 of them rightly."


def test_what_the_course_no_longer_has_does_no_harm():
    progress.record_check("01_tensors", "renamed_since", "right")
    progress.record_check("77_gone", "column_means", "right")
    assert overview.summary(progress.read()).startswith("Nothing tried yet")
