"""The arithmetic of windows equals torch's on random settings; receptive fields equal where gradients arrive."""

import pytest
import torch
import torch.nn as nn
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import ConfigError
from labkit.models import build
from labkit.models.arithmetic import (
    Window,
    output_size,
    receptive_field,
    same_padding,
    window_table,
    windows_of,
)

WINDOWS = st.builds(Window, st.integers(1, 5), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3))


@given(size=st.integers(1, 40), window=WINDOWS)
@settings(deadline=None, max_examples=200)
def test_output_sizes_are_torchs(size: int, window: Window) -> None:
    layer = nn.Conv1d(1, 1, **vars(window), device="meta")
    inputs = torch.empty(1, 1, size, device="meta")
    if window.fits(size):
        assert window.output_size(size) == layer(inputs).shape[-1]
        assert window.formula(size).endswith(f"+ 1 = {window.output_size(size)}")
    else:
        with pytest.raises(RuntimeError):
            layer(inputs)
        with pytest.raises(ConfigError, match="does not fit"):
            window.output_size(size)


@given(windows=st.lists(WINDOWS, min_size=1, max_size=4), place=st.integers(0, 3))
@settings(deadline=None, max_examples=100)
def test_receptive_fields_are_where_gradients_arrive(windows: list[Window], place: int) -> None:
    """With positive weights, an output cell has a gradient at the first and the last input cell that it sees."""
    field = receptive_field(windows)
    if field.sees(place)[1] < 0:
        return  # nothing but padding
    size = field.sees(place)[1] + 40  # far enough from the far end
    inputs = torch.ones(1, 1, size, requires_grad=True, dtype=torch.float64)
    outputs = inputs
    for window in windows:
        if not window.fits(outputs.shape[-1]):
            return
        layer = nn.Conv1d(1, 1, **vars(window), bias=False, dtype=torch.float64)
        nn.init.ones_(layer.weight)
        outputs = layer(outputs)
    if outputs.shape[-1] <= place:
        return
    outputs[0, 0, place].backward()
    reached = inputs.grad[0, 0].nonzero().flatten()
    first, last = field.sees(place)
    if last < 0 or len(reached) == 0:
        return  # nothing but padding
    assert reached.min() >= max(first, 0) and reached.max() <= last
    if all(window.padding == 0 for window in windows):
        assert (reached.min(), reached.max()) == (first, last)


@given(window=WINDOWS, place=st.integers(0, 5))
def test_touched_cells_lie_in_the_receptive_field(window: Window, place: int) -> None:
    touched = window.touched(place)
    assert (touched[0], touched[-1]) == receptive_field([window]).sees(place)


def test_known_by_heart() -> None:
    assert output_size(28, 5, padding=2) == 28 and output_size(28, 2, stride=2) == 14
    assert output_size(224, 7, stride=2, padding=3) == 112
    assert receptive_field([Window(3)] * 2).size == 5 and receptive_field([Window(3)] * 3).size == 7
    assert receptive_field([Window(3, padding=1), Window(2, stride=2), Window(3, padding=1)]).size == 8
    assert [same_padding(size) for size in (1, 3, 5, 7)] == [0, 1, 2, 3] and same_padding(3, dilation=2) == 2


def test_the_table_of_a_model() -> None:
    model = build("lenet", (1, 28, 28), 10)
    table = window_table(windows_of(model), 28)
    assert [row["output"] for row in table.rows] == [28, 14, 14, 7]
    assert [row["receptive field"] for row in table.rows] == [5, 6, 14, 16]
    assert table.rows[0]["layer"] == "features.0" and "sees 16 cells" in table.caption


def test_sides_may_differ() -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, (3, 5), padding=(1, 0)))
    assert windows_of(model)["0"] == Window(3, padding=1) and windows_of(model, axis=1)["0"] == Window(5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: output_size(4, 0), "kernel_size=0 must be a whole number of at least 1"),
        (lambda: output_size(4, 3, stride=1.5), "stride=1.5"),
        (lambda: Window(3, padding=-1), "padding=-1"),
        (lambda: same_padding(4), "odd kernel_size"),
        (lambda: windows_of(nn.Sequential(nn.Conv2d(1, 1, 3, padding="same"))), "'0' has its padding as a word"),
        (lambda: windows_of(nn.Sequential(nn.ConvTranspose2d(1, 1, 3))), "makes sides larger"),
    ],
)
def test_what_means_nothing_is_a_sentence(call, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()
