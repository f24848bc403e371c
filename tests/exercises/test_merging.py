"""A room of learners, each with a file: what an instructor reads from it."""

import json
from pathlib import Path

import pytest

from labkit.errors import LabkitError
from labkit.exercises import merging, progress

pytestmark = pytest.mark.usefixtures("two_chapters")


@pytest.fixture
def learner(tmp_path, monkeypatch):
    """Make the file of a learner whose checks are given as (exercise, outcome, wrong idea)."""

    def make(name: str, *checks: tuple) -> Path:
        path = tmp_path / f"{name}.json"
        monkeypatch.setenv("LABKIT_PROGRESS", str(path))
        progress.record_opened("01_tensors")
        for check in checks:
            progress.record_check("01_tensors", *check)
        return path

    return make


@pytest.fixture
def room(learner) -> list[Path]:
    """Three are stuck at column_means, two of them on the same idea; three came through by another idea."""
    rows, kept, averaged = "rows for columns", "a matrix is kept", "one mean of all"
    through = [("column_means", "wrong", averaged), ("column_means", "right"), ("labels", "right")]
    return [
        learner("a", *[("column_means", "wrong", kept)] * 20),
        learner("b", ("column_means", "wrong", rows)),
        learner("c", ("column_means", "wrong", rows), ("column_means", "raised")),
        *(learner(name, *through) for name in "def"),
    ]


def test_a_room_is_stuck_where_most_tried_and_are_not_right(room):
    merged = merging.merge(room)
    assert merged.learners == 6
    assert merged.exercises.rows == [
        {
            "chapter": "01_tensors",
            "exercise": "column_means",
            "tried": 6,
            "right": 3,
            "stuck": 3,
            "hint": 0,
            "solution": 0,
            "most frequent wrong idea": "rows for columns",
            "of them": 2,
        },
        {
            "chapter": "01_tensors",
            "exercise": "labels",
            "tried": 3,
            "right": 3,
            "stuck": 0,
            "hint": 0,
            "solution": 0,
            "most frequent wrong idea": "",
            "of them": 0,
        },
    ]


def test_the_idea_is_explained_in_a_sentence(room):
    merged = merging.merge(room)
    assert merged.ideas == {"column_means, rows for columns": "`dim=1` goes along a row."}
    assert "column_means, rows for columns: `dim=1` goes along a row." in str(merged)


def test_where_nobody_is_stuck_the_idea_that_most_met_is_named(room):
    (row, _) = merging.merge(room[3:]).exercises.rows
    assert (row["stuck"], row["most frequent wrong idea"], row["of them"]) == (0, "one mean of all", 3)


def test_no_names_unless_the_learner_gave_one(room, learner):
    assert not any("by name" in column for column in merging.merge(room).exercises.columns)
    ada = learner("g", ("column_means", "wrong"), ("labels", "right"))
    progress.record_name("Ada")
    rows = merging.merge([*room, ada]).exercises.rows
    assert [row["stuck by name"] for row in rows] == ["Ada", ""]


def test_predictions_and_claims_count_the_first_answer(learner):
    files = []
    for name, guess in (("a", "float64"), ("b", "float64"), ("c", "float32")):
        files.append(learner(name))
        progress.record_prediction("01_tensors", "promotion", guess, guess == "float32")
        progress.record_prediction("01_tensors", "promotion", "float32", True)
        progress.record_claim("C041", "false", True)
    merged = merging.merge(files)
    assert merged.predictions.rows == [
        {
            "prediction": "01_tensors: promotion",
            "answered": 3,
            "right at once": 1,
            "most frequent wrong answer": "float64",
            "of them": 2,
        }
    ]
    assert merged.claims.rows[0]["claim"] == "C041" and merged.claims.rows[0]["right at once"] == 3


def test_errors_are_counted_by_learners_and_by_times(learner):
    files = [learner("a")]
    for _ in range(5):
        progress.record_error("01_tensors", "IndexError")
    for name in "bc":
        files.append(learner(name))
        progress.record_error("01_tensors", "RuntimeError")
    assert merging.merge(files).errors.rows == [
        {"chapter": "01_tensors", "error": "RuntimeError", "learners": 2, "times": 2},
        {"chapter": "01_tensors", "error": "IndexError", "learners": 1, "times": 5},
    ]


def test_a_broken_file_is_named_and_left_out_and_one_named_twice_counts_once(room, tmp_path):
    broken, missing = tmp_path / "broken.json", tmp_path / "missing.json"
    broken.write_text("{", encoding="utf-8")
    merged = merging.merge([room[0], broken, missing, tmp_path / "." / room[0].name])
    assert merged.learners == 1
    assert [
        sentence.count(name) for sentence, name in zip(merged.left_out, ("broken.json", "missing.json"), strict=True)
    ]
    assert "Left out: " in str(merged) and "broken.json is damaged" in str(merged)
    with pytest.raises(LabkitError, match=r"no progress file.*broken\.json is damaged"):
        merging.merge([broken])


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"chapters": {"01_tensors": {}}, "claims": {"C041": {}}},
        {"chapters": {"01_tensors": {"exercises": {"column_means": {"checks": {}}}, "predictions": {"promotion": {}}}}},
        {"chapters": {"77_gone": {"exercises": {"gone": {"checks": {"wrong": 1}, "misconceptions": {"gone": 1}}}}}},
    ],
)
def test_a_file_with_parts_missing_or_unknown_is_read(content, tmp_path):
    path = tmp_path / "progress.json"
    path.write_text(json.dumps({"schema": 1} | content), encoding="utf-8")
    merged = merging.merge([path])
    assert merged.learners == 1 and str(merged).startswith("1 learner.")


def test_json_holds_the_same(room):
    content = json.loads(json.dumps(merging.merge(room).to_dict()))
    assert content["learners"] == 6 and content["left_out"] == []
    assert content["exercises"][0]["most frequent wrong idea"] == "rows for columns"


def test_a_name_as_long_as_a_book_is_cut(learner):
    path = learner("a", ("column_means", "raised"))
    progress.record_name("Ada " * 1000)
    (row,) = merging.merge([path]).exercises.rows
    assert row["stuck by name"] == "Ada Ada Ada Ada Ada Ada Ada Ada Ada …"
