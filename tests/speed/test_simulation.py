"""The simulated loop keeps the pace of whoever is slower."""

import pytest

from labkit.errors import ConfigError
from labkit.show import workers_control, workers_picture
from labkit.speed import simulated


def pace(load, compute, workers):
    """Return the milliseconds a batch takes in the long run."""
    ends = [one.end for one in simulated(load, compute, workers, batches=200).intervals if one.kind == "computing"]
    return (ends[-1] - ends[-97]) / 96


@pytest.mark.parametrize(
    ("load", "compute", "workers", "expected"),
    [(40, 20, 0, 60), (40, 20, 1, 40), (40, 20, 2, 20), (40, 20, 8, 20), (30, 5, 3, 10), (90, 10, 4, 22.5)],
)
def test_the_slower_one_sets_the_pace(load, compute, workers, expected):
    assert pace(load, compute, workers) == pytest.approx(expected)


def test_with_workers_only_the_first_batches_are_waited_for_when_they_keep_up():
    found = simulated(40, 20, 2, batches=10)
    waits = [one.end - one.begin for one in found.intervals if one.kind == "waiting"]
    assert waits[0] == 40 and sum(waits[1:]) == pytest.approx(20 * waits[1:].count(20)) and waits[-1] == 0


def test_sizes_that_mean_nothing_are_a_sentence():
    with pytest.raises(ConfigError, match="above 0"):
        simulated(0, 1, 1)


def test_the_control_is_a_picture_of_its_state():
    control = workers_control()
    assert control.set(workers=2).summary == workers_picture(40.0, 20.0, 2).summary
    assert "2 workers" in control.picture.summary and "no workers: 67% waiting" in workers_picture().summary
