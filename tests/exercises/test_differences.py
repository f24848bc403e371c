import math

import numpy as np
import pytest
import torch

from labkit.exercises.differences import Tolerance, differences, kind, shown

CLOSE = Tolerance()


def what(expected, got, tolerance=CLOSE):
    return [(one.where, one.what) for one in differences(expected, got, tolerance)]


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([1.0, math.nan, math.inf]),
        torch.tensor([True, False]),
        torch.empty(0, 3),
        torch.tensor(2 + 1j),
        torch.empty(2, 2, device="meta"),
        np.arange(3),
        torch.float32,
        torch.Size([2, 3]),
        math.nan,
        "text",
        None,
        {"a": [1, torch.ones(2)], "b": (None,)},
    ],
    ids=str,
)
def test_a_value_does_not_differ_from_itself(value):
    assert what(value, value) == []


@pytest.mark.parametrize(
    ("expected", "got", "found"),
    [
        (torch.ones(2), torch.ones(3), [("", "shape")]),
        (torch.ones(2), torch.ones(2).double(), [("", "dtype")]),
        (torch.ones(2), torch.ones(2, 1).double(), [("", "shape"), ("", "dtype")]),
        (torch.ones(2), torch.ones(2, device="meta"), [("", "device")]),
        (torch.ones(2), torch.tensor([1.0, 1.1]), [("", "value")]),
        (torch.ones(2), torch.tensor([1.0, math.nan]), [("", "value")]),
        (torch.tensor([2**53 + 1]), torch.tensor([2**53]), [("", "value")]),
        (torch.ones(2), torch.ones(2).to(torch.float8_e4m3fn), [("", "dtype")]),
        (torch.ones(2), torch.ones(2) + 1j, [("", "dtype"), ("", "value")]),
        (torch.tensor([1, 2]), torch.tensor([1, 3], dtype=torch.uint16), [("", "dtype"), ("", "value")]),
        (torch.ones(1), torch.ones(1).to_sparse(), [("", "kind")]),
        (torch.ones(1), 1.0, [("", "kind")]),
        (torch.ones(1), np.ones(1), [("", "kind")]),
        (np.ones(1), np.ones(1, dtype="float32"), [("", "dtype")]),
        (True, 1, [("", "kind")]),
        (1.0, math.inf, [("", "value")]),
        (math.inf, -math.inf, [("", "value")]),
        (torch.float32, torch.float64, [("", "value")]),
        ((1, 2), (1, 2, 3), [("", "length")]),
        ((1, 2), [1, 3], [("[1]", "value")]),
        ({"a": 1}, {"b": 1}, [("", "names")]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [("a: b[1]", "value")]),
    ],
)
def test_the_first_place_that_differs_is_named(expected, got, found):
    assert what(expected, got) == found


def test_whole_numbers_equal_floats_and_rounding_is_allowed():
    assert what(3, 3.0) == [] and what(1.0, 1.0 + 1e-6) == [] and what(torch.ones(1), torch.ones(1) + 1e-6) == []
    assert what((2, 3), torch.Size([2, 3])) == []
    assert what({"a": 1, "b": 2}, {"b": 2, "a": 1}) == []


def test_the_graph_counts_where_it_is_asked_for():
    plain, leaf = torch.ones(1), torch.ones(1, requires_grad=True)
    graph = Tolerance(graph=True)
    assert what(plain, leaf) == []
    assert what(plain, leaf, graph) == [("", "requires_grad")]
    assert what(leaf, leaf * 1, graph) == [("", "leaf")]


def test_of_a_large_tensor_the_first_element_that_differs_is_shown():
    expected = torch.zeros(10, 10)
    got = expected.clone()
    got[3, 4] = 7
    (found,) = differences(expected, got, CLOSE)
    assert (found.expected, found.got) == ("0.0 at [3, 4]", "7.0 at [3, 4]")


def test_of_a_small_tensor_whose_printed_digits_are_equal_the_element_is_shown():
    (found,) = differences(torch.tensor([2.25, 0.125]), torch.tensor([2.25, 0.125 + 2**-15]), CLOSE)
    assert (found.expected, found.got) == ("0.125 at [1]", "0.125030517578125 at [1]")


def test_values_are_shown_short():
    assert shown(torch.arange(3)) == "tensor([0, 1, 2])"
    assert shown(torch.zeros(100, 2)) == "float32 tensor of shape (100, 2)"
    assert len(shown("x" * 1000)) <= 200


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.ones(1), "a tensor"),
        (torch.ones(1).to_sparse(), "a sparse tensor"),
        (torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged), "a nested tensor"),
        (torch.nn.LazyLinear(1).weight, "a parameter without a size yet"),
        (True, "True or False"),
        (3, "a number"),
        ((), "a list or tuple"),
        (None, "None"),
        (type("", (), {})(), "a "),
    ],
)
def test_a_kind_is_said_in_words(value, words):
    assert kind(value) == words
