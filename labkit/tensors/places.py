"""Where the elements of a tensor are: numbers in one row of boxes, the storage, and a rule that picks them.

The rule is the offset and the strides. The element at index (i, j) is in box `offset + i·stride[0] + j·stride[1]`,
and that is all: transposing, slicing and expanding change the rule and leave the boxes as they are.
"""

import numpy
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from labkit.errors import LabkitError

_MOST_PLACES = 10_000_000  # elements whose places are worked out one by one: 80 MB of int64


def element_places(tensor: Tensor) -> Tensor:
    """Return for each element of a tensor the index of its box in the storage: int64, the tensor's shape, on the CPU.

    Raises LabkitError for a tensor without a storage, and above ten million elements.
    """
    storage_of(tensor)
    if tensor.numel() > _MOST_PLACES:
        raise LabkitError(
            f"This tensor has {tensor.numel():,} elements; places are given for up to {_MOST_PLACES:,}. "
            "Take a slice of it: x[:100]."
        )
    places = torch.tensor(tensor.storage_offset(), device="cpu")
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = places[..., None] + stride * torch.arange(size, device="cpu")
    return places


def reading_steps(tensor: Tensor) -> list[int]:
    """Return the different steps, in boxes, that lead from element to element, row after row; the first comes first.

    With one step, or none, `view(-1)` works, because a 1-D view has a single stride. With several it fails.
    """
    return list(dict.fromkeys(element_places(tensor).flatten().diff().tolist()))


def whole_storage(tensor: Tensor) -> Tensor:
    """Return the storage of a tensor without a copy: all its boxes as a 1-D tensor of the same dtype.

    Raises LabkitError for a tensor without a storage.
    """
    storage = storage_of(tensor)
    boxes = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return boxes.set_(storage, 0, (storage.nbytes() // tensor.itemsize,), (1,))


def shares_storage(first: Tensor | numpy.ndarray, second: Tensor | numpy.ndarray) -> bool:
    """Tell whether two tensors or NumPy arrays are in the same memory, so that a change of one may show in the other.

    Two slices of one tensor share its storage even if they have no element in common.
    Raises LabkitError for what is neither, and for a tensor without a storage.
    """
    if isinstance(first, Tensor) and isinstance(second, Tensor) and storage_of(first) is storage_of(second):
        return True
    one, other = _memory(first), _memory(second)
    if one is None or other is None:
        return False
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def storage_of(tensor: Tensor) -> torch.UntypedStorage:
    """Return the bytes that a tensor stands on, or raise LabkitError that says why there are none to look at."""
    if not isinstance(tensor, Tensor):
        raise LabkitError(f"This is a {type(tensor).__name__}, not a tensor. Make one with torch.as_tensor(…).")
    if is_lazy(tensor):
        raise LabkitError("This parameter of a lazy layer has no size yet. Send one batch through the layer first.")
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        kind = "nested" if tensor.is_nested else "quantised" if tensor.is_quantized else str(tensor.layout)
        raise LabkitError(
            f"A {kind} tensor does not keep its numbers in one row of boxes. "
            "Look at its dense form: x.to_dense(), x.dequantize() or torch.nested.to_padded_tensor(x, 0.0)."
        )
    return tensor.untyped_storage()


def _memory(value: Tensor | numpy.ndarray) -> tuple[torch.device, int, int] | None:
    """Return the device and the first and last byte of what a tensor or array stands on; None where there is none."""
    if isinstance(value, numpy.ndarray):
        while isinstance(value.base, numpy.ndarray):
            value = value.base
        return torch.device("cpu"), *numpy.lib.array_utils.byte_bounds(value)
    storage = storage_of(value)
    if storage.device.type == "meta":  # meta and fake tensors have a shape and no memory
        return None
    return value.device, storage.data_ptr(), storage.data_ptr() + storage.nbytes()
