"""The explorer draws the rates that a training would really use."""

import pytest
import torch

from labkit import show, training
from labkit.errors import ConfigError
from labkit.training import rate_at


def drawn(**settings: object) -> list[float]:
    return [row["y"] for row in show.schedule_picture(**settings).data]


@pytest.mark.parametrize("schedule", ["constant", "step", "cosine", "one_cycle"])
def test_the_rates_are_those_of_the_pure_function(schedule: str) -> None:
    expected = [rate_at(schedule, update, 12 * 45, 0.01) for update in range(12 * 45)]
    assert drawn(schedule=schedule, learning_rate=0.01) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_a_training_uses_the_rates_that_were_drawn() -> None:
    """Its history keeps the rate at the end of each epoch: that of the update to come."""
    pairs = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(5)]
    config = training.Config(epochs=4, schedule="cosine", warm_up=0.1, learning_rate=0.01, device="cpu", run_dir="")
    run = training.fit(torch.nn.Linear(4, 3), pairs, None, config)
    rates = drawn(schedule="cosine", epochs=4, learning_rate=0.01, warm_up=0.1, updates_per_epoch=5)
    assert [row["learning_rate"] for row in run.history[:-1]] == pytest.approx(rates[5::5], rel=1e-6)


def test_a_warm_up_rises_evenly_and_one_cycle_has_its_own() -> None:
    rates = drawn(schedule="constant", epochs=10, updates_per_epoch=10, warm_up=0.1, learning_rate=1.0)
    assert rates == pytest.approx([0.1 * step for step in range(1, 11)] + [1.0] * 90)
    assert drawn(schedule="one_cycle", warm_up=0.3) == drawn(schedule="one_cycle")
    assert "cosine, warm-up 30% starts at" in show.schedule_picture(warm_up=0.3).summary


def test_the_plateau_halves_the_rate_when_the_loss_stays_as_it_is() -> None:
    rates = drawn(schedule="plateau", epochs=12, learning_rate=0.004, updates_per_epoch=2)
    assert rates == pytest.approx([0.004] * 16 + [0.002] * 6 + [0.001] * 2), "best in epoch 5, then 3, 3 and 1 more"


def test_the_epochs_stand_above() -> None:
    panel = show.schedule_picture(epochs=3).figure.axes[0]
    (by_epoch,) = panel.child_axes
    assert by_epoch.get_xlabel() == "epoch" and panel.get_xlabel() == "update"


def test_the_control_moves() -> None:
    control = show.schedule_explorer()
    moved = control.set(schedule="step", epochs=24, warm_up=0.05, learning_rate=0.1)
    assert moved.summary == show.schedule_picture("step", 24, 0.1, 0.05).summary


@pytest.mark.parametrize(
    "settings", [{"schedule": "linear"}, {"epochs": 0}, {"warm_up": 2.0}, {"updates_per_epoch": 0}]
)
def test_settings_that_mean_nothing_are_a_sentence(settings: dict) -> None:
    with pytest.raises(ConfigError):
        show.schedule_picture(**settings)
