"""Chapter 03, fifth part: a random number that is bound to its place."""

import builtins
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import shown
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind, need_function


def global_state() -> tuple:
    """Return the state of the generators that everybody shares."""
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()


#: Places (seed, epoch, index) beside one another, whose numbers are to differ; the first of each pair is (1, 2, 3).
NEIGHBOURS = {"another sample": (1, 2, 4), "another epoch": (1, 3, 3), "another seed": (2, 2, 3)}
#: Places that a sum or a row of digits takes for one and the same.
CONFUSABLE = {
    "epoch 3 of sample 2 and epoch 2 of sample 3": ((1, 3, 2), (1, 2, 3)),
    "epoch 1 of sample 11 and epoch 11 of sample 1": ((1, 1, 11), (1, 11, 1)),
}
STRIDE = 320  # so many numbers at so long a stride: what begins up to 100,000 samples further on is met


def run_draw(answer: Any) -> Any:
    """Call the answer at many places, in two orders: are its numbers bound to their place, and to nothing else?"""
    need_function(answer)
    with _watched_hash() as hashed:
        first = answer(1, 2, 3)
    if first is ...:
        return ...
    if not hasattr(first, "__float__") or (isinstance(first, np.ndarray) and first.ndim > 0):
        raise WrongKind(f"Asked for is a number from 0 up to 1; got {shown(first)}.")
    before = global_state()
    epoch = [float(answer(0, 0, index)) for index in range(100)]
    stood_still = global_state() == before
    backwards = [float(answer(0, 0, index)) for index in reversed(range(100))]
    return {
        "all lie from 0 up to 1": all(0 <= draw < 1 for draw in epoch),
        "they are spread out: the mean is near a half": 0.3 < sum(epoch) / 100 < 0.7,
        "hardly two are alike": len(set(epoch)) > 95,
        "they are the same in another order": epoch == backwards[::-1],
        "they are the same in another process: no `hash` of a text": not any(map(_has_text, hashed)),
        "the global generators stood still": stood_still,
        **{f"{name} has another number": float(first) != float(answer(*place)) for name, place in NEIGHBOURS.items()},
        **{f"{name} differ": float(answer(*one)) != float(answer(*two)) for name, (one, two) in CONFUSABLE.items()},
        "no epoch or seed begins in the middle of another": not _begins_elsewhere(answer),
    }


@contextmanager
def _watched_hash() -> Iterator[list]:
    """Note what Python's `hash` is asked for: of a text it is another number in each process."""
    original, asked = builtins.hash, []

    def watched(value: Any) -> int:
        asked.append(value)
        return original(value)

    builtins.hash = watched
    try:
        yield asked
    finally:
        builtins.hash = original


def _has_text(value: Any) -> bool:
    return any(map(_has_text, value)) if isinstance(value, tuple) else isinstance(value, str | bytes)


def _begins_elsewhere(answer: Any) -> bool:
    """Tell whether the next epoch, or seed, only goes on with numbers that samples or epochs before it had."""
    far = {float(answer(0, 0, STRIDE * step)): (0, STRIDE * step) for step in range(STRIDE)}
    epochs = {float(answer(0, epoch, 0)): (epoch, 0) for epoch in range(1, STRIDE)}
    for met, seed, epoch, count in ((far, 0, 1, STRIDE), (far, 1, 0, STRIDE), (epochs, 1, 0, 1)):
        for index in range(count):
            place = met.get(float(answer(seed, epoch, index)))
            if place and all(  # by chance two numbers may be alike, and not those after them too
                float(answer(0, place[0], place[1] + more)) == float(answer(seed, epoch, index + more))
                for more in (1, 2)
            ):
                return True
    return False


def _seeded(mix: Callable[[int, int, int], int]) -> Callable[[int, int, int], float]:
    """Return an answer whose generator starts at a seed mixed in this way."""

    def draw_for(seed: int, epoch: int, index: int) -> float:
        return random.Random(mix(seed, epoch, index)).random()

    return draw_for


def _through_the_global_generator(seed: int, epoch: int, index: int) -> float:
    random.seed(f"{seed}/{epoch}/{index}")
    return random.random()


DRAW_FOR = Exercise(
    name="draw_for",
    prompt="Return a random number from 0 up to 1 that belongs to `(seed, epoch, index)`: whenever and wherever it is "
    "drawn, in whatever order, it is the same, and any other three have another one. The generators that everybody "
    "shares stay as they are.",
    stub='''def draw_for(seed, epoch, index):
    """Return a random float in [0, 1) that depends on these three whole numbers and on nothing else."""
    return ...  # your turn''',
    solved='''def draw_for(seed, epoch, index):
    """Return a random float in [0, 1) that depends on these three whole numbers and on nothing else."""
    return np.random.default_rng([seed, epoch, index]).random()''',
    hints=(
        "A generator of its own for each call, which starts at a state made of all three numbers.",
        "Adding them will not do: 2 + 3 is 3 + 2. Some generators take a list, or a text, as their seed.",
        "`np.random.default_rng(seed)` takes a list of whole numbers; `random.Random(seed)` takes a text such as "
        '`f"{seed}/{epoch}/{index}"`. (Python\'s `hash` of a text is another one in each process.)',
    ),
    cases=lambda generator: [()],
    run=run_draw,
    praise="Workers, order, a resume in the middle: nothing can change this number.",
    misconceptions=(
        Misconception(
            "whoever comes first",
            lambda seed, epoch, index: torch.rand(1).item(),
            "This number depends on how many were drawn before. Shuffle, add a worker or resume, and every sample gets "
            "another one. Make a generator from the three numbers.",
        ),
        Misconception(
            "the index alone",
            _seeded(lambda seed, epoch, index: index),
            "A sample gets the same number in every epoch, and in every run: that is one fixed change for each "
            "picture, hardly an augmentation. Epoch and seed must join in.",
        ),
        Misconception(
            "the epoch is left out",
            _seeded(lambda seed, epoch, index: seed * 1_000_003 + index),
            "In every epoch a sample gets the number that it had in the first. The epoch must join in.",
        ),
        Misconception(
            "the index is left out",
            _seeded(lambda seed, epoch, index: seed * 1_000_003 + epoch),
            "All samples of an epoch get one and the same number: a draw for the whole data set.",
        ),
        Misconception(
            "the sum of the three",
            _seeded(lambda seed, epoch, index: seed + epoch + index),
            "In epoch 1 sample 0 gets what sample 1 had in epoch 0: the same numbers move on by one place. And seed 1 "
            "is seed 0, one epoch later. Mix in such a way that no two places have the same sum.",
        ),
        Misconception(
            "the digits in a row",
            _seeded(lambda seed, epoch, index: int(f"{seed}{epoch}{index}")),
            "Without a mark between them epoch 1 of sample 11 and epoch 11 of sample 1 are both `111`. Put something "
            "between the numbers.",
        ),
        Misconception(
            "a factor that is too small",
            _seeded(lambda seed, epoch, index: seed * 1_000_000 + epoch * 1_000 + index),
            "A factor of 1,000, say, goes well for 1,000 samples. Then sample 1,000 of epoch 0 is sample 0 of epoch 1; "
            "and data sets grow. Hand over the three numbers themselves.",
        ),
        Misconception(
            "the hash of a text",
            _seeded(lambda seed, epoch, index: hash(f"{seed}/{epoch}/{index}")),
            "Python's `hash` of a text is another one in each process (`PYTHONHASHSEED`), so each worker and each run "
            "has its own numbers. Here, in one process, you would never notice. `random.Random` takes the text itself.",
        ),
        Misconception(
            "through the global generator",
            _through_the_global_generator,
            "The number is right. But `random.seed`, or `torch.manual_seed`, sets everybody's generator with every "
            "sample: shuffling, dropout or new weights now depend on which sample came last.",
        ),
    ),
)
