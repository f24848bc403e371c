"""The picture of a window: what is drawn is what torch computes."""

import pytest
import torch
import torch.nn.functional as F

from labkit.errors import ConfigError
from labkit.show.convolution import convolution, convolution_control

SETTINGS = [
    {},
    {"size": 7, "padding": 1, "stride": 2, "cell": 6},
    {"size": 5, "padding": 2, "dilation": 2},
    {"size": 9, "kernel_size": 1, "padding": 2, "cell": 30},
    {"size": 8, "kernel_size": 4, "stride": 3, "cell": 2},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_cells_are_those_that_torch_reads(settings: dict) -> None:
    picture = convolution(**settings)
    full = {"size": 6, "kernel_size": 3, "stride": 1, "padding": 0, "dilation": 1, "cell": 1} | settings
    inputs = torch.ones(1, 1, full["size"], full["size"], requires_grad=True)
    kernel = torch.ones(1, 1, full["kernel_size"], full["kernel_size"])
    outputs = F.conv2d(inputs, kernel, stride=full["stride"], padding=full["padding"], dilation=full["dilation"])
    outputs.flatten()[full["cell"] - 1].backward()
    read = [tuple(place) for place in inputs.grad[0, 0].nonzero().tolist()]
    assert [(one["row"], one["column"]) for one in picture.data if one["in"] == "picture"] == read
    assert len(picture.data) == full["kernel_size"] ** 2
    assert f"gives {outputs.shape[2]}×{outputs.shape[3]}" in picture.summary
    written = [text.get_text() for text in picture.figure.axes[0].texts]
    assert f"output {outputs.shape[2]}×{outputs.shape[3]}" in written
    assert any(text.endswith(f"+ 1 = {outputs.shape[2]}") for text in written)


def test_padding_is_counted_in_words_and_hatched() -> None:
    picture = convolution(size=5, padding=1)
    assert picture.summary.endswith("5 of these 9 cells are padding.")
    assert sum(bool(patch.get_hatch()) for patch in picture.figure.axes[0].patches) == 7 * 7 - 5 * 5


def test_a_window_without_a_place_is_drawn_and_said() -> None:
    picture = convolution(size=5, kernel_size=5, dilation=2)
    assert picture.summary.endswith("finds no place: it spans 9, and there are 5 cells.")
    assert "no output" in [text.get_text() for text in picture.figure.axes[0].texts]


def test_the_cell_goes_round() -> None:
    assert convolution(cell=17).summary == convolution(cell=1).summary != convolution(cell=16).summary


def test_every_state_of_the_control_draws() -> None:
    control = convolution_control()
    assert control.picture.summary == convolution().summary
    assert "gives 3×3" in control.set(size=8, kernel_size=5, padding=1, stride=2).summary
    assert "finds no place" in control.set(size=5, kernel_size=5, padding=0, dilation=2).summary


@pytest.mark.parametrize("settings", [{"size": 0}, {"cell": 0}, {"kernel_size": 0}, {"stride": 0}])
def test_what_means_nothing_is_a_sentence(settings: dict) -> None:
    with pytest.raises(ConfigError, match="at least"):
        convolution(**settings)
