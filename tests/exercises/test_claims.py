"""Claims: every demonstration yields the ledger's verdict and leaves no trace, and a wrong verdict would be seen."""

import ast
import csv
import functools
import inspect
import textwrap
from pathlib import Path

import pytest
import torch

from labkit.errors import LabkitError
from labkit.exercises import claims, ledger
from labkit.exercises.claims import Claim, Evidence

#: The list that the ledger was made from: material of the authors, not part of the course.
MATERIAL = Path(__file__).parents[2] / ".." / "shared" / "curriculum" / "claims.csv"
DECLARED = [known for known in claims.all_claims() if known.explanations]
MEASURED = [known for known in DECLARED if known.measure]


def ids(found: list[Claim]) -> list[str]:
    return [known.id for known in found]


@functools.cache
def first_evidence(claim_id: str) -> Evidence:
    """Return what the first demonstration of a claim in this process showed."""
    return claims.find(claim_id).demonstrate()


def global_state() -> tuple:
    """Return what a demonstration must leave as it was, in a form that can be compared."""
    settings = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    return *settings, torch.are_deterministic_algorithms_enabled(), torch.get_rng_state().tolist()


def a_claim(verdict: str = "true", measure=lambda: {"a part": True}, **fields: object) -> Claim:
    return Claim("C999", "Tests", verdict, "Said.", "Right.", measure=measure, **fields)


# The ledger


def test_the_ledger_has_300_rows_in_order_and_none_is_empty():
    rows = ledger.rows()
    assert [row["id"] for row in rows] == [f"C{number:03}" for number in range(1, 301)]
    assert all(set(row) == {"id", "topic", "verdict", "statement", "right_statement"} for row in rows)
    assert all(text and text == text.strip() for row in rows for text in row.values())
    assert {row["verdict"] for row in rows} == set(claims.CHOICE_OF)
    assert len({row["statement"] for row in rows}) == 300


@pytest.mark.skipif(not MATERIAL.exists(), reason="the list that the ledger was made from is not here")
def test_the_ledger_says_it_in_words_of_its_own():
    def words(text: str) -> str:
        return " ".join(text.replace("`", "").lower().split()).rstrip(".")

    with MATERIAL.open(encoding="utf-8", newline="") as file:
        taken = {words(row[column]) for row in csv.DictReader(file) for column in ("claim", "correct_statement")}
    said = [row[column] for row in ledger.rows() for column in ("statement", "right_statement")]
    assert [text for text in said if words(text) in taken] == []


#: The topics of which every claim that a measurement can decide has one.
COMPLETE = [
    "Framework",
    "Environment",
    "Tensors",
    "Autograd",
    "nn.Module",
    "Data",
    "Losses",
    "Training loop",
    "Validation",
    "Pitfalls",
    "Speed",
    "Mixed precision",
    "Gradient accumulation",
    "Gradient clipping",
    "Schedulers",
    "Checkpoints",
    "Reproducibility",
]


@pytest.mark.parametrize("topic", COMPLETE)
def test_nothing_of_these_topics_is_missing(topic):
    coverage = claims.coverage(topic=topic)
    assert coverage["missing"] == [] and coverage["taught"] == coverage["checkable"] > 1
    undecided = [known for known in claims.all_claims(topic) if not known.is_checkable]
    assert all(known.unmeasured or known.verdict == "unverifiable-here" for known in undecided)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: claims.find("C41"), r"no claim 'C41'; close to it: .*C041\.$"),
        (lambda: claims.find("autograd"), r"no claim 'autograd'; its ids go from C001 to C300\.$"),
        (lambda: claims.all_claims("Tensros"), r"^No topic contains 'Tensros'; close to it: Tensors\.$"),
        (lambda: claims.coverage(topic="knitting"), "contains 'knitting'; there are: .*Autograd; nn.Module; Data;"),
    ],
)
def test_what_is_not_in_the_ledger_is_answered_with_what_is_close(ask, sentence):
    with pytest.raises(LabkitError, match=sentence):
        ask()


def test_letters_may_be_small():
    assert claims.find("c041").id == "C041"
    assert claims.all_claims("autograd") == claims.all_claims("Autograd")


def test_a_cell_teaches_the_claims_that_it_carries(tmp_path):
    # no run decides these two, so that no demonstration will ever teach them
    source = tmp_path / "notebooks" / "source"
    source.mkdir(parents=True)
    (source / "01_x.py").write_text('# %% claims=["C233", "C242"]\nx = 1\n', encoding="utf-8")
    assert claims.taught(tmp_path) == claims.taught() | {"C233", "C242"} != claims.taught()
    (source / "02_x.py").write_text('# %% claims=["C777"]\n', encoding="utf-8")
    with pytest.raises(LabkitError, match="02_x.py has a cell with the claim C777, which is not in the ledger"):
        claims.taught(tmp_path)


# What is declared


@pytest.mark.parametrize("known", MEASURED, ids=ids(MEASURED))
def test_the_measurement_yields_the_verdict_and_leaves_no_trace(known):
    before = global_state()
    evidence = first_evidence(known.id)
    assert evidence.choice == known.choice, f"{known.statement}\n{evidence}"
    assert global_state() == before


@pytest.mark.slow
@pytest.mark.parametrize("known", MEASURED, ids=ids(MEASURED))
def test_another_measurement_yields_the_same_and_leaves_no_trace(known):
    expected, before = first_evidence(known.id), global_state()
    assert known.demonstrate() == expected
    assert global_state() == before


@pytest.mark.parametrize("known", MEASURED, ids=ids(MEASURED))
def test_no_part_is_written_down_instead_of_measured(known):
    code = ast.parse(textwrap.dedent(inspect.getsource(known.measure)))
    ends = [node.value for node in ast.walk(code) if isinstance(node, ast.Return)]
    for part in (value for end in ends if isinstance(end, ast.Dict) for value in end.values):
        assert any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(part)), ast.unparse(part)


@pytest.mark.parametrize("known", DECLARED, ids=ids(DECLARED))
def test_each_choice_is_explained_in_words_of_its_own(known):
    assert tuple(known.explanations) == claims.CHOICES
    assert len(set(known.explanations.values())) == 3
    assert all(len(text) > 40 for text in known.explanations.values())
    assert (known.measure is None) == bool(known.unmeasured)


def test_a_claim_is_declared_once():
    texts = dict.fromkeys(("true", "false", "depends"), "Again.")
    with pytest.raises(LabkitError, match="C038 is declared twice"):
        claims.claim("C038", **texts)(lambda: {"a part": True})
    with pytest.raises(LabkitError, match="C028 is declared twice"):
        claims.judged("C028", "Nothing to run.", **texts)


@pytest.mark.parametrize(
    ("parts", "choice"),
    [((True,), "true"), ((True, True), "true"), ((False, False), "false"), ((False, True), "it depends")],
)
def test_the_parts_alone_decide(parts, choice):
    evidence = Evidence({f"part {number}": holds for number, holds in enumerate(parts)})
    assert evidence.choice == choice
    assert str(evidence).endswith(f"So: {choice}.") and f"So: **{choice}**." in evidence._repr_markdown_()


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({}, "at least one part"),
        ({"a part": 1}, "True or False; it is int"),
        ({"a part": torch.tensor(True)}, "Tensor"),
    ],
)
def test_what_is_no_measurement_is_refused(parts, sentence):
    with pytest.raises(LabkitError, match=sentence):
        a_claim(measure=lambda: parts).demonstrate()


@pytest.mark.parametrize(("verdict", "choice"), claims.CHOICE_OF.items())
def test_evidence_against_the_verdict_is_caught(verdict, choice):
    doctored = {
        "true": {"a part": True, "another": False},
        "false": {"a part": True},
        "it depends": {"a part": False},
        None: {"a part": True},
    }[choice]
    known = a_claim(verdict, lambda: doctored)
    assert known.choice == choice != known.demonstrate().choice


def test_a_changed_fact_turns_a_real_demonstration(monkeypatch):
    known = claims.find("C041")
    assert known.demonstrate().choice == known.choice
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda left, right: left.double().matmul(right.double()))
    monkeypatch.setattr(torch, "matmul", torch.Tensor.__matmul__)
    assert known.demonstrate().choice != known.choice


def test_a_demonstration_that_changes_everything_and_fails_leaves_no_trace():
    def careless() -> dict[str, bool]:
        torch.manual_seed(1)
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(torch.get_num_threads() + 1)
        raise RuntimeError("out of ideas")

    before = global_state()
    with pytest.raises(LabkitError, match="of C999 stopped with RuntimeError: out of ideas. It decides nothing"):
        a_claim(measure=careless).demonstrate()
    assert global_state() == before


def test_a_claim_without_a_demonstration_says_why():
    with pytest.raises(LabkitError, match="No chapter teaches it yet"):
        a_claim(measure=None).demonstrate()
    with pytest.raises(LabkitError, match="C999 has no demonstration. It is advice."):
        a_claim(measure=None, unmeasured="It is advice.").demonstrate()
    with pytest.raises(LabkitError, match="No run on this computer can decide it"):
        a_claim("unverifiable-here", measure=None).demonstrate()
