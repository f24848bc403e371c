"""Every kind of error, provoked on the installed PyTorch: its explanation names the cause, the variable and the fix."""

import gc
import multiprocessing
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from labkit.doctor.explain import KINDS, Explanation, explain_exception
from tests.doctor.explain.provoked.program import Program, programs

CASES = [pytest.param(program, id=program.name, marks=[pytest.mark.slow] * program.slow) for program in programs()]


@contextmanager
def error_of(program: Program) -> Iterator[BaseException]:
    """Give the error of a program, and then let go of it: a loader's workers end with the last frame that has it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error" if program.is_silent else "ignore")
            program.run()
    except Exception as error:
        yield error
    else:
        pytest.fail(f"{program.name} did not fail")
    if multiprocessing.active_children():
        gc.collect()


def named_in(explanation: Explanation) -> str:
    """Return all that is said but the line itself, which always has the names."""
    names = [name for name, _ in explanation.operands]
    advice = [part for cause in explanation.causes for part in cause]
    return "\n".join([*names, *explanation.variables, explanation.layer, explanation.where, explanation.what, *advice])


def names(text: str, choice: str) -> bool:
    """Tell whether a text has one of "a|b" as a whole name."""
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in choice.split("|"))


@pytest.mark.parametrize("program", CASES)
def test_a_provoked_error_is_explained(program):
    with error_of(program) as error:
        assert any(fragment in str(error) for fragment in program.says), f"PyTorch says it in other words: {error}"
        before = (type(error), str(error), error.__traceback__, error.__cause__, error.__context__)
        explanation = explain_exception(error)
        assert (type(error), str(error), error.__traceback__, error.__cause__, error.__context__) == before
        assert explanation is not None, f"not explained: {type(error).__name__}: {error}"
        assert explanation.row in program.kinds
        said = named_in(explanation)
        assert [name for name in program.names if not names(said, name)] == [], f"not named in:\n{explanation}"
        first = " ".join(explanation.causes[0])
        assert any(word in first for word in program.fix), f"none of {program.fix} in:\n{explanation}"
        advice = " ".join(part for cause in explanation.causes for part in cause)
        assert [word for word in program.never if word in advice] == [], f"a wrong cause in:\n{explanation}"


def test_every_kind_is_provoked_in_three_ways():
    count = Counter(program.kinds[0] for program in programs())
    assert {kind: count[kind] for kind in KINDS if count[kind] < 3} == {}
    assert set(count) == set(KINDS)
