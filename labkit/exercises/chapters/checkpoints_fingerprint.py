"""Chapter 06, ninth part: are these the data that the run was trained on?"""

import hashlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise

Parts = Callable[[Tensor, Tensor], Any]


def run_fingerprint(answer: Any, images: Tensor, labels: Tensor) -> Any:
    """Take the fingerprint of data, of equal data, and of data that differ in one thing each."""
    families.need_function(answer)
    whole = answer(images, labels)
    if whole is ...:
        return ...
    if not isinstance(whole, str | bytes | int):
        raise families.WrongKind("A fingerprint is text, bytes or a whole number: what can be stored and compared.")
    pixel, label = images.clone(), labels.clone()
    pixel.view(-1)[-1] += 1
    label[[0, 1]] = labels[[1, 0]]
    order = torch.arange(len(images))
    order[[0, 1]] = torch.tensor([1, 0])
    by_column = images.transpose(-1, -2).contiguous().transpose(-1, -2)  # equal numbers, other places in memory
    return {
        "equal data, equal fingerprint": answer(images.clone(), labels.clone()) == whole,
        "equal however they lie in memory": answer(by_column, labels) == whole,
        "other when one pixel differs by 1": answer(pixel, labels) != whole,
        "other when two pictures are exchanged": answer(images[order], labels) != whole,
        "other when two labels are exchanged": answer(images, label) != whole,
        "other when pictures have another shape": answer(images.flatten(2)[..., None], labels) != whole,
        "made with Python's `hash`": "hash" in getattr(getattr(answer, "__code__", None), "co_names", ()),
    }


def _of(parts: Parts) -> Callable[[Tensor, Tensor], str]:
    """Return an answer that puts these parts together and takes their checksum."""

    def fingerprint(images: Tensor, labels: Tensor) -> str:
        return hashlib.sha256(repr(parts(images, labels)).encode("utf-8")).hexdigest()

    return fingerprint


def _bytes(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()


def _python_hash(images: Tensor, labels: Tensor) -> int:
    return hash((tuple(images.shape), _bytes(images), _bytes(labels)))


def _printed(images: Tensor, labels: Tensor) -> tuple:
    return str(images[:1, :, :1]), str(labels), images.shape


def _as_in_memory(images: Tensor, labels: Tensor) -> tuple:
    return images.shape, bytes(images.untyped_storage()), _bytes(labels)


def _data(generator: torch.Generator, *shape: int) -> tuple[Tensor, Tensor]:
    """Draw pictures whose first two differ, and labels whose first two differ."""
    images = torch.randint(0, 250, shape, generator=generator, dtype=torch.uint8)
    images[0, 0, 0, 0], images[1, 0, 0, 0] = 7, 9
    labels = torch.randint(2, 10, (shape[0],), generator=generator)
    labels[:2] = torch.tensor([0, 1])
    return images, labels


FINGERPRINT = Exercise(
    name="fingerprint",
    prompt="A resume has to refuse other data than those the run began with. Return a fingerprint (text, bytes or a "
    "whole number) of `images` (uint8) and `labels` (int64), the same in every process: equal for equal data, however "
    "they lie in memory, and another as soon as one pixel, one label, the order or the shape is another.",
    stub='''def fingerprint(images, labels):
    """Return text that stands for the data: any change gives another."""
    return ...  # your turn''',
    solved='''import hashlib


def fingerprint(images, labels):
    """Return text that stands for the data: any change gives another."""
    digest = hashlib.sha256(f"{images.shape} {labels.shape}".encode())
    digest.update(images.numpy().tobytes())
    digest.update(labels.numpy().tobytes())
    return digest.hexdigest()''',
    hints=(
        "A checksum of all bytes notices any change. `hashlib.sha256` takes them piece by piece, with `update`.",
        "`tensor.numpy().tobytes()` gives the numbers in the order of their indices, however they lie in memory.",
        "The bytes alone do not know the shape: 4 × 4 and 2 × 8 have the same. Put `f'{images.shape}'.encode()` in.",
    ),
    cases=lambda generator: [_data(generator, 3, 1, 4, 4), _data(generator, 5, 3, 2, 4)],
    run=run_fingerprint,
    praise="Another data set under the same name will not slip through.",
    misconceptions=(
        Misconception(
            "how many, and how large",
            _of(lambda images, labels: (images.shape, labels.shape)),
            "Number and size are those of every version of the data set, corrected or not. The content has to go in.",
        ),
        Misconception(
            "sums",
            _of(lambda images, labels: (images.shape, images.sum().item(), labels.sum().item())),
            "A sum does not notice an exchange: with two labels swapped it is the same, and the training another.",
        ),
        Misconception(
            "only the pictures",
            _of(lambda images, labels: (images.shape, _bytes(images))),
            "Corrected labels are other data, too. They are missing.",
        ),
        Misconception(
            "only the labels",
            _of(lambda images, labels: (images.shape, _bytes(labels))),
            "Pictures that were cut or compressed anew keep their labels. The pixels are missing.",
        ),
        Misconception(
            "without the shape",
            _of(lambda images, labels: (_bytes(images), _bytes(labels))),
            "The bytes of 4 × 4 and of 2 × 8 pixels are the same. The shape belongs in.",
        ),
        Misconception(
            "the order in memory",
            _of(_as_in_memory),
            "The storage holds the numbers as they lie there. After a `transpose`, or in `channels_last`, equal data "
            "lie elsewhere. `tensor.numpy().tobytes()` goes by the indices.",
        ),
        Misconception(
            "Python's `hash`",
            _python_hash,
            "It tells data apart, in this process. For text and bytes Python starts each process with another secret "
            "number, so that tomorrow's `hash` of the same data is another. `hashlib` is the same everywhere.",
        ),
        Misconception(
            "what is printed",
            _of(_printed),
            "What a tensor prints is a part of it: large ones are shortened with `...`. A change in the middle is not "
            "seen.",
        ),
    ),
)
