"""Pictures of speed show their figures, name whose they are, and say it in a sentence."""

import pytest
import torch

from labkit.errors import DataError
from labkit.show import beside, calls, timelines
from labkit.speed import Record, Timeline, profile_operations
from labkit.speed.clock import compared
from labkit.speed.timeline import Interval

OWN = compared({"slow": (2.0, 2.0), "fast": (1.0, 1.0)}, {}, "CPU here")


def a_record(name="precision"):
    figures = {
        name: {"slow": {"milliseconds": 8.0, "times as fast": 1.0}, "fast": {"milliseconds": 1.0, "times as fast": 8.0}}
    }
    return Record("Device there", "cuda", "2026-01-02", {"torch": "2.9"}, False, figures)


def test_recorded_figures_stand_beside_ones_own_labelled_with_device_date_and_version():
    picture = beside(OWN, "precision", [a_record()])
    assert [(row["device"], row["times as fast"]) for row in picture.data] == [
        ("measured now: CPU here", 1),
        ("measured now: CPU here", 2),
        ("recorded: Device there, 2026-01-02, torch 2.9", 1.0),
        ("recorded: Device there, 2026-01-02, torch 2.9", 8.0),
    ]
    [panel] = picture.figure.axes
    written = [text.get_text() for text in panel.texts]
    assert "recorded: Device there, 2026-01-02, torch 2.9" in written and "8 ×   (1 ms)" in written
    assert [bar.get_hatch() for bar in panel.patches] == ["", "", "////", "////"]
    assert "recorded: Device there, 2026-01-02, torch 2.9: fast 8" in picture.summary


def test_a_record_without_the_measurement_is_left_out():
    assert {row["device"] for row in beside(OWN, "precision", [a_record("workers")]).data} == {"measured now: CPU here"}


def test_timelines_show_waiting_hatched_and_name_its_share():
    line = Timeline((Interval("waiting", 0, 30), Interval("computing", 30, 40)))
    picture = timelines({"no workers": line})
    assert picture.summary == "What the loop does when: no workers: 75% waiting." and len(picture.data) == 2
    with pytest.raises(DataError, match="no timeline"):
        timelines({})


def test_calls_are_drawn_below_those_that_made_them():
    layer = torch.nn.Linear(4, 4)
    picture = calls(profile_operations(lambda: layer(torch.ones(2, 4))), deepest=1)
    assert {row["depth"] for row in picture.data} == {0, 1}
    assert "aten::linear" in {row["operation"] for row in picture.data} and picture.summary.startswith("One call takes")
    with pytest.raises(DataError, match="did nothing"):
        calls(profile_operations(lambda: None))
