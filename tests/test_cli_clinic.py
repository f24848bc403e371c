"""`labkit clinic` as a learner meets it."""

import json

from tests.command_line import labkit, refused


def test_cases_are_listed_by_level_and_by_day():
    assert labkit("clinic").stdout.count("\n") >= 30
    assert all(line.startswith("level 2") for line in labkit("clinic", "--level", "2").stdout.splitlines())
    lines = labkit("clinic", "--daily", "--date", "2026-03-01").stdout.splitlines()
    assert [line[:7] for line in lines] == ["level 1", "level 2", "level 3"]


def test_a_case_is_shown_judged_and_mended(tmp_path):
    own = {"LABKIT_PROGRESS": str(tmp_path / "p.json")}
    shown = labkit("clinic", "--case", "heron", "--out", "heron.png", folder=tmp_path)
    assert "optimizer.zero_grad()" in shown.stdout and "epoch 8: loss" in shown.stdout
    assert (tmp_path / "heron.png").read_bytes().startswith(b"\x89PNG")
    assert labkit("clinic", "--case", "heron", "--say", "step_missing", **own).stdout.startswith("Right: ")
    assert json.loads((tmp_path / "p.json").read_text())["clinic"]["heron"]["is_right"] is True
    assert "heron   solved" in labkit("clinic", **own).stdout
    assert "+    optimizer.step()" in labkit("clinic", "--case", "heron", "--mend").stdout


def test_what_cannot_be_is_a_sentence():
    assert "There is no case 'unicorn'" in refused(labkit("clinic", "--case", "unicorn"))
    assert "Which case?" in refused(labkit("clinic", "--mend"))
    assert "lr_too_high" in labkit("clinic", "--faults").stdout
