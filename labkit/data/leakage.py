"""The same picture in two parts: then a model is asked in the test what it was told in training."""

import hashlib

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.data.images import ImageSet
from labkit.errors import DataError
from labkit.table import Table

# Correlation of the grey pixels. Of the test pictures of CIFAR-10, one in a thousand has such a double in train.
ALIKE = 0.99
COARSE = 8  # pixels a side at which pictures are compared first, since comparing all pixels of all pairs takes long
BLOCK = 512  # pictures of val that are compared at a time


def duplicates(train: ImageSet, val: ImageSet, near: bool = True) -> Table:
    """Return which pictures of `val` lie in `train` as well: one row for each, with its double.

    how: "equal" (every pixel, found by a hash), "brightness" (equal but for brightness and contrast) or "mirrored"
    (left and right exchanged, whatever the brightness). The last two are found by the correlation of the grey pixels,
    from 0.99 on: a picture that was cropped, or so bright that much of it became white, is not found. near=False looks
    for equal ones only. Raises DataError when the pictures are of different shape.
    """
    for part in (train, val):
        if not isinstance(part, ImageSet):
            raise DataError(f"duplicates compares two ImageSets, got {type(part).__name__}.")
    if train.image_shape != val.image_shape:
        raise DataError(
            f"Pictures of {train.image_shape} and {val.image_shape} cannot be compared. Read both in the same size."
        )
    found = _equal(train.images, val.images)
    if near:
        for how, images in (("brightness", val.images), ("mirrored", val.images.flip(3))):
            for index, double in _alike(train.images, images).items():
                found.setdefault(index, (how, double))
    rows = [
        {
            "val": index,
            "train": double,
            "how": how,
            "class in val": val.classes[int(val.labels[index])],
            "class in train": train.classes[int(train.labels[double])],
        }
        for index, (how, double) in sorted(found.items())
    ]
    kinds = ", ".join(f"{sum(row['how'] == how for row in rows)} {how}" for how in ("equal", "brightness", "mirrored"))
    share = f"{len(rows):,} of {len(val):,} pictures ({len(rows) / len(val):.1%}) lie in both parts"
    return Table(rows, f"{share}: {kinds}." if rows else f"{share}.")


def _equal(train: Tensor, val: Tensor) -> dict[int, tuple[str, int]]:
    """Return {index in val: ("equal", index in train)} by the hash of all pixels."""
    places = {_hash(image): index for index, image in reversed(list(enumerate(train)))}  # the first one counts
    hashes = ((index, _hash(image)) for index, image in enumerate(val))
    return {index: ("equal", places[digest]) for index, digest in hashes if digest in places}


def _hash(image: Tensor) -> bytes:
    return hashlib.blake2b(image.contiguous().numpy(), digest_size=16).digest()


def _alike(train: Tensor, val: Tensor) -> dict[int, int]:
    """Return {index in val: the index in train that is most like it} for pictures that are alike."""
    coarse, found = _standard(train, COARSE), {}
    for first in range(0, len(val), BLOCK):
        block = val[first : first + BLOCK]
        rows, doubles = torch.nonzero(_standard(block, COARSE) @ coarse.T >= ALIKE, as_tuple=True)
        closeness = torch.cat(
            [
                (_standard(block[some]) * _standard(train[other])).sum(dim=1)
                for some, other in zip(rows.split(4096), doubles.split(4096), strict=True)
            ]
        )
        for place in closeness.argsort(stable=True).tolist():  # the best comes last, and stays
            if closeness[place] >= ALIKE:
                found[first + int(rows[place])] = int(doubles[place])
    return found


def _standard(images: Tensor, side: int | None = None) -> Tensor:
    """Return the grey pixels of each picture with mean 0 and length 1, so that a product is a correlation: (N, P)."""
    grey = torch.cat([chunk.float().mean(dim=1, keepdim=True) for chunk in images.split(4096)])
    if side is not None and max(grey.shape[2:]) > side:
        grey = F.adaptive_avg_pool2d(grey, side)
    grey = grey.flatten(1)
    centred = grey - grey.mean(dim=1, keepdim=True)
    return centred / centred.norm(dim=1, keepdim=True).clamp(min=1e-3)  # a picture of one colour is like no other
