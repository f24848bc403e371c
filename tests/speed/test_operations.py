"""The profiler's report becomes rows and bars: what ran, how often, and inside of what."""

import pytest
import torch
from torch import nn

from labkit.errors import ConfigError
from labkit.speed import profile_operations


@pytest.fixture(scope="module")
def found():
    model, inputs = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), torch.ones(4, 8)

    def update():
        with torch.profiler.record_function("on the way there"):
            loss = model(inputs).sum()
        loss.backward()

    return profile_operations(update, calls=2, most=4)


def test_calls_are_those_of_one_call_of_the_action(found):
    assert found.calls("aten::addmm") == 2 and found.calls("aten::relu") == 1 and found.calls("aten::conv2d") == 0


def test_rows_hold_all_time_of_their_own_and_the_last_one_the_rest(found):
    assert len(found.rows) == 5 and found.rows[-1]["operation"].endswith(" others")
    assert sum(row["share"] for row in found.rows) == pytest.approx(1)
    times = [row["milliseconds"] for row in found.rows[:-1]]
    assert times == sorted(times, reverse=True) and "on CPU" in found.caption


def test_spans_lie_inside_of_those_that_called_them(found):
    named = next(span for span in found.spans if span.name == "on the way there")
    inner = [span for span in found.spans if named.begin <= span.begin and span.end <= named.end and span != named]
    assert named.depth == 0 and {"aten::linear", "aten::addmm"} <= {span.name for span in inner}
    assert all(span.depth > 0 for span in inner) and found.spans[0].begin >= 0


def test_nothing_to_watch_is_a_sentence():
    with pytest.raises(ConfigError, match="calls=0"):
        profile_operations(lambda: None, calls=0)
    assert profile_operations(lambda: None).spans == ()
