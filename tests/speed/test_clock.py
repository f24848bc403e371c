"""Ways are compared fairly: in turn, round by round, after the device was waited for."""

import pytest

from labkit.errors import ConfigError, DeviceError
from labkit.speed import compare
from labkit.speed.clock import compared


def test_ways_take_turns_after_a_first_call_and_a_warm_up_each():
    log = []
    found = compare({name: lambda name=name: log.append(name) for name in "ab"}, rounds=4, warm_up=2, calls=3)
    assert log == ["a", "b"] + ["a", "a", "b", "b"] + ["a", "a", "a", "b", "b", "b"] * 4
    assert [len(found.seconds[name]) for name in "ab"] == [4, 4] and set(found.first_calls) == {"a", "b"}
    assert [row["way"] for row in found.rows] == ["a", "b"]


def test_a_ratio_is_that_of_a_round_and_not_of_two_medians():
    # the machine was busy in the second and third round: each way alone looks as slow as the other
    found = compared({"slow": (2.0, 20.0, 20.0, 2.0, 2.0), "fast": (1.0, 10.0, 10.0, 1.0, 1.0)}, {}, "CPU")
    assert found.times_as_fast("slow") == 1 and found.times_as_fast("fast") == 2
    assert found.rows[1]["milliseconds"] == 1000 and found.rows[1]["faster in"] == "5 of 5"


def test_a_difference_that_changes_from_round_to_round_shows_as_such():
    found = compared({"a": (1.0, 1.0, 1.0, 1.0), "b": (0.9, 1.1, 0.9, 1.1)}, {}, "CPU")
    assert found.rows[1]["faster in"] == "2 of 4"


def test_time_that_runs_out_leaves_three_rounds():
    found = compare({"a": lambda: None}, rounds=50, most_seconds=0.0)
    assert len(found.seconds["a"]) == 3


def test_notes_stand_under_the_table():
    found = compared({"a": (1.0,)}, {}, "CPU").with_notes(("no <compiler>",))
    assert str(found).endswith("\nno <compiler>") and "<p>no &lt;compiler&gt;</p>" in found._repr_html_()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"ways": {}}, "at least one way"),
        ({"ways": {"a": 3}}, "functions without arguments"),
        ({"ways": {"a": print}, "rounds": 0}, "rounds=0"),
        ({"ways": {"a": print}, "warm_up": -1}, "warm_up=-1"),
        ({"ways": {"a": print}, "calls": True}, "calls=True"),
    ],
)
def test_settings_that_cannot_be_are_a_sentence(settings, said):
    with pytest.raises(ConfigError, match=said):
        compare(**settings)
    with pytest.raises(DeviceError):
        compare({"a": print}, "tpu")
