"""What there is to know about a tensor besides its values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy
import torch
from torch import Tensor

from labkit.table import Table
from labkit.tensors.places import shares_storage, storage_of


@dataclass(frozen=True, repr=False)
class Description:
    """What `describe` found. It shows itself as a table; every fact is also a field.

    offset: the box of the first element. storage_elements, storage_bytes: the size of the whole storage, which
    may be larger or smaller than the tensor. grad_fn: the name of the operation that made the tensor.
    view_of: the shape of the tensor that autograd knows as the base of this view.
    shares_with: the names of those of the `others` that are in the same memory; None if none was asked about.
    """

    kind: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    element_bytes: int
    device: torch.device
    strides: tuple[int, ...]
    contiguous: bool
    offset: int
    storage_elements: int
    storage_bytes: int
    requires_grad: bool
    leaf: bool
    grad_fn: str | None
    view_of: tuple[int, ...] | None
    shares_with: tuple[str, ...] | None

    @property
    def table(self) -> Table:
        """The facts as rows: the property, its value, and what it means."""
        elements, axes = count(math.prod(self.shape), "element"), count(len(self.shape), "axis")
        facts = {
            "shape": (self.shape, f"{elements}, {axes}"),
            "dtype": (self.dtype, f"{count(self.element_bytes, 'byte')} an element"),
            "device": (self.device, "a shape without values" if self.device.type == "meta" else ""),
            "strides": (self.strides, ", ".join(strides_in_words(self.shape, self.strides))),
            "contiguous": (
                self.contiguous,
                "" if self.contiguous else "the next element is not always in the next box",
            ),
            "offset": (self.offset, f"the first element is in box {self.offset} of the storage"),
            "storage": (count(self.storage_elements, "box"), count(self.storage_bytes, "byte")),
            "requires_grad": (self.requires_grad, ""),
            "leaf": (self.leaf, "" if self.leaf else "made by a recorded operation"),
            "grad_fn": (self.grad_fn or "none", ""),
            "view of": (self.view_of or "none", "the shape of its base" if self.view_of else ""),
        }
        if self.shares_with is not None:
            facts["shares storage"] = (", ".join(self.shares_with) or "none", "of those asked about")
        rows = [{"property": name, "value": _text(value), "in words": words} for name, (value, words) in facts.items()]
        return Table(rows, self.kind)

    def __repr__(self) -> str:
        return str(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def describe(tensor: Tensor, others: Mapping[str, Tensor | numpy.ndarray] | None = None) -> Description:
    """Return what there is to know about a tensor besides its values; the tensor is left as it is.

    others: name -> tensor or NumPy array; the description says which of them are in the same memory.
    Raises LabkitError for what is no tensor, and for a tensor without a storage (sparse, nested, lazy).
    """
    storage = storage_of(tensor)
    try:
        leaf, grad_fn = tensor.is_leaf, tensor.grad_fn and tensor.grad_fn.name()
    except RuntimeError:  # one of several views (unbind, split, chunk) whose base was changed in place
        leaf, grad_fn = False, "lost, its base was changed in place"
    return Description(
        kind=type(tensor).__name__,
        shape=tuple(tensor.shape),
        dtype=tensor.dtype,
        element_bytes=tensor.itemsize,
        device=tensor.device,
        strides=tuple(tensor.stride()),
        contiguous=tensor.is_contiguous(),
        offset=tensor.storage_offset(),
        storage_elements=storage.nbytes() // tensor.itemsize,
        storage_bytes=storage.nbytes(),
        requires_grad=tensor.requires_grad,
        leaf=leaf,
        grad_fn=grad_fn,
        view_of=None if tensor._base is None else tuple(tensor._base.shape),
        shares_with=None if others is None else _sharing(tensor, others),
    )


def _sharing(tensor: Tensor, others: Mapping[str, Tensor | numpy.ndarray]) -> tuple[str, ...]:
    return tuple(name for name, other in others.items() if shares_storage(tensor, other))


def strides_in_words(shape: Sequence[int], strides: Sequence[int]) -> list[str]:
    """Return the strides as words, the last axis first; an axis of size 1 has no step and is left out."""
    names = {1: "one step right", 2: "one step down"}
    return [
        f"{names.get(len(shape) - axis, f'one step along axis {axis}')} = {count(strides[axis], 'box')}"
        for axis in reversed(range(len(shape)))
        if shape[axis] != 1
    ]


def count(number: int, word: str) -> str:
    """Return '1 box', '2 boxes', '3 axes', '1,000 bytes'."""
    plural = {"axis": "axes", "box": "boxes"}.get(word, f"{word}s")
    return f"{number:,} {word if number == 1 else plural}"


def _text(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
