"""Make one batch from a request: (epoch, indices) in, (inputs, targets) out, and nothing else decides the result."""

import hashlib

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from labkit import devices, randomness
from labkit.data import augment
from labkit.data.images import ImageSet
from labkit.errors import DataError

Request = tuple[int, Tensor]  # (epoch, indices of the samples: int64 (B,))


class ImageBatches(Dataset):
    """Whole batches of an ImageSet: picked, moved, scaled and normalised at once. One uint8 tensor holds the data."""

    def __init__(
        self, data: ImageSet, seed: int, flip: bool, shift: int, cutout: int, statistics: tuple[Tensor, Tensor] | None
    ):
        channels, height, width = data.image_shape
        if not 0 <= shift < min(height, width):
            raise DataError(
                f"shift={shift}: pictures of {height}×{width} can be moved by 0 to {min(height, width) - 1}."
            )
        if not 0 <= cutout <= max(height, width):
            raise DataError(
                f"cutout={cutout}: choose 0 (off) to {max(height, width)} for pictures of {height}×{width}."
            )
        self.data, self.seed, self.flip, self.shift, self.cutout = data, seed, flip, shift, cutout
        self.images, self.labels = data.images, data.labels
        given = data.statistics() if statistics is None else statistics
        try:
            self.statistics = tuple(torch.as_tensor(value, dtype=torch.float32) for value in given)
        except (TypeError, ValueError, RuntimeError):
            raise DataError(
                f"statistics: give (mean, deviation), such as train_loader.statistics; got {given!r}."
            ) from None
        if [tuple(value.shape) for value in self.statistics] != [(channels,)] * 2:
            raise DataError(f"statistics: give (mean, deviation) with one value for each of the {channels} channels.")
        mean, deviation = self.statistics
        if not (torch.isfinite(mean).all() and torch.isfinite(deviation).all() and (deviation > 0).all()):
            raise DataError(f"statistics: the mean must be finite and the deviation above 0, got {mean}, {deviation}.")

    def __len__(self) -> int:
        return len(self.data)

    def to(self, device: torch.device) -> None:
        """Keep the pictures on the device, so that a batch never crosses the bus."""
        self.images, self.labels = self.images.to(device), self.labels.to(device)

    def __getitem__(self, request: Request) -> tuple[Tensor, Tensor]:
        """Return (inputs float32 (B, C, H, W) with mean 0 and deviation 1 per channel, targets int64 (B,))."""
        epoch, indices = request
        draws = randomness.uniform(self.seed, "augment", epoch, indices, augment.DRAWS)
        indices = devices.send(indices, self.images.device)
        images = self.images.index_select(0, indices)  # copies whole pictures; `images[indices]` picks pixel by pixel
        if self.flip or self.shift:
            images = augment.move(images, draws, self.flip, self.shift)
        mean, deviation = (devices.send(value, images.device)[:, None, None] for value in self.statistics)
        inputs = images.to(torch.float32).div_(255).sub_(mean).div_(deviation)  # in place: memory is what takes time
        if self.cutout:
            inputs = augment.cut_out(inputs, draws, self.cutout)
        return inputs, self.labels[indices]

    def fingerprint(self) -> str:
        """Return the ImageSet's fingerprint."""
        return self.data.fingerprint()


class SampleBatches(Dataset):
    """Batches of any other map-style data set: its samples are read one by one, then collated.

    While sample i is read, the global generators of Python, NumPy and torch start at a seed made from
    (seed, epoch, i), and are put back afterwards. So random transforms inside the data set need no care: they
    differ from sample to sample and from epoch to epoch, and are the same for any number of workers.
    """

    def __init__(self, data: Dataset, seed: int):
        self.data, self.seed = data, seed

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, request: Request):
        """Return (inputs, targets): the collated samples of one request. Raises DataError if they do not fit."""
        epoch, indices = request
        samples = [self._sample(epoch, index) for index in indices.tolist()]
        name = type(self.data).__name__
        for index, sample in zip(indices.tolist(), samples, strict=True):
            if sample is None:
                raise DataError(
                    f"Sample {index} of {name} is None. Give the loader collate=labkit.data.skip_missing, which leaves "
                    "missing samples out."
                )
        try:
            batch = default_collate(samples)
        except (RuntimeError, TypeError) as error:
            raise DataError(f"The samples of {name} cannot be put into one batch: {error}") from error
        if not isinstance(batch, tuple | list) or [type(part) for part in batch] != [Tensor, Tensor]:
            raise DataError(
                f"A sample of {name} must be a pair (input, target) of tensors, arrays or numbers, "
                f"got {types_of(samples[0])}. Let its __getitem__ return such a pair."
            )
        return tuple(batch)

    def _sample(self, epoch: int, index: int):
        try:
            with randomness.frozen_randomness(randomness.seed_for(self.seed, "sample", epoch, index)):
                return self.data[index]
        except IndexError as error:
            raise DataError(
                f"Sample {index} of {type(self.data).__name__} failed with {type(error).__name__}: {error}. The data "
                f"set says that it has {len(self.data)} samples, so all from 0 to {len(self.data) - 1} must be there."
            ) from error

    def fingerprint(self) -> str:
        """Return a SHA-256 of the type, the length, and the first and the last sample (reading all may take hours)."""
        digest = hashlib.sha256(f"{type(self.data).__name__}/{len(self)}".encode())
        for part in self[0, torch.tensor([0, len(self) - 1])]:
            digest.update(f"{part.dtype}/{tuple(part.shape)}".encode())
            digest.update(part.contiguous().view(torch.uint8).numpy())
        return digest.hexdigest()


def length_of(data: object) -> int:
    """Return how many samples a data set has. Raises DataError if it cannot tell."""
    try:
        return len(data)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise DataError(f"{type(data).__name__} cannot tell how many samples it has ({error!r}).") from error


def types_of(value: object) -> str:
    """Say of what types a sample or a batch is: "(Tensor, str)", "dict"."""
    if isinstance(value, tuple | list):
        return f"({', '.join(type(part).__name__ for part in value)})"
    return type(value).__name__
