import ast
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.autograd import scratch
from labkit.autograd.scratch import Tensor
from labkit.errors import LabkitError

SHAPES = [(), (1,), (3,), (2, 3), (2, 1), (1, 3), (2, 2, 3)]

# The same operation written for the engine and for torch; positive inputs where the function asks for them.
ONE = {
    "exp": (lambda a: (a * 0.3).exp(), lambda a: (a * 0.3).exp()),
    "log": (lambda a: (a**2 + 1.0).log(), lambda a: (a**2 + 1.0).log()),
    "tanh": (lambda a: a.tanh(), lambda a: a.tanh()),
    "relu": (lambda a: a.relu(), lambda a: a.relu()),
    "cube": (lambda a: (a * 0.5) ** 3, lambda a: (a * 0.5) ** 3),
    "root": (lambda a: (a**2 + 0.5) ** 0.5, lambda a: (a**2 + 0.5) ** 0.5),
    "sum all": (lambda a: a.sum(), lambda a: a.sum()),
    "sum last": (lambda a: a.sum(-1) if a.data.ndim else a, lambda a: a.sum(-1) if a.ndim else a),
    "mean first": (lambda a: a.mean(0) if a.data.ndim else a, lambda a: a.mean(0) if a.ndim else a),
    "flat": (lambda a: a.reshape(-1), lambda a: a.reshape(-1)),
    "negative": (lambda a: 1 - a, lambda a: 1 - a),
    "inverse": (lambda a: 1 / (a**2 + 1.0), lambda a: 1 / (a**2 + 1.0)),
}
TWO = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "subtract": (lambda a, b: a - b, lambda a, b: a - b),
    "multiply": (lambda a, b: a * b, lambda a, b: a * b),
    "divide": (lambda a, b: a / (b**2 + 1.0), lambda a, b: a / (b**2 + 1.0)),
    "matmul": (
        lambda a, b: a.reshape(1, a.data.size) @ (b.reshape(1, b.data.size) * np.ones((a.data.size, 1))),
        lambda a, b: a.reshape(1, a.numel()) @ (b.reshape(1, b.numel()) * torch.ones(a.numel(), 1).double()),
    ),
}


def broadcastable(one, other):
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        return False
    return True


@st.composite
def programs(draw):
    """Draw leaves and a list of operations, each on results that are there already."""
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    recorded = [True] + [draw(st.booleans()) for _ in shapes[1:]]
    seed = draw(st.integers(0, 10_000))
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from([*ONE, *TWO]), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8
        )
    )
    return shapes, recorded, seed, steps


@given(programs())
@settings(max_examples=400, deadline=None, derandomize=True)
def test_values_and_gradients_equal_torchs_on_random_graphs(program):
    shapes, recorded, seed, steps = program
    random = np.random.default_rng(seed)
    arrays = [random.normal(size=shape) for shape in shapes]
    mine = [Tensor(array, requires_grad=flag) for array, flag in zip(arrays, recorded, strict=True)]
    torchs = [torch.tensor(array, requires_grad=flag) for array, flag in zip(arrays, recorded, strict=True)]
    leaves = list(zip(mine, torchs, strict=True))
    for name, first, second in steps:
        first, second = first % len(mine), second % len(mine)
        if name in ONE:
            mine.append(ONE[name][0](mine[first]))
            torchs.append(ONE[name][1](torchs[first]))
        elif name == "matmul" or broadcastable(mine[first].data.shape, mine[second].data.shape):
            mine.append(TWO[name][0](mine[first], mine[second]))
            torchs.append(TWO[name][1](torchs[first], torchs[second]))
    # Every result takes part, so that a tensor that is used often collects from all sides.
    my_loss = sum((one.tanh().mean() for one in mine), start=Tensor(0.0))
    torch_loss = sum(one.tanh().mean() for one in torchs)
    np.testing.assert_allclose(my_loss.data, torch_loss.detach().numpy(), rtol=1e-10)
    my_loss.backward()
    torch_loss.backward()
    for my_leaf, torch_leaf in leaves:
        if torch_leaf.requires_grad:
            np.testing.assert_allclose(my_leaf.grad, torch_leaf.grad.numpy(), rtol=1e-9, atol=1e-11)
        else:
            assert my_leaf.grad is None


def test_matrices_in_a_batch_multiply_and_broadcast():
    random = np.random.default_rng(0)
    one, other = random.normal(size=(5, 2, 3)), random.normal(size=(3, 4))
    mine = [Tensor(one, requires_grad=True), Tensor(other, requires_grad=True)]
    torchs = [torch.tensor(one, requires_grad=True), torch.tensor(other, requires_grad=True)]
    (mine[0] @ mine[1]).tanh().sum().backward()
    (torchs[0] @ torchs[1]).tanh().sum().backward()
    for my_leaf, torch_leaf in zip(mine, torchs, strict=True):
        np.testing.assert_allclose(my_leaf.grad, torch_leaf.grad.numpy(), rtol=1e-10)


def test_gradients_accumulate_until_they_are_zeroed():
    weight = Tensor([2.0, 3.0], requires_grad=True)
    for expected in (1.0, 2.0):
        weight.sum().backward()
        assert weight.grad.tolist() == [expected, expected]
    weight.zero_grad()
    assert weight.grad is None


def test_what_needs_no_gradient_is_not_remembered():
    constant, weight = Tensor([1.0, 2.0]), Tensor([1.0, 2.0], requires_grad=True)
    assert (constant * 2)._parents == ()
    assert (constant * weight)._parents == (constant, weight)


def test_an_array_may_stand_on_the_left():
    weight = Tensor([1.0, 2.0], requires_grad=True)
    result = np.array([3.0, 4.0]) * weight
    assert isinstance(result, Tensor) and result.data.tolist() == [3.0, 8.0]


def test_a_graph_may_be_deeper_than_pythons_stack():
    start = Tensor(1.0, requires_grad=True)
    result = start
    for _ in range(20_000):
        result = result + 1.0
    result.backward()
    assert start.grad == 1.0


def test_misuse_is_a_sentence():
    with pytest.raises(LabkitError, match=r"starts at one number, and this has shape \(2,\)"):
        Tensor([1.0, 2.0], requires_grad=True).backward()
    with pytest.raises(LabkitError, match="`@` needs matrices"):
        Tensor([1.0, 2.0]) @ Tensor([1.0, 2.0])


def code_lines(source):
    """Count the lines that hold code: no blank lines, no comments, no docstrings."""
    tree = ast.parse(source)
    held = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ):
            last = node.end_lineno if not hasattr(node, "body") else node.body[0].lineno - 1
            held.update(range(node.lineno, last + 1))
    lines = source.splitlines()
    return sum(
        1 for number in held if lines[number - 1].strip() and not lines[number - 1].strip().startswith(("#", '"""'))
    )


def test_the_engine_is_short_enough_to_type():
    assert code_lines(Path(scratch.__file__).read_text(encoding="utf-8")) <= 130


def test_an_array_may_stand_at_the_left_of_a_matrix_product():
    weight = Tensor(np.ones((3, 1)), requires_grad=True)
    (np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]) @ weight).sum().backward()
    assert weight.grad.tolist() == [[5], [7], [9]]


def test_a_backward_that_reaches_nobody_and_a_tensor_as_exponent_are_a_sentence():
    with pytest.raises(LabkitError, match="asks for a gradient: `requires_grad=True`"):
        (Tensor(2.0) * 3).backward()
    with pytest.raises(LabkitError, match="The exponent must be a number"):
        Tensor(2.0) ** Tensor(3.0)
