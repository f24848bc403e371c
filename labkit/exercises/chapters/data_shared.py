"""Chapter 03, last part: the same picture in training and in validation."""

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import shown
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind, need_function

MANY = 50  # pictures, from which on it shows how the work grows: twice as many are twice or four times the work


class _Work(TorchFunctionMode):
    """Counts what Python does, step by step, and notes the largest tensor that torch makes."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = self.largest = 0

    def __enter__(self) -> "_Work":
        self.traced_before = sys.gettrace()
        super().__enter__()
        sys.settrace(self._step)
        return self

    def __exit__(self, *error: Any) -> None:
        sys.settrace(self.traced_before)
        super().__exit__(*error)

    def _step(self, frame: FrameType, event: str, value: Any) -> Callable | None:
        if frame.f_code is _Work.__torch_function__.__code__:  # work of this check, not of the answer
            return None
        frame.f_trace_opcodes = True
        self.steps += event == "opcode"
        return self._step

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.largest = max(self.largest, result.numel() if isinstance(result, Tensor) else 0)
        return result


def run_shared(answer: Any, first: Tensor, second: Tensor) -> Any:
    """Call the answer: its pairs, whose order does not count, and whether each picture was compared with each."""
    need_function(answer)
    answered = pairs = answer(first, second)
    if pairs is ...:
        return ...
    if isinstance(pairs, Tensor | np.ndarray):
        pairs = pairs.tolist()
    pairs = list(pairs) if isinstance(pairs, Iterable) and not isinstance(pairs, str | dict) else None
    if pairs is None or not all(isinstance(pair, list | tuple) for pair in pairs):
        raise WrongKind(f"Asked for is a list of pairs (place in first, place in second); got {shown(answered)}.")
    return {
        "pairs": sorted(tuple(int(place) for place in pair) for pair in pairs),
        "each picture is compared with each": len(first) >= MANY and _work_is_squared(answer, first, second),
    }


def _work_is_squared(answer: Callable, first: Tensor, second: Tensor) -> bool:
    """Tell whether all pictures are four times the work of half of them, or lie beside each other in one tensor."""
    half, whole = _Work(), _Work()
    with half:
        _all_of(answer(first[::2].clone(), second[::2].clone()))
    with whole:
        _all_of(answer(first, second))
    return whole.steps > 3 * half.steps or whole.largest > 2 * len(first) * len(second)


def _all_of(pairs: Any) -> None:
    """Ask for all pairs, which a function with `yield` finds only then."""
    if isinstance(pairs, Iterable):
        list(pairs)


def _by(fingerprint: Callable[[Tensor], Any]) -> Callable[[Tensor, Tensor], list[tuple[int, int]]]:
    """Return an answer that takes two pictures for equal when their fingerprints are."""

    def shared_pictures(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
        places: dict[Any, list[int]] = {}
        for place, picture in enumerate(first):
            places.setdefault(fingerprint(picture), []).append(place)
        return [(one, two) for two, picture in enumerate(second) for one in places.get(fingerprint(picture), [])]

    return shared_pictures


def _content(picture: Tensor) -> bytes:
    return picture.numpy().tobytes()


def _last_of_each_content(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    places = {_content(picture): place for place, picture in enumerate(first)}
    return [(places[_content(one)], two) for two, one in enumerate(second) if _content(one) in places]


def _tensors_as_keys(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    kept = list(first), list(second)  # all alive at once, so that no two have the same address
    places = {id(picture): place for place, picture in enumerate(kept[0])}
    return [(places[id(picture)], place) for place, picture in enumerate(kept[1]) if id(picture) in places]


def _same_place_only(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    return [
        (place, place) for place, (one, two) in enumerate(zip(first, second, strict=False)) if torch.equal(one, two)
    ]


def _each_with_each(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    return [(one, two) for one in range(len(first)) for two in range(len(second)) if first[one].equal(second[two])]


def _the_wrong_way_round(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    return [(two, one) for one, two in _by(_content)(first, second)]


def _two_sets(generator: torch.Generator, count: int, *shape: int) -> tuple[Tensor, Tensor]:
    """Draw two sets that share pictures: one at the same place, one that is twice in the first, one mirrored only."""
    first, second = (torch.randint(256, (number, *shape), generator=generator) for number in (count, count - 2))
    first[count - 1] = first[1]
    second[0], second[2], second[4], second[5] = first[0], first[1], first[5], first[3].flip(2)
    return first.to(torch.uint8), second.to(torch.uint8)


SHARED_PICTURES = Exercise(
    name="shared_pictures",
    prompt="Find the pictures that are in training and in validation too. Return all pairs `(i, j)` with `first[i]` "
    "equal to `second[j]`, in any order. Each picture is looked at once: with 50,000 and 10,000 of them, comparing "
    "each with each would be 500 million comparisons.",
    stub='''def shared_pictures(first, second):
    """Two uint8 tensors (N, C, H, W), (M, C, H, W) -> list of (i, j) with first[i] equal to second[j]."""
    return ...  # your turn''',
    solved='''def shared_pictures(first, second):
    """Two uint8 tensors (N, C, H, W), (M, C, H, W) -> list of (i, j) with first[i] equal to second[j]."""
    places = {}
    for i, picture in enumerate(first):
        places.setdefault(picture.numpy().tobytes(), []).append(i)
    return [(i, j) for j, picture in enumerate(second) for i in places.get(picture.numpy().tobytes(), [])]''',
    hints=(
        "A dictionary finds a key at once, however many it has. What can be the key, so that equal pictures have equal "
        "keys?",
        "The bytes of the picture: `picture.numpy().tobytes()`, or, shorter, their hash by `hashlib.sha256`.",
        "A picture may be several times in `first`: keep a *list* of places under each key, `setdefault(key, [])`.",
    ),
    cases=lambda generator: [
        _two_sets(generator, 9, 3, 4, 5),
        _two_sets(generator, 60, 1, 3, 3),
        tuple(torch.arange(24, dtype=torch.uint8).view(6, 1, 2, 2).split(3)),
    ],
    run=run_shared,
    praise="Each picture was looked at once. Before you believe in an accuracy, run this.",
    misconceptions=(
        Misconception(
            "one place for each content",
            _last_of_each_content,
            "A picture is twice in `first`, and your dictionary kept its last place only: the other copy stays in "
            "training. Keep a list of places.",
        ),
        Misconception(
            "the tensor as the key",
            _tensors_as_keys,
            "The `hash` of a tensor is that of the object, not of its numbers: two equal pictures are two keys, and "
            "nothing is ever found. Nothing found looks like good news. Take the bytes.",
        ),
        Misconception(
            "the sum as the key",
            _by(lambda picture: int(picture.sum())),
            "Different pictures have the same sum: a picture and its mirror image, for one, and many others by chance. "
            "Take all bytes, or a hash that is made for it.",
        ),
        Misconception(
            "only at the same place",
            _same_place_only,
            "You compared the first with the first, the second with the second, and so on. A picture that is on both "
            "sides is hardly ever at the same place.",
        ),
        Misconception(
            "the pairs the wrong way round",
            _the_wrong_way_round,
            "The place in `first` comes first. As it is, the wrong pictures would be thrown out of training.",
        ),
        Misconception(
            "each compared with each",
            _each_with_each,
            "All pairs are right, and for a hundred pictures it took no time. But ten times as many on both sides take "
            "a hundred times as long. A dictionary finds a key at once, however many it has.",
        ),
    ),
)
