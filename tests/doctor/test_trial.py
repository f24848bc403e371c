import math

from labkit.doctor.rules.mends import learning_rate_times
from labkit.doctor.trial import Comparison, compare, training_loss
from tests.doctor.small import program


def test_a_fix_that_helps_and_one_that_does_not():
    slow = program()
    learning_rate_times(1e-4)(slow)
    assert compare(slow, learning_rate_times(1e4)).helps
    assert not compare(slow, learning_rate_times(1.0)).helps


def test_the_same_fix_gives_the_same_result_twice():
    first, second = (compare(program(), learning_rate_times(0.5), updates=12, seeds=2) for _ in range(2))
    assert first.before[: len(second.before)] == second.before or first.updates != second.updates


def test_differences_within_the_spread_do_not_count():
    assert not Comparison([1.0, 2.0, 3.0], [1.5, 2.5, 3.5], 20, "x").helps
    assert Comparison([1.0, 1.1, 1.2], [2.0, 2.1, 2.2], 20, "x").helps
    assert not Comparison([], [], 0, "too slow").helps
    assert Comparison([-math.inf, 1.0], [2.0, 2.1], 20, "x").helps


def test_the_loss_is_judged_in_evaluation_mode():
    healthy = program()
    healthy.model.train()
    assert training_loss(healthy) < 0 and not healthy.model.training


def test_a_fix_of_what_goes_wrong_in_a_new_way_each_time():
    """Before, the seeds differ by more than the fix wins on average; yet each of them is far behind the worst after."""
    assert Comparison([-0.8, -3.2, -1.4], [-0.10, -0.16, -0.15], 80, "loss").helps
    assert not Comparison([-0.8, -3.2, -1.4], [-0.70, -0.50, -0.60], 80, "loss").helps
    assert not Comparison([-0.8, -3.2, -1.4], [-0.10, -0.81, -0.15], 80, "loss").helps
