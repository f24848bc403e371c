"""For every chapter: other ways are right too, a changed input is told, predictions hold; and it has enough of each."""

import autograd_answers
import checkpoints_answers
import data_answers
import learning_answers
import loop_answers
import models_answers
import pytest
import speed_answers
import tensors_answers

from labkit import exercises
from labkit.exercises.parts import PARTS

ANSWERS = {
    "01_tensors": tensors_answers,
    "02_autograd": autograd_answers,
    "03_data": data_answers,
    "04_models": models_answers,
    "05_training_loop": loop_answers,
    "06_checkpoints": checkpoints_answers,
    "07_when_it_does_not_learn": learning_answers,
    "08_speed": speed_answers,
}
OF_THE_PARTS = {part.name for part in PARTS.values()}  # their other ways are in own_parts


def cases(kind):
    """Return (chapter, exercise or prediction, one entry) for each entry of a dictionary in the modules of answers."""
    return [
        pytest.param(exercises.load(chapter), name, one, id=f"{chapter}-{name}-{number}")
        for chapter, module in ANSWERS.items()
        for name, entries in getattr(module, kind).items()
        for number, one in enumerate(entries if isinstance(entries, list) else [entries], start=1)
    ]


@pytest.mark.parametrize(("chapter", "name", "answer"), cases("OTHER_WAYS"))
def test_another_way_to_the_same_result_is_right(chapter, name, answer):
    for attempt in range(3):
        result = chapter[name].judge(answer, attempt)
        assert result.outcome == "right", result.plain


@pytest.mark.parametrize(("chapter", "name", "answer"), cases("CHANGES_ITS_INPUT"))
def test_a_function_that_changes_its_input_is_told_so(chapter, name, answer):
    result = chapter[name].judge(answer)
    assert result.outcome == "wrong" and "changes its input" in result.plain


@pytest.mark.parametrize(("chapter", "name", "measure"), cases("MEASURED"))
def test_a_prediction_holds(chapter, name, measure):
    prediction = chapter[name]
    assert prediction.judge(prediction.answer, measure()).is_right


@pytest.mark.parametrize("name", exercises.names())
def test_every_exercise_has_at_least_three_other_ways(name):
    ways = ANSWERS[name].OTHER_WAYS
    assert set(ways) == {exercise.name for exercise in exercises.load(name).exercises} - OF_THE_PARTS
    assert all(len(answers) >= 3 for answers in ways.values())


@pytest.mark.parametrize("name", exercises.names())
def test_a_chapter_has_what_a_chapter_has(name):
    chapter = exercises.load(name)
    assert 8 <= len(chapter.exercises) <= 12
    assert sum(len(exercise.misconceptions) for exercise in chapter.exercises) >= 25
    assert len(chapter.predictions) == 5
    assert all(part.chapter == name for part in chapter)
