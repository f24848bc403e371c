"""Turn a data set into batches on a device, in an order that depends on (seed, epoch) alone.

A batch is a pure function of a *request* (epoch, indices). That makes everything else simple: a loader can start
at any batch of any epoch at once, and worker processes cannot change the result, since a request means the same
in every process.
"""

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from labkit import devices, randomness
from labkit.data import samplers, workers
from labkit.data.batches import ImageBatches, Request, SampleBatches, length_of
from labkit.data.collate import Collate, CollatedBatches
from labkit.data.images import ImageSet
from labkit.data.pictures import DataWarning
from labkit.data.samplers import Sampler
from labkit.errors import DataError

Share = Callable[[Sequence[Tensor]], Sequence[Tensor]]  # of all batches, as indices, what one process makes


class Loader:
    """Iterates over (inputs, targets) batches. Iterating again gives the next epoch, in another order if shuffled.

    missing: the indices of the samples that were None and left out so far, where the samples are collated.
    """

    def __init__(
        self,
        batches: ImageBatches | SampleBatches,
        batch_size: int,
        device: torch.device,
        seed: int,
        shuffle: bool,
        num_workers: int,
        drop_last: bool,
        sampler: Sampler | None = None,
        start_method: str | None = None,
    ):
        self.batches, self.batch_size, self.device, self.seed = batches, batch_size, device, seed
        self.shuffle, self.drop_last, self.sampler = shuffle, drop_last, sampler
        self.num_workers, self.start_method = num_workers, start_method
        self.count = len(batches) if sampler is None else len(samplers.checked(sampler, seed, 0, len(batches)))
        self.missing: set[int] = set()
        self._epoch, self._batch = 0, 0
        self._iterations = 0
        self._requests = _Requests()
        self._workers = None
        if num_workers > 0:
            workers.check_travels(batches, type(batches.data).__name__, workers.start_method_of(start_method))
            self._workers = DataLoader(
                batches,
                batch_size=None,  # a request is a whole batch already
                sampler=self._requests,
                num_workers=num_workers,
                persistent_workers=True,
                multiprocessing_context=start_method,
                worker_init_fn=workers.prepare,
                generator=randomness.generator(seed, "workers"),  # else torch would draw from the global generator
                pin_memory=device.type == "cuda",
            )

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return self.count // self.batch_size if self.drop_last else -(-self.count // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from self.at(self.next_epoch, 0)

    @property
    def next_epoch(self) -> int:
        """The epoch that an iteration gives now; one that was begun and given up is over."""
        return self._epoch + (self._batch > 0)

    def at(self, epoch: int, batch: int, share: Share | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Iterate over the rest of an epoch from a batch on, without reading what lies before. Raises DataError.

        share: returns what this process shall make of the batches, given as their indices (`labkit.data.sharing`).
        """
        for name, value in (("epoch", epoch), ("batch", batch)):
            if not isinstance(value, Integral) or value < 0:
                raise DataError(f"{name}={value!r}: epochs and batches are counted from 0.")
        parts = self._order(epoch).split(self.batch_size)[batch : len(self)]
        self._requests.set(epoch, share(parts) if share else parts)
        if self._workers is None:
            source = (self.batches[request] for request in self._requests)
        else:
            source = workers.explained(self._workers)
        self._iterations += 1
        iteration = self._iterations
        missing_before = len(self.missing)
        for number, (inputs, targets, *missing) in enumerate(source, start=batch + 1):
            self._epoch, self._batch = (epoch, number) if number < len(self) else (epoch + 1, 0)
            self.missing.update(*(indices.tolist() for indices in missing))
            if inputs is None:  # nobody of this batch was there
                continue
            yield devices.send(inputs, self.device), devices.send(targets, self.device)
            if self._workers is not None and iteration != self._iterations:
                raise DataError(
                    "This loader was iterated anew inside an iteration, and its workers can serve only one at a time. "
                    "Make a second loader, or use num_workers=0."
                )
        if share:
            self._epoch, self._batch = epoch + 1, 0  # others make the rest
        if len(self.missing) > missing_before:
            self._tell_missing()

    def _order(self, epoch: int) -> Tensor:
        if self.sampler is None:
            samples = len(self.batches)
            return randomness.permutation(samples, self.seed, epoch) if self.shuffle else torch.arange(samples)
        order = samplers.checked(self.sampler, self.seed, epoch, len(self.batches))
        if len(order) != self.count:
            raise DataError(
                f"The sampler returns {self.count} indices for epoch 0 and {len(order)} for epoch {epoch}: every epoch "
                "must have the same number."
            )
        return order

    def _tell_missing(self) -> None:
        first = ", ".join(map(str, sorted(self.missing)[:3])) + (", …" if len(self.missing) > 3 else "")
        warnings.warn(
            f"{len(self.missing):,} of {len(self.batches):,} samples were None and left out (indices {first}). "
            "labkit.data.missing_samples(data, loader.missing) lists them.",
            DataWarning,
            stacklevel=3,
        )

    def with_workers(self, num_workers: int) -> "Loader":
        """Return a loader of the same batches in the same order, made by another number of workers."""
        batches = self.batches
        if isinstance(batches, ImageBatches) and self.device.type != "cpu":
            batches = copy.copy(batches)  # workers make batches on the CPU, this process where the pictures are
            batches.images, batches.labels = batches.data.images, batches.data.labels
            if num_workers == 0:
                batches.to(self.device)
        settings = self.batch_size, self.device, self.seed, self.shuffle
        return Loader(batches, *settings, num_workers, self.drop_last, self.sampler, self.start_method)

    def state(self) -> dict:
        """Return the position of the next batch, {"epoch": …, "batch": …}: `at(**state)` goes on from there."""
        return {"epoch": self._epoch, "batch": self._batch}

    def fingerprint(self) -> str:
        """Return a SHA-256 that changes when the data change."""
        return self.batches.fingerprint()

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, or () when the data set does not tell."""
        return tuple(getattr(self.batches.data, "classes", ()))

    @property
    def labels(self) -> Tensor | None:
        """The labels of all samples, int64 (N,) on the CPU; None for data sets that tell only when they are read."""
        return self.batches.data.labels if isinstance(self.batches, ImageBatches) else None

    @property
    def statistics(self) -> tuple[Tensor, Tensor] | None:
        """The (mean, deviation) that inputs are normalised with; None for data sets that prepare their own inputs."""
        return getattr(self.batches, "statistics", None)

    def description(self) -> dict:
        """Return, as plain data, what must be known to prepare other inputs for the same model."""
        if self.statistics is None:
            return {"classes": list(self.classes)}
        mean, deviation = (value.tolist() for value in self.statistics)
        image_shape = list(self.batches.data.image_shape)
        return {"classes": list(self.classes), "image_shape": image_shape, "mean": mean, "deviation": deviation}


class _Requests:
    """The requests of the epoch in progress, as the sampler that a DataLoader asks for its next items."""

    def __init__(self) -> None:
        self.set(0, ())

    def set(self, epoch: int, parts: tuple[Tensor, ...]) -> None:
        self.epoch, self.parts = epoch, parts

    def __iter__(self) -> Iterator[Request]:
        return iter([(self.epoch, part) for part in self.parts])

    def __len__(self) -> int:
        return len(self.parts)


def loader(
    data: ImageSet | Dataset,
    batch_size: int,
    *,
    device: torch.device | str = "cpu",
    seed: int = 0,
    shuffle: bool = False,
    flip: bool = False,
    shift: int = 0,
    cutout: int = 0,
    statistics: tuple[Tensor, Tensor] | None = None,
    num_workers: int = 0,
    drop_last: bool = False,
    sampler: Sampler | None = None,
    collate: Collate | None = None,
    start_method: str | None = None,
) -> Loader:
    """Return a Loader over an ImageSet (kept in memory, a batch at a time) or over any map-style data set.

    flip, shift (pixels), cutout (pixels): augmentation of an ImageSet, see `labkit.data.augment`.
    statistics: the (mean, deviation) to normalise with; give those of the *training* part to the other parts.
    sampler: which samples an epoch takes, and in what order, in place of `shuffle`; see `labkit.data.samplers`.
    collate: how samples become a batch, see `labkit.data.collate`. A data set may bring its own, as `collate`.
    start_method: how worker processes start, "spawn", "fork" or "forkserver"; None is what the system does.
    Raises DataError for sizes that cannot work, DeviceError for a device that is not there.
    """
    if isinstance(data, IterableDataset) or not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise DataError(
            f"{type(data).__name__} has no length or cannot be indexed, so no order can be drawn. "
            "Give a map-style data set (with __len__ and __getitem__), or read the stream into an ImageSet."
        )
    for name, value in {"batch_size": batch_size, "shift": shift, "cutout": cutout, "num_workers": num_workers}.items():
        if not isinstance(value, Integral) or isinstance(value, bool):
            raise DataError(f"{name}={value!r} must be a whole number.")
    if batch_size < 1:
        raise DataError(f"batch_size={batch_size}: a batch needs at least 1 sample.")
    if num_workers < 0:
        raise DataError(f"num_workers={num_workers}: use 0 (no worker process) or more.")
    batch_size, num_workers = int(batch_size), int(num_workers)
    workers.start_method_of(start_method)
    if sampler is not None and shuffle:
        raise DataError("Give a sampler or shuffle=True, not both: a sampler says the order itself.")
    if collate is not None and not callable(collate):
        raise DataError(f"collate must be a function that makes a batch of a list of samples, got {collate!r}.")
    length = length_of(data)
    if length == 0:
        raise DataError("The data set is empty: there is nothing to make batches of.")
    count = length if sampler is None else len(samplers.checked(sampler, seed, 0, length))
    if batch_size > count and (shuffle or drop_last):
        raise DataError(f"batch_size={batch_size} is larger than the {count} samples to train on. Use at most {count}.")
    device = devices.choose(str(device))
    if not isinstance(data, ImageSet):
        if flip or shift or cutout or statistics is not None:
            raise DataError(
                f"flip, shift, cutout and statistics are for an ImageSet; {type(data).__name__} prepares its own "
                "inputs. Put random transforms into its __getitem__."
            )
        collate = getattr(data, "collate", None) if collate is None else collate
        batches = SampleBatches(data, seed) if collate is None else CollatedBatches(data, seed, collate)
    else:
        if collate is not None:
            raise DataError("collate is for samples that are read one by one; an ImageSet gives whole batches.")
        batches = ImageBatches(data, seed, flip, shift, cutout, statistics)
        if num_workers == 0:
            batches.to(device)
    return Loader(batches, batch_size, device, seed, shuffle, num_workers, drop_last, sampler, start_method)
