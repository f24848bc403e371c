"""The shares are measured in real backward passes, and the marked range is that of float16."""

import pytest
import torch

from labkit import show
from labkit.errors import ConfigError
from labkit.show.underflow import LARGEST, SMALLEST, measured


def share(rows: list[dict], name: str) -> float:
    return sum(row[name] * row["gradients"] for row in rows) / sum(row["gradients"] for row in rows)


def test_the_range_is_that_of_float16() -> None:
    ends = torch.tensor([SMALLEST, SMALLEST / 2, LARGEST, LARGEST * 1.001], dtype=torch.float64).half()
    assert ends[0] > 0 and ends[1] == 0 and ends[2].isfinite() and ends[3].isinf()
    assert torch.finfo(torch.float16).max == LARGEST


def test_a_larger_scale_saves_more_until_it_is_too_large() -> None:
    lost = [share(measured(2**power, "sigmoid", 12)[1], "zero in float16") for power in (0, 8, 16)]
    assert lost[0] > 0.3 and lost[0] > lost[1] > lost[2] and lost[2] < 0.001
    assert share(measured(2**16, "sigmoid", 12)[1], "not finite in float16") == 0
    assert share(measured(2**24, "sigmoid", 12)[1], "not finite in float16") > 0


def test_it_is_the_first_layers_that_lose_and_bfloat16_loses_nothing() -> None:
    rows = measured(1, "sigmoid", 12)[1]
    assert [row["layer"] for row in rows] == list(range(1, 14))
    assert rows[0]["zero in float16"] > 0.99 and rows[-1]["zero in float16"] < 0.01
    assert share(rows, "zero in bfloat16") < 0.001


@pytest.mark.parametrize("loss_scale", [1, 256])
def test_the_range_predicts_what_is_lost_in_the_backward_pass(loss_scale: int) -> None:
    """Rounding to float16 happens in every layer, so the prediction from float32 is near, not equal."""
    magnitudes, rows = measured(loss_scale, "sigmoid", 12)
    predicted = ((magnitudes * loss_scale).half() == 0).double().mean().item()
    assert share(rows, "zero in float16") == pytest.approx(predicted, abs=0.15)


def test_the_bars_are_shares_of_all_gradients() -> None:
    panel = show.underflow_picture(1).figure.axes[0]
    assert sum(bar.get_height() for bar in panel.patches) == pytest.approx(1, abs=1e-3)
    hatched = [bar for bar in panel.patches if bar.get_hatch()]
    assert all(10 ** (bar.get_x() + 1 / 6) < SMALLEST or 10 ** bar.get_x() > LARGEST / 2 for bar in hatched)


def test_the_summary_says_what_the_rows_hold() -> None:
    picture = show.underflow_picture(2**24)
    assert "infinite or NaN, so the update would be skipped" in picture.summary
    assert f"{share(picture.data, 'not finite in float16'):.1%} are infinite" in picture.summary
    assert "skipped" not in show.underflow_picture(1).summary


def test_the_control_moves_and_leaves_the_random_numbers_alone() -> None:
    state = torch.get_rng_state()
    control = show.underflow()
    assert (
        control.set(loss_scale=256, activation="tanh", depth=4).summary
        == show.underflow_picture(256, "tanh", 4).summary
    )
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("settings", [{"loss_scale": 0}, {"activation": "swish"}, {"depth": 0}])
def test_settings_that_mean_nothing_are_a_sentence(settings: dict) -> None:
    with pytest.raises(ConfigError):
        show.underflow_picture(**settings)
