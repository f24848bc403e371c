"""A timeline notes waiting and computing in order, without gaps."""

import time
from itertools import pairwise

import pytest

from labkit.errors import DataError
from labkit.speed import timeline

NAP = 0.005


def slow_batches(count):
    for number in range(count):
        time.sleep(NAP)
        yield number, number


def test_intervals_follow_one_another_without_a_gap():
    computed = []

    def step(inputs, targets):
        computed.append(inputs)
        time.sleep(2 * NAP)

    found = timeline(slow_batches(9), step, batches=3, skip=2)
    assert computed == [0, 1, 2, 3, 4] and [one.kind for one in found.intervals] == ["waiting", "computing"] * 3
    assert all(before.end == after.begin for before, after in pairwise(found.intervals))
    lengths = [one.end - one.begin for one in found.intervals]
    assert min(lengths) > 0
    assert found.intervals[0].begin == 0 and 0 < found.waiting_share < 1


def test_a_short_loader_gives_what_it_has_and_an_empty_one_a_sentence():
    assert len(timeline(slow_batches(2), lambda *_: None).intervals) == 4
    with pytest.raises(DataError, match="after the first 2"):
        timeline(slow_batches(2), lambda *_: None, skip=2)
