import math

import pytest
import torch

from labkit.errors import ConfigError
from labkit.training import Config, Schedule, rate_at

TOTAL, PEAK = 40, 0.1


def torch_rates(make_scheduler) -> list[float]:
    """Return the rates that a scheduler of torch gives to TOTAL updates."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=PEAK)
    scheduler, rates = make_scheduler(optimizer), []
    for _ in range(TOTAL):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("kind", "make_scheduler"),
    [
        ("constant", lambda optimizer: torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)),
        ("step", lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, [TOTAL // 2, TOTAL * 3 // 4])),
        ("cosine", lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=TOTAL)),
        (
            "one_cycle",
            lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
                optimizer, PEAK, total_steps=TOTAL + 1, cycle_momentum=False
            ),
        ),
    ],
)
def test_rates_are_those_of_torch(kind, make_scheduler):
    total = TOTAL + 1 if kind == "one_cycle" else TOTAL  # torch's one-cycle refuses the step after its last
    ours = [rate_at(kind, update, total, PEAK) for update in range(TOTAL)]
    assert ours == pytest.approx(torch_rates(make_scheduler), rel=1e-9)


@pytest.mark.parametrize("kind", ["constant", "step", "cosine", "one_cycle", "plateau"])
@pytest.mark.parametrize("total", [1, 2, 3, 1000])
def test_every_rate_is_positive_and_at_most_the_peak(kind, total):
    rates = [rate_at(kind, update, total, PEAK) for update in range(total)]
    assert all(0 < rate <= PEAK * (1 + 1e-12) for rate in rates)


@pytest.mark.parametrize("kind", ["constant", "step", "cosine", "plateau"])
def test_a_warm_up_rises_evenly_and_the_schedule_has_the_rest(kind):
    rates = [rate_at(kind, update, TOTAL, PEAK, warm_up=0.25) for update in range(TOTAL)]
    assert rates[:10] == pytest.approx([PEAK * (update + 1) / 10 for update in range(10)])
    assert rates[10:] == [rate_at(kind, update, 30, PEAK) for update in range(30)]


def test_a_warm_up_of_one_is_all_there_is():
    assert [rate_at("cosine", update, 4, PEAK, warm_up=1.0) for update in range(4)] == pytest.approx(
        [PEAK / 4, PEAK / 2, PEAK * 3 / 4, PEAK]
    )


def make(kind: str, total: int = TOTAL) -> tuple[Schedule, torch.optim.Optimizer]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=torch.tensor(1.0), fused=True)
    return Schedule(Config(schedule=kind, learning_rate=PEAK), total, torch.device("cpu")), optimizer


def test_more_updates_than_can_be_planned_are_refused():
    with pytest.raises(ConfigError, match="epochs=1000000 are 100,000,000 updates; at most 10,000,000"):
        Schedule(Config(epochs=1_000_000), 100_000_000, torch.device("cpu"))


def test_a_skipped_update_does_not_advance_the_schedule():
    schedule, optimizer = make("cosine")
    for stepped in (True, False, False, True):
        schedule.advance(torch.tensor(stepped))
    schedule.set_rate(optimizer)
    assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(rate_at("cosine", 2, TOTAL, PEAK))


def test_the_rate_after_the_last_update_stays_the_last_one():
    schedule, _ = make("step", total=4)
    for _ in range(4):
        schedule.advance(torch.tensor(True))
    assert float(schedule.rate()) == pytest.approx(PEAK / 100)


def test_plateau_halves_the_rate_after_three_epochs_without_a_better_loss():
    schedule, _ = make("plateau")
    rates = []
    for loss in (1.0, 0.9, 0.9, 0.95, 0.91, 0.8, 0.8, 0.8, math.nan):
        schedule.end_epoch(loss)
        rates.append(round(float(schedule.rate()) / PEAK, 6))
    assert rates == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25]


def test_its_state_is_plain_and_brings_it_back():
    schedule, _ = make("plateau")
    for loss in (1.0, 1.0, 1.0, 1.0, 2.0):
        schedule.end_epoch(loss)
        schedule.advance(torch.tensor(True))
    other, _ = make("plateau")
    other.load_state_dict(schedule.state_dict())
    assert other.state_dict() == schedule.state_dict()
    assert torch.equal(other.rate(), schedule.rate())
