"""Chapter 02, fifth part: rows scaled without spoiling the graph, and broadcasting undone for the engine."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise


def through_a_network(answer: Any, values: Tensor) -> Any:
    """Give the answer a result in the middle of a graph, go backward from what it returns, and return both ends."""
    start = values.detach().clone().requires_grad_()
    result = families.call(answer, start.sigmoid())  # which keeps its result for backward
    if not isinstance(result, Tensor):
        return result
    (result * values.cos()).sum().backward()
    return {"rows": result.detach(), "gradient at the start of the network": start.grad}


def _in_place(rows: Tensor) -> Tensor:
    rows /= rows.norm(dim=1, keepdim=True)
    return rows


def _in_place_unrecorded(rows: Tensor) -> Tensor:
    with torch.no_grad():
        rows /= rows.norm(dim=1, keepdim=True)
    return rows


def _through_data(rows: Tensor) -> Tensor:
    rows.data /= rows.data.norm(dim=1, keepdim=True)
    return rows


UNIT_ROWS = Exercise(
    name="unit_rows",
    prompt="`rows` is a result in the middle of a network: whatever made it may need it for the backward pass. Return "
    "its rows scaled to length 1, in such a way that the right gradient comes out at the start of the network.",
    stub='''def unit_rows(rows):
    """Return each row divided by its length: (N, D) -> (N, D)."""
    return ...  # your turn''',
    solved='''def unit_rows(rows):
    """Return each row divided by its length: (N, D) -> (N, D)."""
    return rows / rows.norm(dim=1, keepdim=True)''',
    hints=(
        "`rows /= …` writes into the memory of `rows`. Who else still needs what was there?",
        "Make a new tensor. And let the length be recorded too: it depends on the row.",
    ),
    cases=lambda generator: [(normal(generator, 3, 4),), (normal(generator, 1, 2),), (normal(generator, 4, 4),)],
    run=through_a_network,
    praise="`F.normalize(rows, dim=1)` is the ready form; it also survives a row of zeros.",
    misconceptions=(
        Misconception(
            "written over in place",
            _in_place,
            "`rows /= …` overwrites a value that the norm and the operation before need for their slopes. The version "
            "counter notices, and `backward` raises. Make a new tensor.",
        ),
        Misconception(
            "in place, unrecorded",
            _in_place_unrecorded,
            "`no_grad` does not make it right: the division is missing in the graph, and a value that the operation "
            "before needs is overwritten. The version counter counts here too, so `backward` raises.",
        ),
        Misconception(
            "through data",
            _through_data,
            "No error, and a *wrong gradient*: changes through `.data` are not counted. The division is missing in the "
            "graph, and the operation before takes the changed rows for its own.",
        ),
        Misconception(
            "the length as a constant",
            lambda rows: rows / rows.norm(dim=1, keepdim=True).detach(),
            "The rows are right, the gradient is not: when a row changes, so does its length. You detached it, so that "
            "part is missing.",
        ),
        Misconception(
            "one length for all",
            lambda rows: rows / rows.norm(),
            "Without `dim` that is the length of the whole matrix. Each row has its own.",
        ),
    ),
)


def as_array(answer: Any, gradient: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Call the answer; a number, which NumPy makes of a full sum, counts as an array without axes."""
    result = families.call(answer, gradient, shape)
    return np.asarray(result) if isinstance(result, np.generic | float) else result


def _stretched(generator: torch.Generator, large: tuple[int, ...], small: tuple[int, ...]) -> tuple:
    return normal(generator, *large).double().numpy(), small


def _missing_axes(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))


def _axes_of_size_one_lost(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    gradient = _missing_axes(gradient, shape)
    return gradient.sum(axis=tuple(axis for axis, size in enumerate(shape) if size == 1))


def _mean(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    gradient = gradient.mean(axis=tuple(range(gradient.ndim - len(shape))))
    return gradient.mean(axis=tuple(axis for axis, size in enumerate(shape) if size == 1)).reshape(shape)


def _first_only(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    for _ in range(gradient.ndim - len(shape)):
        gradient = gradient[0]
    return gradient[tuple(slice(0, size) for size in shape)]


UNDO_BROADCASTING = Exercise(
    name="undo_broadcasting",
    prompt="One thing is hidden in the plus of `… @ weight_1 + bias_1`. In `a + b`, broadcasting stretched `b`, so the "
    "gradient that comes back has the large shape. `b` was used many times, and a value that is used many times gets "
    "the *sum* of all its gradients. Return that sum in the shape of `b`, for NumPy arrays.",
    stub='''def undo_broadcasting(gradient, shape):
    """Return the gradient summed over the axes that broadcasting had stretched, in this shape."""
    return ...  # your turn''',
    solved='''def undo_broadcasting(gradient, shape):
    """Return the gradient summed over the axes that broadcasting had stretched, in this shape."""
    missing = tuple(range(gradient.ndim - len(shape)))
    stretched = tuple(axis for axis, size in enumerate(shape, start=len(missing)) if size == 1)
    return gradient.sum(axis=missing + stretched).reshape(shape)''',
    hints=(
        "Broadcasting does two things: it puts axes in at the left, and it stretches axes of size 1. Undo both.",
        "`gradient.sum(axis=(0, 2))` sums over several axes. Which ones are they for shapes (2, 4, 3) and (4, 1)?",
        "All axes that are too many, and those whose size in `shape` is 1. `reshape` puts lost axes of size 1 back.",
    ),
    cases=lambda generator: [
        _stretched(generator, (4, 3), (3,)),
        _stretched(generator, (4, 3), (4, 1)),
        _stretched(generator, (2, 4, 3), (4, 1)),
        _stretched(generator, (2, 3), (2, 3)),
        _stretched(generator, (2, 3), ()),
    ],
    run=as_array,
    praise="Without this line the gradient of a bias would have a row for each picture.",
    misconceptions=(
        Misconception(
            "reshaped",
            lambda gradient, shape: gradient.reshape(shape),
            "`reshape` never throws numbers away, and here there are more than the shape has room for. They must be "
            "added up.",
        ),
        Misconception(
            "only the missing axes",
            _missing_axes,
            "The axes at the left are gone; those of size 1 are still stretched.",
        ),
        Misconception(
            "axes of size 1 lost",
            _axes_of_size_one_lost,
            "All sums are right, but the axes of size 1 have disappeared: the gradient must have the shape of its "
            "tensor.",
        ),
        Misconception(
            "the mean",
            _mean,
            "Each use passes its gradient on in full, so they are *added*. (The mean of a batch comes from the loss, "
            "if it has a mean.)",
        ),
        Misconception(
            "the first use only",
            _first_only,
            "You kept the gradient of the first use, and dropped those of all others.",
        ),
    ),
)
