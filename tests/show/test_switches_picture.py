import pytest

from labkit.autograd.switches import SWITCHES, run
from labkit.errors import ConfigError
from labkit.show.switches import switches, switches_control


def texts(picture):
    return [text.get_text() for panel in picture.figure.axes for text in panel.texts]


@pytest.mark.parametrize("switch", SWITCHES)
def test_the_picture_shows_the_code_that_ran_and_its_gradients(switch):
    picture, outcome = switches(**{switch: True}), run(**{switch: True})
    assert set(outcome.code) <= set(texts(picture))
    assert picture.data == list(outcome.rows)
    lines = picture.figure.axes[1].get_lines()
    drawn = [list(line.get_ydata()) for line in lines]
    assert [row["weight.grad"] for row in run().rows] in drawn
    gradients = [row["weight.grad"] for row in outcome.rows]
    assert gradients == [] or None in gradients or gradients in drawn


def test_an_error_is_torchs_own_and_stands_below_the_code():
    picture = switches(backward_twice=True)
    shown = " ".join(" ".join(texts(picture)).split())
    assert "RuntimeError: Trying to backward through the graph a second time" in shown and "✗" in shown
    assert picture.summary.endswith("torch raises at `loss.backward()`.") and "no update happened" in shown


def test_the_control_ticks_switches_and_shows_their_picture():
    control = switches_control()
    assert not any(control.state.values())
    picture = control.set(skip_zero_grad=True)
    assert picture.summary == switches(skip_zero_grad=True).summary
    assert control.set(skip_zero_grad=False).summary == switches().summary


def test_of_the_two_cuts_only_one_is_on():
    control = switches_control()
    control.set(detach_hidden=True)
    control.set(no_grad_hidden=True)
    assert control.state["no_grad_hidden"] and not control.state["detach_hidden"]
    assert "without recording" in control.picture.summary


def test_an_unknown_switch_is_a_sentence():
    with pytest.raises(ConfigError, match="The switches are skip_zero_grad"):
        switches_control().set(zero=True)
    with pytest.raises(ConfigError, match="each True or False"):
        switches_control().set(skip_zero_grad="yes")
