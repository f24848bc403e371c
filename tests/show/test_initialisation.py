"""The picture of a signal through many layers shows what was measured."""

import pytest

from labkit.errors import ConfigError
from labkit.models.init import ACTIVATIONS, INITS
from labkit.show.initialisation import initialisation, initialisation_control


@pytest.mark.parametrize(("init", "activation"), [("kaiming", "relu"), ("normal 1", "tanh"), ("xavier", "sigmoid")])
def test_the_lines_are_the_measured_deviations(init: str, activation: str) -> None:
    picture = initialisation(init, activation, depth=8)
    lines = {line.get_label(): list(line.get_ydata()) for line in picture.figure.axes[-1].get_lines()}
    assert lines["values, forward"] == [row["deviation"] for row in picture.data]
    assert lines["gradients, backward"] == [row["gradient deviation"] for row in picture.data]
    assert [row["layer"] for row in picture.data] == list(range(1, 9))
    assert f"8 layers with {activation}, initialised by {init}" in picture.summary


def test_five_layers_have_histograms() -> None:
    panels = initialisation(depth=20).figure.axes[:-1]
    assert [panel.get_title(loc="left") for panel in panels] == [
        "layer 1",
        "layer 6",
        "layer 10",
        "layer 15",
        "layer 20",
    ]
    assert all(sum(bar.get_height() for bar in panel.patches) == 256 * 128 for panel in panels)


def test_zeros_are_said_in_words() -> None:
    picture = initialisation("zeros", depth=4)
    texts = [text.get_text() for panel in picture.figure.axes for text in panel.texts]
    assert texts.count("all 0") == 4 and "values, forward: 0 in 4 of 4 layers" in texts
    assert "gradients, backward: 0 in 3 of 4 layers" in texts


def test_huge_values_are_drawn_and_what_is_not_finite_is_said_in_words() -> None:
    lines = initialisation("normal 1", depth=40).figure.axes[-1].get_lines()
    assert [len(line.get_ydata()) for line in lines[:2]] == [40, 40], "the deviation itself does not overflow"
    too_deep = initialisation("normal 1", depth=50)
    texts = [text.get_text() for panel in too_deep.figure.axes for text in panel.texts]
    assert "not finite" in texts and any(text.startswith("values, forward: not finite in ") for text in texts)


def test_one_layer_is_enough() -> None:
    assert len(initialisation(depth=1).data) == 1


def test_the_control_moves() -> None:
    control = initialisation_control()
    assert (
        control.set(init="normal 1", activation="gelu", depth=5).summary
        == initialisation("normal 1", "gelu", 5).summary
    )
    assert len(control.state) == 3 and control.state["init"] in INITS and control.state["activation"] in ACTIVATIONS


def test_steady_deviations_look_steady() -> None:
    low, high = initialisation().figure.axes[-1].get_ylim()
    assert low < 1e-3 and high > 1e3


def test_unknown_names_are_a_sentence() -> None:
    with pytest.raises(ConfigError, match="'he' is not known"):
        initialisation("he")
