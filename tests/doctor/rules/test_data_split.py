"""A split that comes out differently each time is found; one with a seed, and other functions, are left alone."""

import random

import numpy
import pytest
import torch
from torch.utils.data import TensorDataset, random_split

from labkit.doctor.evidence import Evidence
from labkit.doctor.probe.data import DataEvidence
from labkit.doctor.probe.data_split import look_at_split
from labkit.doctor.rules.data_split import RULES
from tests.doctor.small import program

DATA = TensorDataset(torch.arange(30))


def by_numpy(seed: int | None):
    return lambda: numpy.random.default_rng(seed).permutation(30).tolist()


def by_python(seed: int | None):
    def split() -> dict[str, list[int]]:
        order = list(range(30))
        random.Random(seed).shuffle(order)
        return {"train": order[:20], "val": order[20:]}

    return split


def by_torch(seed: int | None):
    def split() -> list:
        generator = torch.Generator()
        generator.seed() if seed is None else generator.manual_seed(seed)
        return random_split(DATA, [20, 10], generator)

    return split


def said(function) -> list[str]:
    evidence = Evidence(DataEvidence(split=look_at_split(program(context={"parts": function}))), None, None, None, None)
    return [finding.what for rule in RULES if (finding := rule(evidence)) is not None]


@pytest.mark.parametrize("by", [by_numpy, by_python, by_torch])
def test_a_split_without_a_seed(by) -> None:
    assert said(by(0)) == []
    (what,) = said(by(None))
    assert what.startswith("parts() was asked twice with the same global seeds") and "of 30 samples" in what


def test_global_generators_are_seeded_by_the_caller() -> None:
    assert said(lambda: torch.randperm(30)) == []
    assert said(lambda: numpy.random.permutation(30)) == []


def test_other_functions_are_not_called() -> None:
    called = []
    assert said(lambda: called.append(1)) == [] and called == []
    assert said(lambda order: numpy.random.default_rng().permutation(order)) == []
