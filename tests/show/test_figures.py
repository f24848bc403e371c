"""Figures of numbers: the data are what was given, the sentence is computed from it, nothing stays open."""

import math

import pytest
import torch

from labkit import show
from labkit.errors import DataError


def history(epochs: int = 4) -> list[dict]:
    """Validation loss 1.0, 0.5, 0.6, 0.7: the second epoch is the best."""
    val_losses = [1.0, 0.5, 0.6, 0.7, 0.8][:epochs]
    return [
        {
            "epoch": number,
            "train_loss": 1 / number,
            "val_loss": val_loss,
            "train_accuracy": 0.5,
            "val_accuracy": 0.9 - val_loss / 10,
            "learning_rate": 0.001 * number,
        }
        for number, val_loss in enumerate(val_losses, start=1)
    ]


def lines_of(picture: show.Picture) -> dict[str, list[float]]:
    return {
        line.get_label(): [float(value) for value in line.get_ydata()]
        for panel in picture.figure.axes
        for line in panel.get_lines()
    }


def test_curves_keep_the_history_and_name_the_best_epoch():
    picture = show.curves(history())
    assert picture.data == history()
    assert picture.summary == (
        "After 4 epochs the training loss is 0.250 and the validation loss 0.700; the best epoch is 2, "
        "with validation loss 0.500 and accuracy 85.0 %."
    )
    assert "best epoch: 2" in lines_of(picture)
    assert picture.png()


def test_curves_of_a_single_epoch_and_of_a_broken_one():
    assert show.curves(history(1)).summary.startswith("After 1 epoch the training loss")
    broken = [*history(2), {**history(1)[0], "epoch": 3, "val_loss": math.nan}]
    assert "best epoch is 2" in show.curves(broken).summary


def test_curves_without_validation_draw_training_alone():
    rows = [row | {"val_loss": None, "val_accuracy": None} for row in history(3)]
    picture = show.curves(rows)
    assert picture.summary == "After 3 epochs the training loss is 0.333; there is no validation."
    assert "validation" not in lines_of(picture)


def test_curves_without_an_epoch_say_what_to_do():
    with pytest.raises(DataError, match="Train for at least one epoch"):
        show.curves([])


def test_comparison_draws_each_line_and_says_where_each_ends():
    picture = show.comparison(
        {"with": [3.0, 1.0], "without": [3.0, 5.0]},
        title="Loss",
        x_label="step",
        y_label="loss",
        references={"floor": 0.5},
    )
    assert lines_of(picture)["without"] == [3.0, 5.0]
    assert {"line": "with", "x": 2, "y": 1.0} in picture.data
    assert picture.summary == "Loss. loss at step 2: with: 1; without: 5."
    assert "floor (0.5)" in lines_of(picture)


def test_comparison_takes_its_own_positions_and_scales():
    picture = show.comparison(
        {"loss": [3.0, math.nan]},
        title="Rates",
        x_label="rate",
        y_label="loss",
        x=[0.001, 10.0],
        log_x=True,
        log_y=True,
    )
    assert [row["x"] for row in picture.data] == [0.001, 10.0]
    assert picture.figure.axes[0].get_xscale() == "log"
    assert picture.figure.axes[0].get_yscale() == "log"
    assert picture.summary.endswith("loss: nan.")


@pytest.mark.parametrize("lines", [{}, {"empty": []}, {"long": [1.0, 2.0], "short": [1.0]}])
def test_comparison_refuses_lines_that_do_not_fit_together(lines):
    with pytest.raises(DataError, match="equally many points"):
        show.comparison(lines, title="", x_label="", y_label="")


def test_rates_tell_start_top_and_end():
    picture = show.rates({"one_cycle": [0.1, 0.4, 0.2]})
    assert picture.summary == "one_cycle starts at 0.1, is highest (0.4) at update 2 of 3 and ends at 0.2."
    assert [row["y"] for row in picture.data] == [0.1, 0.4, 0.2]


def test_gradient_norms_name_the_largest_and_the_smallest():
    picture = show.gradient_norms({"first.weight": 0.0, "last.weight": 2.5})
    assert picture.data == [
        {"parameter": "first.weight", "norm": 0.0},
        {"parameter": "last.weight", "norm": 2.5},
    ]
    assert "last.weight has the largest gradient norm (2.5)" in picture.summary
    assert "first.weight the smallest (0)" in picture.summary
    with pytest.raises(DataError, match="backward"):
        show.gradient_norms({})


def test_confusion_lists_its_cells_and_the_most_frequent_mistake():
    picture = show.confusion(torch.tensor([[9, 1, 0], [0, 8, 2], [0, 0, 10]]), ["cat", "dog", "frog"])
    assert picture.summary == "27 of 30 are right; the most frequent mistake is dog taken for frog (2 times)."
    assert {"truth": "dog", "predicted": "frog", "count": 2} in picture.data
    assert sum(cell["count"] for cell in picture.data) == 30
    written = {text.get_text() for text in picture.figure.axes[0].texts}
    assert written == {"9", "1", "8", "2", "10"}


def test_confusion_counts_a_single_mistake():
    assert show.confusion(torch.tensor([[5, 1], [0, 5]]), ["a", "b"]).summary.endswith("a taken for b (once).")


def test_confusion_without_a_mistake_and_with_an_absent_class():
    assert show.confusion(torch.diag(torch.tensor([5, 0])), ["a", "b"]).summary == "5 of 5 are right."


def test_a_large_confusion_matrix_is_drawn_without_numbers():
    picture = show.confusion(torch.eye(30, dtype=torch.int64), [str(number) for number in range(30)])
    assert len(picture.figure.axes[0].texts) == 0


def test_confusion_refuses_a_matrix_of_other_classes():
    with pytest.raises(DataError, match=r"shape \(3, 3\)"):
        show.confusion(torch.eye(2, dtype=torch.int64), ["a", "b", "c"])


def test_everything_is_drawn_without_a_screen():
    assert show.curves(history()).figure.canvas.__class__.__module__.startswith("matplotlib.backend")
    assert show.rates({"flat": [0.1] * 100}).png()
