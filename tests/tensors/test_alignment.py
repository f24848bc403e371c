import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.errors import LabkitError
from labkit.tensors import align

SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@given(st.lists(SHAPES, min_size=1, max_size=4))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_the_result_or_the_failure_is_that_of_torch(shapes):
    plan = align(*shapes)
    try:
        expected = tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        assert plan.result is None and plan.failing and plan.reason
    else:
        assert plan.result == expected and not plan.failing and plan.reason == ""


def test_axes_say_what_is_stretched():
    plan = align((3, 1), (4,))
    assert [axis.sizes for axis in plan.axes] == [(3, None), (1, 4)]
    assert [axis.stretched for axis in plan.axes] == [(False, True), (True, False)]
    assert plan.stretched == (True, True) and align((3, 4), (3, 4)).stretched == (False, False)


def test_the_failing_axis_is_named_with_its_sizes():
    plan = align((3, 2), (3,))
    assert [axis.position for axis in plan.failing] == [-1]
    assert plan.reason.startswith("On axis -1 the sizes are 2 and 3")


@given(st.lists(SHAPES, min_size=1, max_size=3))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_the_remedy_is_given_only_for_a_failure_and_is_true(shapes):
    plan = align(*shapes)
    if plan.remedy:
        assert plan.failing
        mended = [
            [*shapes[:place], (*shape, 1), *shapes[place + 1 :]]
            for place, shape in enumerate(shapes)
            if f"{shape} becomes {(*shape, 1)}" in plan.remedy
        ]
        results = {align(*attempt).result for attempt in mended}
        assert any(result and plan.remedy.endswith(f"the result is {result}.") for result in results)


def test_no_remedy_makes_a_result_larger_than_meant():
    assert align((3, 2), (3,)).remedy and align((3,), (3, 2)).remedy
    assert align((8,), (4,)).remedy == "" and align((5, 3, 2), (4, 2)).remedy == "" and align((2,), (2,)).remedy == ""


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (torch.ones(2), "This is a tensor; its shape is wanted"),
        (4, r"A shape with one axis has a comma: \(4,\)"),
        ("34", "is not a shape"),
        ((2, -1), "each size must be a whole number, 0 or more"),
        ((2, True), "each size must be a whole number"),
    ],
)
def test_what_is_no_shape_is_a_sentence(wrong, says):
    with pytest.raises(LabkitError, match=says):
        align((2,), wrong)
