"""Chapter 03, fourth part: a whole batch, each picture with a draw of its own."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.exercises.chapters.data_draws import global_state
from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import shown
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind, need_function

Flip = Callable[[Tensor, torch.Generator], Tensor]


def run_flip(answer: Any, images: Tensor) -> Any:
    """Flip the batch in 16 calls by one generator, and once by another of the same seed: what holds of the pictures."""
    need_function(answer)
    state, original = global_state(), images.clone()
    draws, again = (torch.Generator().manual_seed(1) for _ in range(2))
    calls = [answer(original.clone(), draws) for _ in range(16)]
    if (first := calls[0]) is ...:
        return ...
    if not isinstance(first, Tensor) or first.shape != images.shape:
        raise WrongKind(f"Asked for is a batch of the shape of `images`, {tuple(images.shape)}; got {shown(first, 0)}.")
    mirrored, as_it_was = _equal(first, original.flip(3)), _equal(first, original)
    other = ~(mirrored | as_it_was)
    fates = torch.stack([_equal(call, original.flip(3)) for call in calls])
    shares = fates.double().mean(dim=1).tolist()
    return {
        "dtype": str(first.dtype),
        "each picture is mirrored or as it was": not other.any(),
        "some are upside down": bool(_equal(first[other], original[other].flip(2)).any()),
        "some have their channels turned round": bool(_equal(first[other], original[other].flip(1)).any()),
        "in each call about half are mirrored": all(0.3 < share < 0.7 for share in shares),
        "in each call all are mirrored, or none": set(shares) <= {0.0, 1.0},
        "not always the same number is mirrored": len(set(shares)) > 1,
        "what becomes of a picture tells nothing about another one": _independent(fates),
        "the calls mirror different pictures": not all(torch.equal(first, call) for call in calls),
        "a generator in the same state gives the same": torch.equal(first, answer(images, again)),
        "the global generators stood still": global_state() == state,
    }


def _equal(first: Tensor, second: Tensor) -> Tensor:
    """Tell for each picture whether it is the same in both batches: bool (B,)."""
    return (first == second).flatten(1).all(dim=1)


def _independent(fates: Tensor) -> bool:
    """Tell whether pictures at any distance from each other share their fate, bool (calls, B), in half of the calls."""
    distances = range(1, fates.shape[1] // 2 + 1)
    return all(0.35 < (fates == fates.roll(by, 1)).double().mean() < 0.65 for by in distances)


def _flip(draw: Callable[[int, torch.Generator], Tensor], axis: int = 3) -> Flip:
    """Return an answer that flips where the draws, one for each picture or one for all, are below a half."""

    def flip_batch(images: Tensor, generator: torch.Generator) -> Tensor:
        return torch.where((draw(len(images), generator) < 0.5)[:, None, None, None], images.flip(axis), images)

    return flip_batch


def _each(count: int, generator: torch.Generator) -> Tensor:
    return torch.rand(count, generator=generator)


def _exactly_half(count: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(count, generator=generator) / count


def _in_place(images: Tensor, generator: torch.Generator) -> Tensor:
    chosen = _each(len(images), generator) < 0.5
    images[chosen] = images[chosen].flip(3)
    return images


FLIP_BATCH = Exercise(
    name="flip_batch",
    prompt="Mirror each picture of a batch, left for right, with a probability of one half: each by a draw of its own, "
    "which comes from `generator`. Return a new batch. (It takes no loop.)",
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
    praise="Each picture has a draw of its own; drawn in one call, 200 cost hardly more than one.",
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
            "exactly half of them",
            _flip(_exactly_half),
            "In each call the same number of pictures is mirrored: they are not drawn one by one, and what becomes of "
            "a picture depends on its neighbours in the batch. `torch.rand(len(images), …) < 0.5` asks for each.",
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
