"""`labkit claims`, in this process: each start of Python with torch takes seconds."""

import dataclasses
import json

import pytest
from click.testing import CliRunner, Result

from labkit import cli
from labkit.course import places
from labkit.errors import LabkitError
from labkit.exercises import claims

TENSORS = ("--topic", "Tensors")


def labkit(*arguments: str) -> Result:
    return CliRunner().invoke(cli.labkit, ["claims", *arguments])


def test_it_shows_each_topic_with_what_is_taught_of_it():
    lines = labkit().output.splitlines()
    coverage = claims.coverage(places.find_course(), "Tensors")
    numbers = [str(coverage["checkable"]), str(coverage["taught"]), str(len(coverage["judged"]))]
    assert next(line.split()[1:] for line in lines if line.startswith("Tensors")) == numbers
    assert len(lines) == 2 + len({known.topic for known in claims.all_claims()})


def test_json_is_the_coverage_of_the_whole_ledger_or_of_a_topic():
    assert json.loads(labkit("--json").output) == claims.coverage(places.find_course())
    of_a_topic = json.loads(labkit("--json", "--topic", "autograd").output)
    assert of_a_topic == {"checkable": 48, "taught": 48, "missing": [], "judged": []}


def test_a_topic_lists_its_claims():
    lines = labkit("--topic", "environment").output.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [known.id for known in claims.all_claims("Environment")]


def test_one_claim_is_shown_and_measured_when_asked_for():
    known = claims.find("C041")
    shown, measured = labkit("C041").output, labkit("c041", "--demonstrate").output
    assert known.statement in shown and known.right_statement in shown and "Verdict: it depends" in shown
    assert "Measured on this computer" not in shown
    assert measured == f"{shown}\n{known.demonstrate()}\n"


def test_one_claim_as_json():
    shown = json.loads(labkit("C041", "--json").output)
    assert shown["verdict"] == "partly" and shown["choice"] == "it depends" and "evidence" not in shown
    measured = json.loads(labkit("C041", "--json", "--demonstrate").output)
    assert measured == shown | {"evidence": claims.find("C041").demonstrate().parts}


def test_a_judged_claim_says_why_it_is_not_measured():
    known = claims.find("C028")
    assert labkit("C028").output.endswith(f"Judged, not measured: {known.unmeasured}\n")
    refused = labkit("C028", "--demonstrate").exception
    assert isinstance(refused, LabkitError) and known.unmeasured in str(refused)


def test_the_measurements_of_a_topic_are_compared_with_the_ledger(monkeypatch):
    tensors = claims.all_claims("Tensors")
    verdicts = {known.id: known.choice for known in tensors if known.measure}
    output = labkit("--demonstrate", *TENSORS).output
    assert f"{len(verdicts)} claims were measured on this computer; 0 differ" in output
    assert json.loads(labkit("--demonstrate", "--json", *TENSORS).output)["measured"] == verdicts
    doctored = dataclasses.replace(claims.find("C041"), measure=lambda: {"a part": True})
    with_it = [doctored if known.id == "C041" else known for known in tensors]
    monkeypatch.setattr(claims, "all_claims", lambda topic: with_it)
    output = labkit("--demonstrate", *TENSORS).output
    assert "; 1 differ" in output and "C041  true        the ledger says it depends" in output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["C401"], "no claim 'C401'; close to it: C"), (["--topic", "Tensros"], "close to it: Tensors")],
)
def test_what_is_not_there_is_answered_with_what_is_close(arguments, sentence):
    refused = labkit(*arguments).exception
    assert isinstance(refused, LabkitError) and sentence in str(refused)


def test_one_claim_and_a_topic_do_not_go_together():
    finished = labkit("C041", "--topic", "Tensors")
    assert finished.exit_code == 2 and "give one of the two" in finished.output


def test_the_help_has_examples():
    assert "labkit claims C041 --demonstrate    one claim, measured on this computer" in labkit("--help").output
