import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from labkit.errors import LabkitError
from labkit.tensors import element_places, reading_steps, shares_storage, whole_storage


@st.composite
def views(draw):
    """Draw a tensor whose values are the numbers of its boxes, seen through random slices, transposes and expands."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    x = torch.arange(int(np.prod(shape))).view(shape)
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["slice", "transpose", "expand", "select", "unsqueeze"]))
        axis = draw(st.integers(0, max(0, x.dim() - 1)))
        if kind == "slice" and x.dim():
            start, step = draw(st.integers(0, 2)), draw(st.integers(1, 3))
            x = x[(slice(None),) * axis + (slice(start, None, step),)]
        elif kind == "transpose" and x.dim():
            x = x.transpose(axis, draw(st.integers(0, x.dim() - 1)))
        elif kind == "select" and x.dim() and x.shape[axis]:
            x = x.select(axis, draw(st.integers(0, x.shape[axis] - 1)))
        elif kind == "unsqueeze" or not x.dim():
            x = x.unsqueeze(0)
        elif x.shape[axis] == 1:
            x = x.expand(*(3 if place == axis else size for place, size in enumerate(x.shape)))
    return x


@given(views())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_each_element_is_in_the_box_that_holds_its_value(x):
    assert element_places(x).equal(x)
    assert whole_storage(x)[element_places(x).flatten()].equal(x.flatten())


@given(st.data())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_places_follow_any_strides_even_overlapping_ones(data):
    shape = data.draw(st.lists(st.integers(0, 3), max_size=4))
    strides = data.draw(st.lists(st.integers(0, 5), min_size=len(shape), max_size=len(shape)))
    x = torch.arange(60).as_strided(shape, strides, data.draw(st.integers(0, 9)))
    assert element_places(x).equal(x)


@given(views())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_one_reading_step_means_that_view_works(x):
    steps = reading_steps(x)
    if x.numel() < 2:
        assert steps == []
        return
    try:
        x.view(-1)
    except RuntimeError:
        assert len(steps) > 1
    else:
        assert len(steps) == 1


def test_the_storage_is_not_copied():
    x = torch.zeros(2, 3)
    whole_storage(x)[5] = 7
    assert x[1, 2] == 7


def test_who_shares_memory():
    x, array = torch.arange(6.0), np.arange(6.0)
    assert shares_storage(x, x[3:]) and shares_storage(x[:2], x[4:]) and shares_storage(x, x.numpy())
    assert shares_storage(torch.from_numpy(array), array) and shares_storage(array, array[::2])
    assert not shares_storage(x, x.clone()) and not shares_storage(torch.tensor(array), array)
    meta = torch.empty(2, device="meta")
    assert not shares_storage(meta, torch.empty(2, device="meta")) and shares_storage(meta, meta.view(2, 1))


def test_fake_tensors_share_by_their_storage_though_they_have_no_memory():
    with FakeTensorMode():
        x, other = torch.empty(3, 4), torch.empty(3, 4)
        turned = x.t()
    assert shares_storage(x, turned) and not shares_storage(x, other)
    assert element_places(turned).shape == (4, 3)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([1, 2], "This is a list, not a tensor"),
        (torch.eye(2).to_sparse(), "does not keep its numbers in one row of boxes"),
        (torch.nn.LazyLinear(2).weight, "lazy layer has no size yet"),
        (torch.empty(1).expand(20_000_000), "places are given for up to 10,000,000"),
    ],
)
def test_what_has_no_places_is_a_sentence(wrong, says):
    with pytest.raises(LabkitError, match=says):
        element_places(wrong)


@pytest.mark.parametrize(
    "x", [torch.tensor(1.0), torch.empty(0, 3), torch.tensor([1 + 2j]), torch.tensor([True])], ids=str
)
def test_unusual_tensors_have_places_too(x):
    assert element_places(x).shape == x.shape and reading_steps(x) == []
