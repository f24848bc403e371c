"""The map of the course: what it shows of a learner's progress, in colour, in grey and in words."""

import matplotlib.colors
import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from labkit import exercises, show
from labkit.exercises import Chapter, Exercise, progress


def chapter(name: str, *names: str) -> Chapter:
    return Chapter(name, [Exercise(each, "", "", "", ("one", "two"), lambda generator: []) for each in names])


@pytest.fixture(autouse=True)
def course(tmp_path, monkeypatch):
    """Ten exercises in chapter 01, so that its row has two lines, and one in chapter 02."""
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))
    ten = chapter("01_tensors", *(f"task_{number}" for number in range(10)))
    monkeypatch.setattr(exercises, "_all_chapters", lambda: [ten, chapter("02_autograd", "leaf")])


def boxes(picture: show.Picture) -> list:
    return picture.figure.axes[0].patches


def test_before_the_first_answer_the_map_is_friendly():
    picture = show.progress_map()
    assert picture.summary == "Nothing tried yet: 11 exercises to come; the first is task_0 in 01_tensors."
    assert {row["state"] for row in picture.data} == {"not tried"} and len(boxes(picture)) == 11
    assert picture.png()


def test_every_exercise_is_a_box_in_the_row_of_its_chapter_with_its_state():
    progress.record_check("01_tensors", "task_0", "right")
    progress.record_check("01_tensors", "task_9", "wrong")
    picture = show.progress_map()
    assert [label.get_text() for label in picture.figure.axes[0].get_yticklabels()] == [
        "01 tensors\n1 of 10",
        "",
        "02 autograd\n0 of 1",
    ]
    states = {row["exercise"]: row["state"] for row in picture.data}
    assert states["task_0"] == "right" and states["task_9"] == "not right yet" and states["leaf"] == "not tried"
    assert [int(box.get_y()) for box in boxes(picture)] == [0] * 8 + [1] * 2 + [2]
    legend = [text.get_text() for text in picture.figure.legends[0].get_texts()]
    assert legend == ["right: 1", "not right yet: 1", "not tried: 9"]


def test_the_states_can_be_told_apart_without_colour():
    progress.record_check("01_tensors", "task_0", "right")
    progress.record_check("01_tensors", "task_1", "raised")
    looks = []
    for box in boxes(show.progress_map())[:3]:
        red, green, blue, _ = matplotlib.colors.to_rgba(box.get_facecolor())
        looks.append((0.3 * red + 0.59 * green + 0.11 * blue, box.get_hatch()))
    (right, _), (begun, hatch), (waiting, no_hatch) = looks
    assert right < 0.3 and begun > 0.7 and waiting == pytest.approx(1) and hatch and not no_hatch


def test_a_course_without_exercises_has_a_map_too(monkeypatch):
    monkeypatch.setattr(exercises, "_all_chapters", list)
    assert show.progress_map().summary == "Nothing tried yet: 0 exercises to come."


def test_progress_can_be_given():
    given = {"chapters": {"02_autograd": {"exercises": {"leaf": {"checks": {"right": 1}}}}}, "claims": {}}
    assert show.progress_map(given).summary == "1 of 11 exercises right, 0 begun. Next: task_0 in 01_tensors."


def test_the_control_leaves_a_static_map_and_its_button_reads_anew():
    control = show.progress_control()
    shell = InteractiveShell.instance()
    publisher, shell.display_pub = shell.display_pub, CapturingDisplayPublisher()
    try:
        control._ipython_display_()
        outputs = shell.display_pub.outputs
        button, picture = (output["data"] for output in outputs[:2])
        assert "application/vnd.jupyter.widget-view+json" in button
        assert button["text/plain"] == "A button in JupyterLab, once this cell has run: refresh."
        assert picture["text/plain"].startswith("Nothing tried yet") and "image/png" in picture
        progress.record_check("02_autograd", "leaf", "right")
        control._button.click()  # what a browser does
        assert outputs[2]["update"] is True and outputs[2]["transient"] == outputs[1]["transient"]
        assert outputs[2]["data"]["text/plain"] == control.picture.summary
        assert control.refresh().summary.startswith("1 of 11 exercises right")
    finally:
        shell.display_pub = publisher
        InteractiveShell.clear_instance()
