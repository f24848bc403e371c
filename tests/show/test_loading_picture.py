"""The picture of the loader doctor shows its numbers and says its advice."""

import pytest

from labkit.data.profiling import Profile
from labkit.show.loading import loading_profile


def test_a_bar_for_each_number_of_workers_shows_waiting_and_computing() -> None:
    rows = [{"workers": 0, "waiting": 30.0, "computing": 10.0, "step": 40.0}]
    rows += [{"workers": 2, "waiting": 1.0, "computing": 11.0, "step": 12.0}]
    picture = loading_profile(Profile(rows, "times", ("It waits.", "Use two.")))
    assert picture.summary == "It waits. Use two." and picture.data == rows
    [panel] = picture.figure.axes
    waiting, computing = panel.containers
    assert [bar.get_width() for bar in waiting] == [30.0, 1.0] and all(bar.get_hatch() for bar in waiting)
    assert [bar.get_width() for bar in computing] == [10.0, 11.0]
    assert [bar.get_x() for bar in computing] == [30.0, 1.0]
    assert [label.get_text() for label in panel.get_yticklabels()] == ["0", "2"]
    assert panel.yaxis_inverted() and picture.png() == loading_profile(Profile(rows, "times", ("It waits.",))).png()
    assert pytest.approx(picture.figure.get_figheight()) == 2.3
