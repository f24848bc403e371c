"""A record is written whole and read back; a file that is none is answered with a sentence."""

import json
from dataclasses import asdict

import pytest

from labkit.errors import DataError
from labkit.speed import MEASUREMENTS, record, records
from labkit.speed.recorded import read, save


def a_record():
    return record("cpu", quick=True, names=["optimizer"], told=lambda name: None)


def test_a_record_says_what_when_and_with_which_versions(tmp_path):
    kept = a_record()
    assert kept.kind == "cpu" and kept.quick and set(kept.versions) == {"labkit", "python", "torch"}
    assert list(kept.figures) == ["optimizer"] and list(kept.figures["optimizer"]) == ["one by one", "foreach", "fused"]
    assert kept.device in kept.label and kept.date in kept.label
    save(kept, tmp_path / "one.json")
    assert read(tmp_path / "one.json") == kept and [*tmp_path.iterdir()] == [tmp_path / "one.json"]
    assert [row["way"] for row in kept.table().rows] == list(kept.figures["optimizer"])
    assert records(tmp_path / "one.json")[-1] == kept


def test_the_records_of_the_course_are_whole_and_not_quick():
    found = records()
    assert found
    for kept in found:
        assert not kept.quick and set(kept.figures) <= set(MEASUREMENTS)
        assert len(kept.figures) >= len(MEASUREMENTS) - (0 if kept.kind == "cpu" else 2)
        for ways in kept.figures.values():
            assert next(iter(ways.values()))["times as fast"] == 1
            assert all(one["milliseconds"] > 0 for one in ways.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda facts: "{", "is no JSON file"),
        (lambda facts: "[]", "no record of this version"),
        (lambda facts: json.dumps(facts | {"schema": 99}), "no record of this version"),
        (lambda facts: json.dumps({name: facts[name] for name in facts if name != "date"}), "no whole record"),
        (lambda facts: json.dumps(facts | {"figures": {"optimizer": {"fused": {"milliseconds": "x"}}}}), "not all"),
        (lambda facts: json.dumps(facts | {"figures": 3}), "no whole record"),
        (lambda facts: json.dumps(facts | {"versions": {}}), "no whole record"),
    ],
)
def test_a_file_that_is_no_record_is_a_sentence(tmp_path, change, said):
    figures = {"optimizer": {"fused": {"milliseconds": 1.0, "times as fast": 1.0, "first call": 1.0}}}
    facts = {"schema": 1, "device": "D", "kind": "cpu", "date": "2026-12-03", "versions": {"torch": "2"}}
    path = tmp_path / "one.json"
    path.write_text(change(facts | {"quick": True, "figures": figures, "notes": []}), encoding="utf-8")
    with pytest.raises(DataError, match=said):
        read(path)


def test_a_file_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        records(tmp_path / "none.json")
    with pytest.raises(DataError, match="cannot be written"):
        save(read_any(), tmp_path / "none" / "one.json")


def read_any():
    return records()[0]


def test_a_record_is_plain_data():
    assert json.loads(json.dumps(asdict(read_any())))["kind"] == read_any().kind
