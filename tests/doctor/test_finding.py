import json

from labkit.doctor.finding import Finding, Report, ordered
from tests.doctor.small import program


def finding(fault, severity="fail", **more):
    return Finding(fault, severity, f"{fault} was <seen>", "it hurts", "mend()", "look()", "05", **more)


def test_the_root_cause_comes_first_and_takes_its_consequences_along():
    found = [
        finding("lr_too_low", "warn"),
        finding("bad_init"),
        finding("step_missing", weight=8, explains=("lr_too_low",)),
    ]
    roots = ordered(found)
    assert [root.fault for root in roots] == ["step_missing", "bad_init"]
    assert [one.fault for one in roots[0].consequences] == ["lr_too_low"]


def test_two_findings_of_one_fault_are_one():
    assert len(ordered([finding("bad_init"), finding("bad_init", weight=2)])) == 1


def test_a_report_as_text_json_and_html():
    report = Report(ordered([finding("bad_init", explains=("dead_units",)), finding("dead_units", "warn")]), program())
    assert report.failed and "FAIL  bad_init: bad_init was <seen>" in str(report)
    plain = json.loads(report.to_json())
    assert plain["findings"][0]["consequences"][0]["fault"] == "dead_units"
    assert "bad_init was &lt;seen&gt;" in report._repr_html_()
    assert str(Report([], program())) == "No fault found."
