import pytest
import torch
from torch import nn

from labkit.errors import LabkitError
from labkit.tensors import describe


def test_a_transposed_tensor():
    x = torch.arange(12.0).view(3, 4)
    found = describe(x.t(), others={"x": x, "copy": x.clone(), "array": x.numpy()})
    assert (found.shape, found.strides, found.contiguous, found.offset) == ((4, 3), (1, 4), False, 0)
    assert (found.storage_elements, found.storage_bytes, found.dtype) == (12, 48, torch.float32)
    assert found.shares_with == ("x", "array") and found.view_of == (12,)
    text = str(found)
    assert "one step right = 4 boxes, one step down = 1 box" in text and "x, array" in text


def test_a_slice_has_an_offset_and_the_whole_storage():
    found = describe(torch.arange(12, dtype=torch.int16)[4:6])
    assert (found.offset, found.storage_elements, found.storage_bytes, found.element_bytes) == (4, 12, 24, 2)


def test_the_graph_is_described():
    weight = nn.Parameter(torch.ones(2))
    assert (describe(weight).requires_grad, describe(weight).leaf, describe(weight).kind) == (True, True, "Parameter")
    made = describe(weight * 2)
    assert (made.leaf, made.grad_fn) == (False, "MulBackward0") and "MulBackward0" in str(made)


def test_describing_changes_nothing():
    weight = torch.ones(2, requires_grad=True)
    view = (weight * 1)[:1]
    version = view._version
    describe(view, others={"weight": weight})
    assert view._version == version and weight.grad is None


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.0),
        torch.empty(0, 2),
        torch.empty(2, 3, device="meta"),
        torch.ones(1).expand(5),
        torch.tensor([1j]),
        torch.tensor([True]),
        torch.ones(2, dtype=torch.bfloat16),
    ],
    ids=str,
)
def test_unusual_tensors_are_described_too(tensor):
    found = describe(tensor)
    assert found.shape == tuple(tensor.shape) and found.dtype == tensor.dtype
    assert str(found) and "<table>" in found._repr_html_()


def test_a_view_whose_base_was_changed_in_place():
    weight = torch.ones(2, requires_grad=True)
    base = weight * 1
    first, _ = base.unbind()
    base.add_(1)
    with pytest.raises(RuntimeError):
        _ = first.grad_fn
    assert describe(first).grad_fn == "lost, its base was changed in place"


@pytest.mark.parametrize("wrong", [3, [1.0], "x"])
def test_what_is_no_tensor_is_a_sentence(wrong):
    with pytest.raises(LabkitError, match="not a tensor. Make one with torch.as_tensor"):
        describe(wrong)
