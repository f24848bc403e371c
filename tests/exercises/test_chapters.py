"""For every exercise of every chapter: the solution is right, the stub not attempted, each wrong idea is recognised."""

import pytest

from labkit import exercises
from labkit.course import rules
from labkit.exercises.declaration import defined_by

CHAPTERS = [exercises.load(name) for name in exercises.names()]
EXERCISES = [exercise for chapter in CHAPTERS for exercise in chapter.exercises]
PREDICTIONS = [prediction for chapter in CHAPTERS for prediction in chapter.predictions]
MISCONCEPTIONS = [(exercise, wrong) for exercise in EXERCISES for wrong in exercise.misconceptions]
#: The learner's inputs differ from attempt to attempt; what is said may not.
ATTEMPTS = [pytest.param(range(2), id="first"), pytest.param(range(2, 5), id="later", marks=pytest.mark.slow)]


def ids(values):
    return [f"{value.chapter}-{value.name}" for value in values]


@pytest.mark.parametrize("attempts", ATTEMPTS)
@pytest.mark.parametrize("exercise", EXERCISES, ids=ids(EXERCISES))
def test_the_solution_is_right(exercise, attempts):
    for attempt in attempts:
        result = exercise.judge(defined_by(exercise.solved, exercise.name), attempt)
        assert result.outcome == "right", result.plain


@pytest.mark.parametrize("exercise", EXERCISES, ids=ids(EXERCISES))
def test_the_stub_is_not_attempted(exercise):
    assert "..." in exercise.stub
    assert exercise.judge(defined_by(exercise.stub, exercise.name)).outcome == "not attempted"


@pytest.mark.parametrize("attempts", ATTEMPTS)
@pytest.mark.parametrize(
    ("exercise", "wrong"), MISCONCEPTIONS, ids=[f"{one.chapter}-{one.name}-{bad.name}" for one, bad in MISCONCEPTIONS]
)
def test_each_wrong_idea_is_wrong_with_exactly_its_diagnosis(exercise, wrong, attempts):
    for attempt in attempts:
        result = exercise.judge(wrong.answer, attempt)
        assert (result.outcome, result.misconception) == ("wrong", wrong.name), result.plain
        assert wrong.explanation in result.markdown


@pytest.mark.parametrize("exercise", EXERCISES, ids=ids(EXERCISES))
def test_the_texts_of_an_exercise_are_complete(exercise):
    assert 2 <= len(exercise.hints) <= 4
    assert len(set(exercise.hints)) == len(exercise.hints)
    assert exercise.prompt.strip() and exercise.misconceptions
    names = [wrong.name for wrong in exercise.misconceptions]
    assert len(set(names)) == len(names)
    last_line = exercise.solved.strip().splitlines()[-1].strip()
    assert last_line not in exercise.prompt + exercise.stub, "the solution stands in the prompt or in the stub"
    answer = [part.removeprefix("return ") for part in rules.telling_parts(exercise)]
    for hint in exercise.hints[:-1]:
        assert not all(part in " ".join(hint.split()) for part in answer), "an early hint gives the solution away"


@pytest.mark.parametrize("prediction", PREDICTIONS, ids=ids(PREDICTIONS))
def test_a_prediction_has_an_explanation_for_each_choice_and_says_which_is_right(prediction):
    assert prediction.answer in prediction.choices and len(prediction.choices) >= 2
    assert all(text.strip() for text in prediction.choices.values())
    assert prediction.judge(prediction.answer, prediction.answer).outcome == "right"
    assert prediction.judge(..., prediction.answer).outcome == "not attempted"
    for other in set(prediction.choices) - {prediction.answer}:
        result = prediction.judge(other, prediction.answer)
        assert result.outcome == "wrong" and prediction.choices[other] in result.markdown


def test_names_are_unique_within_a_chapter():
    for chapter in CHAPTERS:
        names = [part.name for part in chapter]
        assert len(set(names)) == len(names)
