import math

from labkit.doctor.rules.mends import learning_rate_times
from labkit.doctor.trial import Comparison, Trials, compare, training_loss, updates_for
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


def test_a_fix_that_has_lost_is_tried_no_further_and_the_program_as_it_is_only_once():
    asked = []

    def judge(one):
        """How many updates were made."""
        asked.append(one)
        return one.context.get("better", 0.0) - 0.1 * len(one.context)

    trials = Trials(program())
    lost = trials.compare(lambda one: one.context.update(better=0.0), judge, 12)
    assert (len(lost.before), len(lost.after), lost.helps, len(asked)) == (1, 1, False, 2)
    won = trials.compare(lambda one: one.context.update(better=1.0), judge, 12)
    assert (won.before, won.after, won.helps, len(asked)) == ([0.0] * 3, [0.9] * 3, True, 2 + 5)
    whole = trials.compare(lambda one: None, judge, 12, to_the_end=True)
    assert (whole.before, whole.after, len(asked)) == ([0.0] * 3, [0.0] * 3, 7 + 3)


def test_how_many_updates_a_trial_may_have():
    assert updates_for(0.0, 6, 80) == 80
    assert updates_for(0.0, 6, 1000) == 240  # three times as many as usual
    assert updates_for(0.02, 6, 80) == 25  # 3 s for six trainings
    assert updates_for(0.05, 6, 80) == 12  # the fewest, in 3.6 s
    assert updates_for(0.07, 6, 80) == 0  # even these would take 5 s
