"""What `labkit data` says, as plain data and as text."""

import json

import pytest

from labkit.data import summary
from labkit.data.sources import SOURCES
from labkit.data.splits import load
from labkit.errors import DataError


def test_every_named_source_is_listed_with_what_a_download_would_cost():
    rows = {row["name"]: row["on this disk"] for row in summary.list_sources().rows}
    assert set(rows) == set(SOURCES)
    assert rows["shapes"].startswith("yes")
    assert rows["cifar10"] in ("yes", "no; 170 MB to download")


def test_a_description_agrees_with_the_data_and_is_plain():
    facts, splits = summary.describe("digits"), load("digits")
    assert json.loads(json.dumps(facts)) == facts
    assert facts["parts"]["test"]["counts"] == splits.test.counts().tolist()
    assert facts["parts"]["train"]["fingerprint"] == splits.train.fingerprint()
    assert facts["mean"] == splits.train.statistics()[0].tolist()


def test_the_text_has_a_row_for_each_class_and_every_note():
    part = {"pictures": 3, "counts": [1, 2], "fingerprint": "ab" * 32}
    facts = {"name": "mine", "image_shape": [3, 8, 8], "classes": ["cat", "dog"], "parts": {"train": part}}
    text = summary.as_text(facts | {"mean": [0.5, 0.25, 0.1], "deviation": [1, 1, 1], "notes": ["a.png is damaged"]})
    lines = text.splitlines()
    assert [line.split() for line in lines[2:5]] == [["cat", "1"], ["dog", "2"], ["all", "3"]]
    assert "mean 0.500 0.250 0.100" in text and lines[-1] == "note: a.png is damaged"


def test_an_unknown_name_is_refused():
    with pytest.raises(DataError, match="digits"):
        summary.describe("digitz")
