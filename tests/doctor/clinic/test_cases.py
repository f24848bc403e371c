"""Every case runs as it is shown, hurts, and is cured by its cure."""

import inspect
import math

import pytest

from labkit.doctor import clinic
from labkit.doctor.clinic.case import swapped
from labkit.errors import ConfigError, LabkitError

CASES = list(clinic.CASES.values())
QUICK = ("wren", "swan", "viper", "robin", "magpie")


def worth(case: clinic.Case, seed: int, cured: bool) -> float:
    seen = clinic.run(case, seed, cured)
    assert not (cured and seen.error), seen.error
    return -math.inf if math.isnan(seen.measured) else seen.measured


def test_there_are_enough_cases_of_every_level_and_many_faults():
    assert len(CASES) >= 30 and len({case.label for case in CASES}) >= 25
    assert all(len(clinic.cases(level)) >= 5 for level in (1, 2, 3))
    assert {label for case in CASES for label in (case.label, *case.also)} <= clinic.WORDS.keys()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_code_is_short_and_whole_and_only_the_fault_differs(case):
    assert case.code != case.cured and len(case.code.splitlines()) < 80
    changes = case.diff().splitlines()
    assert 1 <= sum(line.startswith(("+", "-")) for line in changes) <= 8
    compile(case.code, case.name, "exec")


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_hurts_and_its_cure_works(name):
    case = clinic.find(name)
    assert worth(case, 0, cured=True) - worth(case, 0, cured=False) >= case.gap


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "seed"),
    [
        pytest.param(case, seed, id=f"{case.name}-{seed}", marks=[pytest.mark.exhaustive] * (seed != place % 3))
        for place, case in enumerate(CASES)
        for seed in range(3)
    ],
)
def test_every_fault_hurts_and_its_cure_works(case, seed):
    assert worth(case, seed, cured=True) - worth(case, seed, cured=False) >= case.gap


@pytest.mark.parametrize("cured", [False, True])
def test_what_is_shown_is_what_runs(cured):
    case = clinic.find("otter")
    step = clinic.pieces(case, cured)["train_step"]
    assert inspect.getsource(step) in case.source(cured)
    assert ("zero_grad" in inspect.getsource(step)) is cured
    assert clinic.run(case, cured=cured).code == case.source(cured)


def test_a_run_is_plain_numbers_and_repeats_itself():
    case = clinic.find("heron")
    first, again = clinic.run(case, 1), clinic.run(case, 1)
    assert first == again and first.seed == 1 and not first.error
    assert len(first.epochs) == 8 and len(first.updates) == 160
    assert first.gradients.keys() == first.ratios.keys() == {"1 Linear", "3 Linear", "5 Linear"}
    assert all(value == 0 for ratios in first.ratios.values() for value in ratios), "no weight moves"
    assert all(norm > 0 for norms in first.gradients.values() for norm in norms)
    assert list(first.activations) == ["2 ReLU", "4 ReLU", "5 Linear"]


def test_a_mix_is_the_same_for_a_day_and_has_one_case_of_each_level():
    mix = clinic.daily_mix("2026-03-01")
    assert mix == clinic.daily_mix("2026-03-01") and [case.level for case in mix] == [1, 2, 3]
    days = {tuple(case.name for case in clinic.daily_mix(f"2026-03-{day:02}")) for day in range(1, 29)}
    assert len(days) > 20
    with pytest.raises(ConfigError, match="2026-03-01"):
        clinic.daily_mix("tomorrow")


def test_the_answer_to_a_guess_names_what_was_measured():
    case = clinic.find("heron")
    seen = clinic.run(case)
    right = clinic.reply(case, seen, "step_missing")
    assert right.is_right and case.explanation in right.text
    wrong = clinic.reply(case, seen, clinic.WORDS["lr_too_high"])
    assert not wrong.is_right and "the median update moves them by 0.00%" in wrong.text
    assert wrong.text.endswith("You look in the right place: the fault is in the updates.")
    assert all(clinic.reply(case, seen, label).text for label in clinic.WORDS)
    with pytest.raises(ConfigError, match="none of the faults"):
        clinic.reply(case, seen, "bad luck")


def test_lines_that_are_not_there_once_are_refused():
    with pytest.raises(LabkitError, match="0 times, not once"):
        swapped("a\n", (("b", "c"),))
    with pytest.raises(ConfigError, match="There is no case"):
        clinic.find("unicorn")
