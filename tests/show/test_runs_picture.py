"""The curves of several runs: every run is a line that can be told from the others without colour."""

import math

import pytest

from labkit import show
from labkit.errors import DataError


def history(epochs: int = 3, rate: float = 1.0) -> list[dict]:
    return [
        {
            "epoch": epoch,
            "train_loss": 2 / (rate * epoch),
            "train_accuracy": 0.5,
            "val_loss": 1 / (rate * epoch),
            "val_accuracy": 1 - 0.5 / epoch,
        }
        for epoch in range(1, epochs + 1)
    ]


def test_every_run_is_a_line_and_a_sentence():
    picture = show.runs_curves({"slow": history(2), "fast": history(3, rate=2.0), "empty": []})
    loss, accuracy = picture.figure.axes
    assert [line.get_label() for line in loss.get_lines()] == ["slow", "fast"]
    assert list(loss.get_lines()[1].get_ydata()) == [0.5, 0.25, pytest.approx(1 / 6)]
    assert list(accuracy.get_lines()[0].get_xdata()) == [1, 2]
    assert picture.data[0] == {"run": "slow", **history(2)[0]} and len(picture.data) == 5
    assert picture.summary == (
        "slow: 2 epochs, lowest validation loss 0.5 in epoch 2 with accuracy 75.0 %. "
        "fast: 3 epochs, lowest validation loss 0.167 in epoch 3 with accuracy 83.3 %."
    )
    assert picture.png()


def test_no_two_of_eight_lines_are_drawn_alike():
    picture = show.runs_curves({f"run {number}": history() for number in range(8)})
    for panel in picture.figure.axes:
        signs = {(line.get_linestyle(), line.get_marker(), line.get_markerfacecolor()) for line in panel.get_lines()}
        assert len(signs) == 8
    with pytest.raises(DataError, match="9 runs in one picture"):
        show.runs_curves({f"run {number}": history() for number in range(9)})


def test_without_validation_everywhere_training_is_drawn():
    alone = [row | {"val_loss": None, "val_accuracy": None} for row in history()]
    picture = show.runs_curves({"with": history(), "without": alone})
    assert picture.figure.axes[0].get_title(loc="left") == "Training loss"
    assert "lowest training loss" in picture.summary


def test_what_is_no_number_is_left_out():
    broken = [history()[0], history()[1] | {"val_loss": math.nan}]
    assert list(show.runs_curves({"a": broken}).figure.axes[0].get_lines()[0].get_xdata()) == [1]
    only_nan = [row | {"val_loss": math.nan, "train_loss": math.nan} for row in history(1)]
    assert show.runs_curves({"a": only_nan}).summary == "a: 1 epoch, and no loss that is a number."


def test_nothing_to_draw_is_said():
    for histories in ({}, {"a": []}):
        with pytest.raises(DataError, match="no epoch to draw"):
            show.runs_curves(histories)


@pytest.mark.parametrize("name", ["_hidden", "$x^$ and $", "two\nlines\x1b[31m", "x" * 300])
def test_odd_names_are_drawn_as_they_are(name):
    picture = show.runs_curves({name: history(), "other": history()})
    assert len(picture.figure.legends[0].get_texts()) == 2
    assert picture.png() and picture.summary.isprintable()
