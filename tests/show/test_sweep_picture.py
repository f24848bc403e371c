"""Parallel coordinates: a line a run, an axis a parameter; the last axis is the result."""

import pytest

from labkit.errors import DataError
from labkit.show.sweeps import sweep_lines

ROWS = [
    {"run": "a", "model": "cnn", "rate": 1e-4, "seed": 0, "score": 0.5},
    {"run": "b", "model": "mlp", "rate": 1e-2, "seed": 0, "score": 0.9},
    {"run": "c", "model": "cnn", "rate": 1e-3, "seed": 0, "score": ""},
    {"run": "d", "model": "cnn", "rate": 1e-3, "seed": 0, "score": 0.7},
]


def test_a_run_is_a_line_from_parameter_to_parameter_to_its_result():
    picture = sweep_lines(ROWS, ["model", "rate", "seed"], "score")
    (panel,) = picture.figure.axes
    lines = sorted(list(line.get_ydata()) for line in panel.get_lines() if len(line.get_ydata()) == 3)
    assert lines == [[0.0, 0.0, 0.0], pytest.approx([0.0, 0.5, 0.5]), [1.0, 1.0, 1.0]], "rates by powers of ten"
    written = [text.get_text() for text in panel.texts]
    assert {"model", "rate", "score", "cnn", "mlp", "0.0001"} <= set(written) and "seed" not in written
    assert picture.data[1] == {"run": "b", "model": "mlp", "rate": 1e-2, "score": 0.9}
    assert picture.summary == (
        "The score of 3 runs lies between 0.5 and 0.9, the highest with model mlp, rate 0.01; 1 of 4 runs have none."
    )


def test_the_better_run_is_the_darker_line():
    picture = sweep_lines(ROWS, ["model", "rate"], "score")
    lines = [line for line in picture.figure.axes[0].get_lines() if len(line.get_ydata()) == 3]
    shades = [sum(line.get_color()) for line in sorted(lines, key=lambda line: line.get_ydata()[-1])]
    assert shades[0] > shades[1] > shades[2]


def test_one_run_with_a_result_is_no_picture():
    with pytest.raises(DataError, match="1 of 2 runs have a number for 'score'"):
        sweep_lines(ROWS[1:3], ["model"], "score")
