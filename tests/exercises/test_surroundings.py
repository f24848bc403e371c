import warnings

import numpy as np
import practice
import pytest
import torch

from labkit.exercises.surroundings import undisturbed

CHANGES = {
    "default dtype": (torch.get_default_dtype, lambda: torch.set_default_dtype(torch.float64)),
    "default device": (torch.get_default_device, lambda: torch.set_default_device("meta")),
    "threads": (torch.get_num_threads, lambda: torch.set_num_threads(torch.get_num_threads() + 1)),
    "gradients": (torch.is_grad_enabled, lambda: torch.set_grad_enabled(False)),
    "deterministic": (torch.are_deterministic_algorithms_enabled, lambda: torch.use_deterministic_algorithms(True)),
    "anomalies": (torch.is_anomaly_enabled, lambda: torch.autograd.set_detect_anomaly(True)),
    "random numbers": (lambda: torch.get_rng_state().sum(), lambda: torch.manual_seed(7)),
    "printed digits": (lambda: str(torch.tensor([0.123456])), lambda: torch.set_printoptions(precision=2)),
    "NumPy's digits": (lambda: str(np.array([0.123456])), lambda: np.set_printoptions(precision=2)),
    "NumPy's errors": (np.geterr, lambda: np.seterr(all="ignore")),
    "warnings": (lambda: list(warnings.filters), lambda: warnings.simplefilter("error")),
}


@pytest.mark.parametrize(("read", "change"), CHANGES.values(), ids=CHANGES)
def test_what_a_block_sets_is_as_it_was_afterwards(read, change):
    before = read()
    with undisturbed():
        change()
    assert read() == before


@pytest.mark.parametrize("change", [change for _, change in CHANGES.values()], ids=CHANGES)
def test_a_check_is_the_same_whatever_the_learner_or_the_answer_has_set(change):
    def setting(x):
        change()
        return x.mean(dim=0)

    exercise = practice.leaf()
    with undisturbed():
        change()
        assert exercise.judge(exercise.reference()).is_right
        assert practice.column_means().judge(setting).is_right
        wrong = exercise.misconceptions[0]
        assert exercise.judge(wrong.answer).misconception == wrong.name


@pytest.mark.parametrize("around", [lambda: torch.device("meta"), torch.no_grad, torch.inference_mode])
def test_a_check_inside_a_context_is_the_same(around):
    exercise = practice.leaf()
    with around():
        assert exercise.judge(exercise.reference()).is_right
