"""Every claim about autograd is measured, the measurement yields the ledger's verdict, and it leaves no trace."""

import pytest
import torch

from labkit.exercises import claims
from labkit.exercises.ledger.autograd_graph import has_circle

CLAIMS = claims.all_claims("Autograd")


def test_none_of_the_topic_is_missing():
    coverage = claims.coverage(topic="Autograd")
    assert [known.id for known in CLAIMS] == [f"C{number:03}" for number in range(69, 117)]
    assert coverage == {"checkable": 48, "taught": 48, "missing": [], "judged": []}


@pytest.mark.parametrize("known", CLAIMS, ids=[known.id for known in CLAIMS])
def test_the_measurement_yields_the_verdict(known):
    random_state, dtype = torch.get_rng_state(), torch.get_default_dtype()
    evidence = known.demonstrate()
    assert evidence.choice == known.choice, evidence
    assert known.demonstrate().parts == evidence.parts
    assert torch.equal(torch.get_rng_state(), random_state)
    assert torch.get_default_dtype() == dtype and torch.is_grad_enabled()


@pytest.mark.parametrize("known", CLAIMS, ids=[known.id for known in CLAIMS])
def test_each_choice_is_explained_in_words_of_its_own(known):
    assert set(known.explanations) == set(claims.CHOICES)
    assert len(set(known.explanations.values())) == 3
    assert all(len(text) > 60 for text in known.explanations.values())


def test_another_behaviour_of_torch_gives_another_verdict(monkeypatch):
    new_default = torch.optim.SGD.zero_grad

    def zeros_as_before_version_two(optimizer, set_to_none=False):
        new_default(optimizer, set_to_none)

    monkeypatch.setattr(torch.optim.SGD, "zero_grad", zeros_as_before_version_two)
    assert claims.find("C081").demonstrate().choice == "true"


def test_a_circle_would_be_seen():
    class Node:
        def __init__(self, *following):
            self.next_functions = [(node, 0) for node in following]

    end = Node(None)
    shared = Node(end)
    assert not has_circle(Node(shared, shared))
    end.next_functions = [(shared, 0)]
    assert has_circle(Node(shared))
