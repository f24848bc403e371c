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
