"""Chapter 08, fourth and tenth part: whole batches, and the largest one that fits."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise

SIZE = 4  # of a window, in pixels


class _Counting(TorchDispatchMode):
    """Counts the operations of torch in a block."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, function: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        self.count += 1
        return function(*args, **(kwargs or {}))


def run_windows(answer: Any, images: Tensor, top: Tensor, left: Tensor, size: int) -> Any:
    """Return the windows of a batch, and whether a larger batch takes more operations."""
    families.need_function(answer)
    counts = []
    for few in (2, len(images)):
        with _Counting() as counting:
            result = answer(images[:few], top[:few], left[:few], size)
        counts.append(counting.count)
    return ... if result is ... else {"windows": result, "more operations for a larger batch": counts[1] > counts[0]}


def _one_by_one(images: Tensor, top: Tensor, left: Tensor, size: int) -> Tensor:
    corners = zip(images, top.tolist(), left.tolist(), strict=True)
    return torch.stack([one[:, row : row + size, column : column + size] for one, row, column in corners])


def _picked(top: Callable = lambda top, left: top, left: Callable = lambda top, left: left, extra: int = 0) -> Callable:
    """Return an answer that picks whole windows, from corners of its own."""

    def windows(images: Tensor, first: Tensor, second: Tensor, size: int) -> Tensor:
        steps = torch.arange(size + extra)
        rows = (top(first, second)[:, None] + steps) % images.shape[2]
        columns = (left(first, second)[:, None] + steps) % images.shape[3]
        sample = torch.arange(len(images))[:, None, None]
        picked = images.permute(0, 2, 3, 1)[sample, rows[:, :, None], columns[:, None, :]]
        return picked.permute(0, 3, 1, 2)

    return windows


def _a_diagonal(images: Tensor, top: Tensor, left: Tensor, size: int) -> Tensor:
    steps = torch.arange(size)
    sample = torch.arange(len(images))[:, None]
    return images.permute(0, 2, 3, 1)[sample, top[:, None] + steps, left[:, None] + steps].permute(0, 2, 1)


def _images(generator: torch.Generator, count: int, channels: int) -> tuple:
    images = torch.randint(0, 256, (count, channels, 9, 10), dtype=torch.uint8, generator=generator)
    top = torch.randperm(5, generator=generator)[torch.arange(count) % 5]
    return images, top, (top + 1 + torch.randint(0, 4, (count,), generator=generator)) % 6, SIZE


WINDOWS = Exercise(
    name="windows",
    prompt="Cut a window of `size` × `size` pixels out of every picture, each at its own place: picture `i` from row "
    "`top[i]` and column `left[i]` on. `images` is uint8 (B, C, H, W). No loop over pictures: the number of operations "
    "must not grow with the batch.",
    stub='''def windows(images, top, left, size):
    """Return a window of each picture, uint8 (B, C, size, size)."""
    return ...  # your turn''',
    solved='''def windows(images, top, left, size):
    """Return a window of each picture, uint8 (B, C, size, size)."""
    steps = torch.arange(size)
    rows = (top[:, None] + steps)[:, None, :, None]
    columns = (left[:, None] + steps)[:, None, None, :]
    samples = torch.arange(len(images))[:, None, None, None]
    channels = torch.arange(images.shape[1])[:, None, None]
    return images[samples, channels, rows, columns]''',
    hints=(
        "Which rows does picture `i` need? `top[i] + torch.arange(size)`; for all `top[:, None] + …`, (B, size).",
        "`images[samples, channels, rows, columns]` picks a pixel for each combination, if the four broadcast to "
        "(B, C, size, size).",
        "So samples are (B, 1, 1, 1), channels (C, 1, 1), rows (B, 1, size, 1) and columns (B, 1, 1, size).",
    ),
    cases=lambda generator: [_images(generator, 5, 3), _images(generator, 7, 1)],
    run=run_windows,
    praise="A batch of 1,000 takes as many orders as one picture.",
    misconceptions=(
        Misconception(
            "a loop over pictures",
            _one_by_one,
            "The windows are right, and there are some operations *for each picture*. A GPU works through such small "
            "orders slower than they can be given. Build all rows and all columns, and pick once.",
        ),
        Misconception(
            "one place for all",
            _picked(lambda top, left: top[:1].expand_as(top), lambda top, left: left[:1].expand_as(left)),
            "Every picture is cut where the first one is. So do the transforms of torchvision with a batch: one draw "
            "for all. `top[:, None]` keeps one for each picture.",
        ),
        Misconception(
            "rows and columns swapped",
            _picked(lambda top, left: left, lambda top, left: top),
            "`top` counts rows, the third dimension of (B, C, H, W), and `left` columns, the last.",
        ),
        Misconception(
            "a diagonal",
            _a_diagonal,
            "Rows and columns of one shape are taken in pairs: first with first, second with second. To get each row "
            "with each column, they must broadcast: rows (B, 1, size, 1), columns (B, 1, 1, size).",
        ),
        Misconception(
            "the place is the centre",
            _picked(lambda top, left: top - SIZE // 2, lambda top, left: left - SIZE // 2),
            "The window *begins* at the place; you laid it around it.",
        ),
        Misconception(
            "one row and column too many",
            _picked(extra=1),
            "From 0 to `size`, both ends included, are `size + 1` steps. `torch.arange(size)` ends before.",
        ),
    ),
)


def run_largest(answer: Any, fixed: int, per_sample: int, limit: int) -> Any:
    """Give the answer what measures an update; no update may take more than the limit."""
    families.need_function(answer)
    asked = []

    def bytes_of(batch_size: int) -> int:
        asked.append(batch_size)
        return fixed + per_sample * batch_size

    result = answer(bytes_of, limit)
    if result is ...:
        return ...
    too_large = fixed + per_sample * max(asked, default=0) > limit
    return {"batch": result, "ran out of memory on the way": too_large}


def _by_two(size: Callable[[float, float, int], int]) -> Callable:
    """Return an answer that finds out both parts, and uses them in its own way."""

    def largest_batch(bytes_of: Callable[[int], int], limit: int) -> int:
        few, more = bytes_of(2), bytes_of(4)
        per_sample = (more - few) // 2
        return size(few - 2 * per_sample, per_sample, limit)

    return largest_batch


def _until_it_fails(bytes_of: Callable[[int], int], limit: int) -> int:
    size = 1
    while bytes_of(size) <= limit:
        size += 1
    return size - 1


def _a_memory(generator: torch.Generator) -> tuple:
    fixed, per_sample, fits = torch.randint(50, 90, (3,), generator=generator).tolist()
    return 100 * fixed, 10 * per_sample, 100 * fixed + 10 * per_sample * fits + 7 * per_sample


LARGEST_BATCH = Exercise(
    name="largest_batch",
    prompt="`bytes_of(batch_size)` makes an update with such a batch and returns the memory that it took: some bytes "
    "whatever the batch (weights, gradients, the optimizer's state), and as many again for each sample. Return the "
    "largest batch that fits into `limit` bytes. Two measurements with small batches are enough; one that takes more "
    "than `limit` would end the program.",
    stub='''def largest_batch(bytes_of, limit):
    """Return the largest batch size with which an update fits into `limit` bytes."""
    return ...  # your turn''',
    solved='''def largest_batch(bytes_of, limit):
    """Return the largest batch size with which an update fits into `limit` bytes."""
    small, large = bytes_of(2), bytes_of(4)
    for_a_sample = (large - small) // 2
    for_any_batch = small - 2 * for_a_sample
    return (limit - for_any_batch) // for_a_sample''',
    hints=(
        "A straight line through two points: memory over batch size.",
        "The difference of the two measurements is what the additional samples took.",
        "What is left of the limit without the fixed part, divided by the bytes of a sample, rounded down.",
    ),
    cases=lambda generator: [_a_memory(generator), _a_memory(generator)],
    run=run_largest,
    praise="`labkit trial memory` computes like this, from an update of your model.",
    misconceptions=(
        Misconception(
            "everything grows with the batch",
            lambda bytes_of, limit: limit // (bytes_of(2) // 2),
            "You divided the memory of a small batch by its samples. Most of that memory is for weights and the "
            "optimizer, which are there once: so the batch came out far too small.",
        ),
        Misconception(
            "the fixed part is forgotten",
            _by_two(lambda fixed, per_sample, limit: limit // per_sample),
            "The bytes of a sample are right. But not all of the limit is for samples: weights, gradients and the "
            "optimizer's state come first.",
        ),
        Misconception(
            "rounded up",
            _by_two(lambda fixed, per_sample, limit: -(-(limit - fixed) // per_sample)),
            "Rounded up, the last sample does not fit any more.",
        ),
        Misconception(
            "tried until it fails",
            _until_it_fails,
            "The number is right, and your last update took more than there was: such a program has ended. Compute it "
            "from two small ones.",
        ),
        Misconception(
            "a power of two",
            _by_two(lambda fixed, per_sample, limit: 1 << (((limit - fixed) // per_sample).bit_length() - 1)),
            "Powers of two are a habit. Nothing breaks between them, and up to half of the memory would be empty.",
        ),
    ),
)
