"""`labkit record-device` as a user meets it."""

import json

import pytest

from tests.command_line import labkit, refused


def test_help_has_examples():
    shown = labkit("record-device", "--help")
    assert shown.returncode == 0 and "Examples:\n" in shown.stdout and "--quick" in shown.stdout


def test_one_measurement_as_a_table_and_as_json_and_into_a_file(tmp_path):
    arguments = ["record-device", "--device", "cpu", "--quick", "--only", "augmentation"]
    shown = labkit(*arguments, "--out", "here.json", folder=tmp_path)
    assert shown.returncode == 0 and shown.stderr == "measuring: augmentation\n"
    assert shown.stdout.startswith("A quick look at ") and shown.stdout.endswith("written: here.json\n")
    assert "whole batch, by rows" in shown.stdout
    facts = json.loads(labkit(*arguments, "--json", folder=tmp_path).stdout)
    written = json.loads((tmp_path / "here.json").read_text(encoding="utf-8"))
    assert list(written["figures"]["augmentation"]) == list(facts["figures"]["augmentation"])
    assert written["device"] == facts["device"] and "file" not in facts


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "amp"], "There is no measurement 'amp'"),
        (["--device", "tpu"], "Device 'tpu'"),
        (["--out", "none/here.json"], "its folder is not there"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path, arguments, said):
    assert said in refused(labkit("record-device", "--quick", *arguments, folder=tmp_path))
