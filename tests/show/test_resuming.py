"""The ladder shows what was measured: which part of a state a resume lacks, and when nothing is lacking."""

import pytest
import torch

from labkit import show
from labkit.errors import ConfigError, DataError

LAST = "random numbers"


def differences(**settings: object) -> list[float]:
    return [row["difference"] for row in show.resuming_picture(**settings).data]


def test_with_everything_put_back_the_difference_is_exactly_0() -> None:
    found = differences()
    assert found[-1] == 0 and min(found[:-1]) > 0


@pytest.mark.parametrize("optimizer", ["adamw", "sgd with momentum", "plain sgd"])
@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_random_numbers_matter_only_where_something_is_drawn(optimizer: str, schedule: str) -> None:
    rest = {"optimizer": optimizer, "schedule": schedule}
    assert differences(dropout=0.0, batches="a function of the update", **rest)[2] == 0
    assert differences(dropout=0.0, **rest)[2] > 0
    assert differences(dropout=0.3, batches="a function of the update", **rest)[2] > 0


def test_each_part_matters_only_where_it_remembers_something() -> None:
    nothing_drawn = {"dropout": 0.0, "batches": "a function of the update"}
    weights, optimizer, schedule, _ = differences(schedule="cosine", **nothing_drawn)
    assert weights > 0 and optimizer > 0 and schedule == 0
    weights, optimizer, *_ = differences(schedule="constant", **nothing_drawn)
    assert weights > 0 and optimizer == 0
    assert differences(optimizer="plain sgd", schedule="constant", **nothing_drawn) == [0, 0, 0, 0]


def test_a_picture_leaves_no_trace_in_torchs_random_numbers() -> None:
    before = torch.get_rng_state()
    show.resuming_picture()
    assert torch.equal(before, torch.get_rng_state())


def test_bars_and_words_are_the_differences() -> None:
    picture = show.resume_ladder({"weights": 0.25, "optimizer": 0.0625, LAST: 0.0})
    panel = picture.figure.axes[0]
    assert [bar.get_width() for bar in panel.patches] == [0.25, 0.0625, 0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["weights", "+ optimizer", f"+ {LAST}"]
    assert [text.get_text() for text in panel.texts] == ["0.25", "0.062", "exactly 0"]
    assert picture.summary.endswith("weights: 0.25, + optimizer: 0.062, + random numbers: exactly 0.")


def test_the_control_moves() -> None:
    control = show.resuming()
    moved = control.set(optimizer="plain sgd", schedule="constant", dropout=0.0, batches="a function of the update")
    assert moved.summary == show.resuming_picture("plain sgd", "constant", 0.0, "a function of the update").summary


@pytest.mark.parametrize("wrong", [{"optimizer": "lion"}, {"schedule": "step"}, {"batches": "all"}])
def test_unknown_names_are_a_sentence(wrong: dict) -> None:
    with pytest.raises(ConfigError, match="is not known. Choose one of"):
        show.resuming_picture(**wrong)


def test_no_part_at_all_is_a_sentence() -> None:
    with pytest.raises(DataError, match="no difference to draw"):
        show.resume_ladder({})
