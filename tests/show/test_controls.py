"""Controls without a browser: set a value, read state and picture."""

import pytest
import torch
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from matplotlib.figure import Figure

from labkit import show
from labkit.errors import ConfigError
from labkit.training import Predictions


def note(kind: str, updates: int) -> show.Picture:
    """A pure function of the state that is cheap to draw."""
    return show.Picture(Figure(figsize=(1, 1)), [{"kind": kind, "updates": updates}], f"{kind} over {updates}")


@pytest.fixture
def control() -> show.Control:
    return show.Control(note, kind=["constant", "cosine"], updates=[10, 20, 30])


def test_a_control_starts_with_the_first_choices(control):
    assert control.state == {"kind": "constant", "updates": 10}
    assert control.picture.summary == "constant over 10"


def test_moving_one_slider_redraws_with_the_whole_state(control):
    assert control.set(updates=30).summary == "constant over 30"
    assert control.set(kind="cosine").summary == "cosine over 30"
    assert control.state == {"kind": "cosine", "updates": 30}


def test_the_slider_itself_moves_the_picture(control):
    control._sliders["kind"].value = "cosine"  # what a browser does
    assert control.picture.summary == "cosine over 10"


@pytest.mark.parametrize(
    ("state", "sentence"),
    [({"speed": 1}, "has no 'speed'; it has kind, updates"), ({"updates": 11}, "it can be 10, 20, 30")],
)
def test_an_impossible_state_is_refused_and_nothing_moves(control, state, sentence):
    with pytest.raises(ConfigError, match=sentence):
        control.set(kind="cosine", **state)
    assert control.state == {"kind": "constant", "updates": 10}


def test_a_control_leaves_sliders_and_a_static_picture(control):
    shell = InteractiveShell.instance()
    publisher, shell.display_pub = shell.display_pub, CapturingDisplayPublisher()
    try:
        control._ipython_display_()
        outputs = shell.display_pub.outputs
        sliders, picture = (output["data"] for output in outputs[:2])
        assert "application/vnd.jupyter.widget-view+json" in sliders
        assert sliders["text/plain"] == "Sliders in JupyterLab, once this cell has run: kind, updates."
        assert picture["text/plain"] == "constant over 10"
        assert "image/png" in picture
        control.set(kind="cosine")
        assert outputs[2]["update"] is True
        assert outputs[2]["data"]["text/plain"] == "cosine over 10"
        assert outputs[2]["transient"] == outputs[1]["transient"]
    finally:
        shell.display_pub = publisher
        InteractiveShell.clear_instance()


def test_the_answers_control_begins_with_the_hardest_picture(pictures, predictions):
    image_set = pictures()
    control = show.answers_control(image_set, predictions(image_set), count=3)
    assert control.picture.summary.startswith("Picture 8 is grey; the model says bright")
    assert control.set(place=2).summary.startswith("Picture 4 is dark; the model says bright")
    assert "the model says bright" in control.set(place=3).summary  # a right answer: picture 0


def test_the_answers_control_has_something_to_show_when_all_is_right(pictures):
    image_set = pictures()
    right = Predictions(torch.nn.functional.one_hot(image_set.labels, 3).float(), image_set.labels, image_set.classes)
    assert len(show.answers_control(image_set, right, count=100)._sliders["place"].options) == 9
