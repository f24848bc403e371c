"""An autograd engine from nothing: arrays that remember how they were made, and one walk back along that memory.

Each operation computes its value, and says how a gradient that arrives at its result is handed on to its parents.
`backward` only calls these in the right order and adds up. torch does the same, in C++ and for more operations.
"""

from collections.abc import Callable
from typing import Union

import numpy as np

from labkit.errors import LabkitError

Number = Union[int, float, np.ndarray, "Tensor"]


class Tensor:
    """A float64 array that records operations if it, or something that it was made from, asks for a gradient."""

    __array_priority__ = 1  # NumPy lets our operators go first in `array * tensor`

    def __init__(self, data: Number, requires_grad: bool = False) -> None:
        self.data = np.asarray(data, dtype=np.float64)
        self.requires_grad = requires_grad
        self.grad: np.ndarray | None = None
        self._parents: tuple[Tensor, ...] = ()
        self._hand_on: Callable[[np.ndarray], tuple[np.ndarray, ...]] | None = None

    def __add__(self, other: Number) -> "Tensor":
        other = _as_tensor(other)
        return _made(self.data + other.data, (self, other), lambda upstream: (upstream, upstream))

    def __mul__(self, other: Number) -> "Tensor":
        other = _as_tensor(other)
        return _made(
            self.data * other.data, (self, other), lambda upstream: (upstream * other.data, upstream * self.data)
        )

    def __matmul__(self, other: "Tensor") -> "Tensor":
        other = _as_tensor(other)
        if min(self.data.ndim, other.data.ndim) < 2:
            raise LabkitError(f"`@` needs matrices; the shapes are {self.data.shape} and {other.data.shape}. Reshape.")
        return _made(
            self.data @ other.data,
            (self, other),
            lambda upstream: (upstream @ other.data.swapaxes(-1, -2), self.data.swapaxes(-1, -2) @ upstream),
        )

    def __pow__(self, exponent: float) -> "Tensor":
        if isinstance(exponent, Tensor):
            raise LabkitError("The exponent must be a number. For a ** b with two tensors write (b * a.log()).exp().")
        slope = exponent * self.data ** (exponent - 1)
        return _made(self.data**exponent, (self,), lambda upstream: (upstream * slope,))

    def exp(self) -> "Tensor":
        """Return e to the power of each element."""
        value = np.exp(self.data)
        return _made(value, (self,), lambda upstream: (upstream * value,))

    def log(self) -> "Tensor":
        """Return the natural logarithm of each element."""
        return _made(np.log(self.data), (self,), lambda upstream: (upstream / self.data,))

    def tanh(self) -> "Tensor":
        """Return the hyperbolic tangent of each element."""
        value = np.tanh(self.data)
        return _made(value, (self,), lambda upstream: (upstream * (1 - value**2),))

    def relu(self) -> "Tensor":
        """Return each element, or 0 where it is negative; the slope at 0 is taken as 0, as torch does."""
        is_positive = self.data > 0
        return _made(self.data * is_positive, (self,), lambda upstream: (upstream * is_positive,))

    def sum(self, axis: int | None = None) -> "Tensor":
        """Return the sum of all elements, or along one axis, which disappears."""

        def spread(upstream: np.ndarray) -> tuple[np.ndarray]:
            along = upstream if axis is None else np.expand_dims(upstream, axis)
            return (np.broadcast_to(along, self.data.shape),)

        return _made(self.data.sum(axis), (self,), spread)

    def mean(self, axis: int | None = None) -> "Tensor":
        """Return the mean of all elements, or along one axis."""
        count = self.data.size if axis is None else self.data.shape[axis]
        return self.sum(axis) * (1 / count)

    def reshape(self, *shape: int) -> "Tensor":
        """Return the same elements in another shape."""
        return _made(self.data.reshape(shape), (self,), lambda upstream: (upstream.reshape(self.data.shape),))

    def backward(self) -> None:
        """Add the derivative of this one number by each leaf to the leaf's `grad`."""
        if self.data.size != 1:
            raise LabkitError(
                f"backward starts at one number, and this has shape {self.data.shape}. Sum or average it."
            )
        if not self.requires_grad:
            raise LabkitError("Nothing that this number was made from asks for a gradient: `requires_grad=True`.")
        gradients = {self: np.ones_like(self.data)}
        for tensor in reversed(_parents_first(self)):
            upstream = gradients.pop(tensor)
            if tensor._hand_on is None:
                tensor.grad = upstream if tensor.grad is None else tensor.grad + upstream
                continue
            for parent, gradient in zip(tensor._parents, tensor._hand_on(upstream), strict=True):
                if parent.requires_grad:
                    gradient = _undo_broadcasting(gradient, parent.data.shape)
                    gradients[parent] = gradients[parent] + gradient if parent in gradients else gradient

    def zero_grad(self) -> None:
        """Forget the gradient."""
        self.grad = None

    def __repr__(self) -> str:
        return f"Tensor({self.data}{', requires_grad=True' if self.requires_grad else ''})"

    def __neg__(self) -> "Tensor":
        return self * -1

    def __sub__(self, other: Number) -> "Tensor":
        return self + -_as_tensor(other)

    def __rsub__(self, other: Number) -> "Tensor":
        return _as_tensor(other) - self

    def __rmatmul__(self, other: Number) -> "Tensor":
        return _as_tensor(other) @ self

    def __truediv__(self, other: Number) -> "Tensor":
        return self * _as_tensor(other) ** -1

    def __rtruediv__(self, other: Number) -> "Tensor":
        return _as_tensor(other) / self

    __radd__, __rmul__ = __add__, __mul__


def _as_tensor(value: Number) -> Tensor:
    """Return a tensor as it is, and a plain number or array as a constant."""
    return value if isinstance(value, Tensor) else Tensor(value)


def _made(value: np.ndarray, parents: tuple[Tensor, ...], hand_on: Callable) -> Tensor:
    """Return the result of an operation; it remembers its making only if a gradient will be asked for."""
    result = Tensor(value, any(parent.requires_grad for parent in parents))
    if result.requires_grad:
        result._parents, result._hand_on = parents, hand_on
    return result


def _parents_first(root: Tensor) -> list[Tensor]:
    """Return all tensors that need a gradient, each after its parents; with a stack, so that depth is no limit."""
    order, seen, stack = [], set(), [(root, False)]
    while stack:
        tensor, parents_are_done = stack.pop()
        if parents_are_done:
            order.append(tensor)
        elif tensor not in seen:
            seen.add(tensor)
            stack.append((tensor, True))
            stack += [(parent, False) for parent in tensor._parents if parent.requires_grad]
    return order


def _undo_broadcasting(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Sum a gradient over the axes that broadcasting had stretched: a value used many times gets all its gradients."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis] != 1)
    return gradient.sum(axis=stretched, keepdims=True)
