"""Chapter 06, eleventh part: the same, to the last bit."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.drawing import normal
from labkit.exercises.exercise import Exercise

State = dict[str, Tensor]


def run_differing(answer: Any, one: State, other: State) -> Any:
    """Return the names that the answer gives, in order."""
    families.need_function(answer)
    result = answer(one, other)
    return sorted(result) if isinstance(result, list | tuple | set) else result


def _flat(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


def _bits(tensor: Tensor) -> tuple:
    return tensor.dtype, tensor.shape, _flat(tensor)


def _differs(
    same: Callable[[Tensor, Tensor], bool] = lambda one, other: _bits(one) == _bits(other),
    names: Callable[[State, State], Iterable[str]] = lambda one, other: one.keys() | other.keys(),
) -> Callable[[State, State], list[str]]:
    """Return an answer with its own idea of the same, and of the names to look at."""

    def differing(one: State, other: State) -> list[str]:
        looked_at = sorted(names(one, other))
        return [n for n in looked_at if n not in one or n not in other or not same(one[n], other[n])]

    return differing


def _if_comparable(same: Callable[[Tensor, Tensor], bool]) -> Callable[[Tensor, Tensor], bool]:
    """Return a comparison of values for tensors of one dtype and shape; others are told apart."""
    return lambda one, other: (one.dtype, one.shape) == (other.dtype, other.shape) and same(one, other)


def _cases(generator: torch.Generator) -> list[tuple]:
    one = {"weight": normal(generator, 2, 3), "bias": normal(generator, 3), "steps": torch.tensor([4, 4])}
    last_bit = one["weight"].clone()
    last_bit.view(torch.int32)[0, 1] += 1
    zeros = {"a": torch.zeros(2), "b": torch.zeros(2), "c": torch.tensor([float("nan"), 1.0]), "d": torch.zeros(2, 2)}
    changed = {"a": -torch.zeros(2), "b": torch.zeros(2, dtype=torch.int32), "c": zeros["c"].clone()}
    moved = {name: value.clone() for name, value in one.items()}
    return [
        (one, dict(reversed(moved.items()))),
        (one, one | {"weight": last_bit}),
        (zeros, changed | {"d": torch.zeros(1, 4)}),
        ({"old": one["bias"], "bias": one["bias"]}, {"new": one["bias"], "bias": one["bias"].flip(0)}),
    ]


DIFFERING = Exercise(
    name="differing",
    prompt="Two runs, two dicts of names and tensors: return the list of names under which they are not the same *bit "
    "for bit*. Another dtype or shape is not the same, nor a name that only one of them has. The order of the dicts "
    "does not count. A NaN is the same as a NaN with the same bits, and 0.0 is not -0.0.",
    stub='''def differing(one, other):
    """Return the names of what is not equal, bit for bit."""
    return ...  # your turn''',
    solved='''def differing(one, other):
    """Return the names of what is not equal, bit for bit."""

    def bits(tensor):
        return tensor.dtype, tensor.shape, tensor.numpy().tobytes()

    both = one.keys() & other.keys()
    return sorted((one.keys() | other.keys()) - {name for name in both if bits(one[name]) == bits(other[name])})''',
    hints=(
        "The bytes of a tensor can be compared like any text: `tensor.numpy().tobytes()`.",
        "Bytes alone know neither dtype nor shape: eight zero bytes can be many things.",
        "Of all names (`one.keys() | other.keys()`) take away those that both have, with the same dtype, shape and "
        "bytes.",
    ),
    cases=_cases,
    run=run_differing,
    praise="An empty list is a strong statement now.",
    misconceptions=(
        Misconception(
            "close is the same",
            _differs(_if_comparable(lambda one, other: torch.allclose(one, other, equal_nan=True))),
            "A last bit is small today. Over a thousand updates it grows to another training, and the question was "
            "whether it is *the same*. `allclose` is for results that were computed in two ways.",
        ),
        Misconception(
            "values instead of bits",
            _differs(_if_comparable(torch.equal)),
            "`torch.equal` compares values. By values NaN is not even equal to itself, so two broken runs differ; and "
            "0.0 equals -0.0, whose bits differ.",
        ),
        Misconception(
            "as printed",
            _differs(_if_comparable(lambda one, other: str(one) == str(other))),
            "Four digits are printed. The other ones are where runs part.",
        ),
        Misconception(
            "bytes without dtype and shape",
            _differs(lambda one, other: _flat(one) == _flat(other)),
            "The bytes of zeros are the same as float32 and as int32, and as (2, 2) and as (1, 4). Compare dtype and "
            "shape as well.",
        ),
        Misconception(
            "bytes without the shape",
            _differs(lambda one, other: one.dtype == other.dtype and _flat(one) == _flat(other)),
            "The bytes of (2, 2) and of (1, 4) are the same. Compare the shape as well.",
        ),
        Misconception(
            "bytes without the dtype",
            _differs(lambda one, other: one.shape == other.shape and _flat(one) == _flat(other)),
            "Zeros have the same bytes as float32 and as int32. Compare the dtype as well.",
        ),
        Misconception(
            "only names that both have",
            _differs(names=lambda one, other: one.keys() & other.keys()),
            "A name that only one of them has is a difference, and the first to look at.",
        ),
        Misconception(
            "only names of the first",
            _differs(names=lambda one, other: one.keys()),
            "What only the second has is not seen: you walk through the first alone.",
        ),
        Misconception(
            "what is the same",
            lambda one, other: sorted((one.keys() | other.keys()) - set(_differs()(one, other))),
            "These are the names that agree. Asked for were the others.",
        ),
    ),
)
