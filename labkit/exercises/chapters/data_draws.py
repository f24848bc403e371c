"""Chapter 03, fourth part: random numbers that are each sample's own."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import shown
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind, need_function

Flip = Callable[[Tensor, torch.Generator], Tensor]


def _global_state() -> tuple:
    """Return the state of the generators that everybody shares."""
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()


def run_flip(answer: Any, images: Tensor) -> Any:
    """Flip the batch twice by one generator, and twice by another of the same seed: what holds of the pictures."""
    need_function(answer)
    before = _global_state()
    draws, again = (torch.Generator().manual_seed(1) for _ in range(2))
    first, second = answer(images, draws), answer(images, draws)
    if first is ...:
        return ...
    if not isinstance(first, Tensor) or first.shape != images.shape:
        raise WrongKind(f"Asked for is a batch of the shape of `images`, {tuple(images.shape)}; got {shown(first, 0)}.")
    mirrored, as_it_was = _equal(first, images.flip(3)), _equal(first, images)
    share = mirrored.double().mean().item()
    return {
        "dtype": str(first.dtype),
        "each picture is mirrored or as it was": bool((mirrored | as_it_was).all()),
        "about half are mirrored": 0.3 < share < 0.7,
        "the next call mirrors others": not torch.equal(first, second),
        "a generator in the same state gives the same": torch.equal(first, answer(images, again)),
        "the global generators stood still": _global_state() == before,
    }


def _equal(first: Tensor, second: Tensor) -> Tensor:
    """Tell for each picture whether it is the same in both batches: bool (B,)."""
    return (first == second).flatten(1).all(dim=1)


def _flip(draw: Callable[[int, torch.Generator], Tensor], axis: int = 3) -> Flip:
    """Return an answer that flips where the draws, one for each picture or one for all, are below a half."""

    def flip_batch(images: Tensor, generator: torch.Generator) -> Tensor:
        return torch.where((draw(len(images), generator) < 0.5)[:, None, None, None], images.flip(axis), images)

    return flip_batch


def _each(count: int, generator: torch.Generator) -> Tensor:
    return torch.rand(count, generator=generator)


def _in_place(images: Tensor, generator: torch.Generator) -> Tensor:
    chosen = _each(len(images), generator) < 0.5
    images[chosen] = images[chosen].flip(3)
    return images


FLIP_BATCH = Exercise(
    name="flip_batch",
    prompt="Mirror each picture of a batch, left for right, with a probability of one half: each by a draw of its own, "
    "which comes from `generator`, and all without a loop over the pictures. Return a new batch.",
    stub='''def flip_batch(images, generator):
    """(B, C, H, W) -> the same shape: each picture mirrored, or not, by its own draw from generator."""
    return ...  # your turn''',
    solved='''def flip_batch(images, generator):
    """(B, C, H, W) -> the same shape: each picture mirrored, or not, by its own draw from generator."""
    mirrored = torch.rand(len(images), generator=generator) < 0.5
    return torch.where(mirrored[:, None, None, None], images.flip(3), images)''',
    hints=(
        "You need as many draws as there are pictures, in one call: a mask of shape (B,).",
        "`images.flip(3)` mirrors them all. Take from it where the mask says so, and from `images` elsewhere.",
        "`torch.where(mask, one, other)`; the mask needs three more axes, so that it lines up with (B, C, H, W).",
    ),
    cases=lambda generator: [
        (torch.randint(256, (200, 3, 2, 4), dtype=torch.uint8, generator=generator),),
        (torch.rand(120, 1, 3, 3, generator=generator),),
    ],
    run=run_flip,
    praise="200 pictures, 200 draws, one call: as fast as a draw for all of them.",
    misconceptions=(
        Misconception(
            "one draw for the batch",
            _flip(lambda count, generator: torch.rand(1, generator=generator).expand(count)),
            "All are mirrored or none is, as `v2.RandomHorizontalFlip` does with a batch. The pictures of a batch "
            "share their luck. Draw a number for each.",
        ),
        Misconception(
            "upside down",
            _flip(_each, axis=2),
            "Axis 2 is the height: your pictures stand on their heads. Left and right are on the last axis, the width.",
        ),
        Misconception(
            "the channels turned round",
            _flip(_each, axis=1),
            "Axis 1 is the width of a single grey picture, (H, W). In a batch it is the channels: you turned them "
            "round, and red became blue. Left and right are on the last axis.",
        ),
        Misconception(
            "draws from the global generator",
            _flip(lambda count, generator: torch.rand(count)),
            "`torch.rand(n)` without `generator=` draws from the generator that everybody shares. Whatever else draws, "
            "a dropout, say, changes your pictures, and the other way round.",
        ),
        Misconception(
            "the same draws in every call",
            _flip(lambda count, generator: torch.rand(count, generator=torch.Generator().manual_seed(0))),
            "A new generator with a fixed seed in each call: the first picture of a batch has the same fate in every "
            "epoch. Go on with the generator that you were given.",
        ),
        Misconception(
            "the batch itself is changed",
            _in_place,
            "`images[mask] = …` writes into the batch that you were given. If that is a piece of the data set in "
            "memory, the data set is now another one. Return a new batch.",
        ),
        Misconception(
            "all are mirrored",
            lambda images, generator: images.flip(3),
            "Without a draw every picture is mirrored, every time: that is another data set, not a larger one.",
        ),
    ),
)


#: Places (seed, epoch, index) beside one another, whose numbers are to differ; the first of each pair is (1, 2, 3).
NEIGHBOURS = {"another sample": (1, 2, 4), "another epoch": (1, 3, 3), "another seed": (2, 2, 3)}
#: Places that a careless sum or a row of digits takes for one and the same.
CONFUSABLE = {
    "epoch 3 of sample 2 and epoch 2 of sample 3": ((1, 3, 2), (1, 2, 3)),
    "epoch 1 of sample 11 and epoch 11 of sample 1": ((1, 1, 11), (1, 11, 1)),
    "epoch 0 of sample 1000 and epoch 1 of sample 0": ((1, 0, 1000), (1, 1, 0)),
}


def run_draw(answer: Any) -> Any:
    """Call the answer at many places, in two orders: are its numbers bound to their place, and to nothing else?"""
    need_function(answer)
    if (first := answer(1, 2, 3)) is ...:
        return ...
    if not hasattr(first, "__float__"):
        raise WrongKind(f"Asked for is a number from 0 up to 1; got {shown(first)}.")
    before = _global_state()
    epoch = [float(answer(0, 0, index)) for index in range(100)]
    stood_still = _global_state() == before
    backwards = [float(answer(0, 0, index)) for index in reversed(range(100))]
    return {
        "all lie from 0 up to 1": all(0 <= draw < 1 for draw in epoch),
        "they are spread out: the mean is near a half": 0.3 < sum(epoch) / 100 < 0.7,
        "they are the same in another order": epoch == backwards[::-1],
        "the global generators stood still": stood_still,
        **{f"{name} has another number": float(first) != float(answer(*place)) for name, place in NEIGHBOURS.items()},
        **{f"{name} differ": float(answer(*one)) != float(answer(*two)) for name, (one, two) in CONFUSABLE.items()},
    }


def _seeded(mix: Callable[[int, int, int], int]) -> Callable[[int, int, int], float]:
    """Return an answer whose generator starts at a seed mixed in this way."""

    def draw_for(seed: int, epoch: int, index: int) -> float:
        return random.Random(mix(seed, epoch, index)).random()

    return draw_for


def _through_the_global_generator(seed: int, epoch: int, index: int) -> float:
    torch.manual_seed(hash((seed, epoch, index)))
    return torch.rand(1).item()


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
        '`f"{seed}/{epoch}/{index}"`.',
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
            "That goes well for 1,000 samples. Sample 1,000 of epoch 0 is sample 0 of epoch 1, and a data set grows. "
            "Hand over the three numbers themselves.",
        ),
        Misconception(
            "through the global generator",
            _through_the_global_generator,
            "The number is right. But `torch.manual_seed` sets the generator of everybody back with every sample: "
            "dropout, shuffling and new weights now depend on which sample came last.",
        ),
    ),
)
