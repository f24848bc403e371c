"""ImageSet: labelled pictures as one uint8 tensor, and what can be asked of it."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from labkit import randomness
from labkit.errors import DataError


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Pictures with labels. Nothing in it changes after it is made; every method returns something new.

    images: uint8 (N, C, H, W), values 0..255.    labels: int64 (N,), values 0..K-1.
    classes: the K class names.                   source: where the pictures come from, for people.
    notes: what was noticed while reading (files that could not be read, say), one sentence each.

    Raises DataError when these do not fit together.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    source: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("classes", self.classes), ("notes", self.notes)):
            if isinstance(value, str) or not isinstance(value, Iterable):
                raise DataError(f"{self.source}: {name} must be a tuple of texts, got {value!r}.")
            object.__setattr__(self, name, tuple(value))
        if any(self.classes.count(name) > 1 for name in self.classes):
            raise DataError(f"{self.source}: classes must be one name for each class, all different: {self.classes!r}.")
        images, labels = self.images, self.labels
        for name, value in (("images", images), ("labels", labels)):
            if not isinstance(value, Tensor):
                found = type(value).__name__
                raise DataError(f"{self.source}: {name} must be a tensor, got {found}. Use torch.from_numpy(array).")
            if value.device.type != "cpu":
                raise DataError(f"{self.source}: {name} must be on the CPU, got {value.device}. Use {name}.cpu().")
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise DataError(
                f"{self.source}: images must be uint8 of shape (N, C, H, W) with values 0..255, "
                f"got {images.dtype} of shape {tuple(images.shape)}."
            )
        if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
            raise DataError(
                f"{self.source}: labels must be int64 of shape ({len(images)},), one for each picture, "
                f"got {labels.dtype} of shape {tuple(labels.shape)}. Use labels.long() for other integers."
            )
        if images.numel() == 0:
            raise DataError(f"{self.source} holds no pictures.")
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= len(self.classes):
            raise DataError(
                f"{self.source}: labels run from {low} to {high}, but {len(self.classes)} classes are numbered "
                f"0 to {len(self.classes) - 1}. Renumber the labels from 0, or name every class."
            )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return (picture uint8 (C, H, W), label): the contract of a map-style data set.

        Several at once are a new ImageSet: see `select`. Raises DataError for what is no whole number.
        """
        if not hasattr(index, "__index__"):
            raise DataError(f"A picture is asked for by its number, got {index!r}. For several: select(indices).")
        return self.images[index], int(self.labels[index])

    def __repr__(self) -> str:
        channels, height, width = self.image_shape
        return f"ImageSet({self.source}: {len(self)} pictures {channels}×{height}×{width}, {len(self.classes)} classes)"

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """The shape of one picture: (channels, height, width)."""
        return tuple(self.images.shape[1:])

    def select(self, indices: Tensor) -> "ImageSet":
        """Return the pictures at `indices` (int64 or bool, in one row), in that order, as a new ImageSet.

        Raises DataError for indices of another kind, and for those that no picture has.
        """
        chosen = chosen_places(indices, len(self), self.source)
        return replace(self, images=self.images[chosen], labels=self.labels[chosen])

    def counts(self) -> Tensor:
        """Return how many pictures each class has: int64 (K,)."""
        return torch.bincount(self.labels, minlength=len(self.classes))

    def split(self, fraction: float, seed: int = 0) -> tuple["ImageSet", "ImageSet"]:
        """Return (the rest, a held-out share of `fraction`), stratified: every class gives the same share.

        Each class gives the whole number of pictures nearest to its share, but keeps at least one on the side of the
        rest. The order within both parts is the original one. Raises DataError if the held-out part would be empty.
        """
        if not isinstance(fraction, int | float) or isinstance(fraction, bool) or not 0 < fraction < 1:
            raise DataError(f"split: fraction must lie between 0 and 1, got {fraction!r}.")
        held_out = torch.zeros(len(self), dtype=torch.bool)
        for label in range(len(self.classes)):
            members = torch.nonzero(self.labels == label).flatten()
            wanted = min(round(len(members) * fraction), max(len(members) - 1, 0))
            order = torch.randperm(len(members), generator=randomness.generator(seed, "split", index=label))
            held_out[members[order[:wanted]]] = True
        if not held_out.any():
            raise DataError(
                f"{self.source}: {fraction:.0%} of {len(self)} pictures in {len(self.classes)} classes leaves nothing "
                "to hold out. Give every class more pictures, or a larger fraction."
            )
        return self.select(~held_out), self.select(held_out)

    def statistics(self) -> tuple[Tensor, Tensor]:
        """Return (mean, standard deviation) of each channel, float32 (C,), for pixels scaled to 0..1.

        Computed from this very data, exactly, by counting how often each of the 256 values occurs. (Published numbers
        for CIFAR-10 differ from one another.) A channel that never changes gets a deviation of 1, so that dividing
        by it is harmless.
        """
        values = torch.arange(256, dtype=torch.float64) / 255
        means, deviations = [], []
        for channel in range(self.images.shape[1]):
            counts = _value_counts(self.images[:, channel])
            share = counts / counts.sum()
            mean = (share * values).sum()
            means.append(mean)
            deviations.append((share * (values - mean) ** 2).sum().sqrt())
        mean, deviation = torch.stack(means), torch.stack(deviations)
        deviation[deviation == 0] = 1.0
        return mean.float(), deviation.float()

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(repr((tuple(self.images.shape), self.classes)).encode("utf-8"))
        digest.update(self.labels.contiguous().numpy())
        for chunk in self.images.split(4096):
            digest.update(chunk.contiguous().numpy())
        return digest.hexdigest()

    def fingerprint(self) -> str:
        """Return a SHA-256 of shapes, class names, labels and pixels: equal data, equal fingerprint."""
        return self._fingerprint


def chosen_places(indices: Tensor, count: int, source: str) -> Tensor:
    """Return the places, int64 (M,), that indices (whole numbers or a mask, in one row) choose among `count` samples.

    Raises DataError, which calls the samples by their `source`.
    """
    try:
        chosen = torch.as_tensor(indices)
        chosen = chosen.long() if chosen.numel() == 0 else chosen  # an empty list becomes float32
        places = torch.arange(count)[chosen] if chosen.ndim == 1 else None
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise DataError(f"{source}: {count} samples cannot be chosen from by these indices: {error}.") from None
    if places is None:
        raise DataError(f"{source}: indices must be whole numbers or a mask in one row, got {indices!r}.")
    return places


def _value_counts(channel: Tensor) -> Tensor:
    """Count the values 0..255 of one channel, in chunks, since bincount turns its input into int64: float64 (256,)."""
    counts = torch.zeros(256, dtype=torch.float64)
    for chunk in channel.split(4096):
        counts += torch.bincount(chunk.flatten(), minlength=256)
    return counts
