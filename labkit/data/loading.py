"""Turn a data set into batches on a device, in an order that depends on (seed, epoch) alone.

A batch is a pure function of a *request* (epoch, indices). That makes everything else simple: a loader can start
at any batch of any epoch at once, and worker processes cannot change the result, since a request means the same
in every process.
"""

import signal
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from labkit import devices, randomness
from labkit.data.batches import ImageBatches, Request, SampleBatches
from labkit.data.images import ImageSet
from labkit.errors import DataError


class Loader:
    """Iterates over (inputs, targets) batches. Iterating again gives the next epoch, in another order if shuffled."""

    def __init__(
        self,
        batches: ImageBatches | SampleBatches,
        batch_size: int,
        device: torch.device,
        seed: int,
        shuffle: bool,
        num_workers: int,
        drop_last: bool,
    ):
        self.batches, self.batch_size, self.device, self.seed = batches, batch_size, device, seed
        self.shuffle, self.drop_last = shuffle, drop_last
        self._epoch, self._batch = 0, 0
        self._iterations = 0
        self._requests = _Requests()
        self._workers = None
        if num_workers > 0:
            self._workers = DataLoader(
                batches,
                batch_size=None,  # a request is a whole batch already
                sampler=self._requests,
                num_workers=num_workers,
                persistent_workers=True,
                worker_init_fn=_prepare_worker,
                generator=randomness.generator(seed, "workers"),  # else torch would draw from the global generator
                pin_memory=device.type == "cuda",
            )

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        samples = len(self.batches)
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        begun = self._batch > 0  # and given up: whoever iterates anew wants every sample, so that epoch is over
        yield from self.at(self._epoch + begun, 0)

    def at(self, epoch: int, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Iterate over the rest of an epoch from one of its batches on, without reading what lies before it."""
        self._requests.set(epoch, self._order(epoch).split(self.batch_size)[batch : len(self)])
        source = self._workers if self._workers is not None else (self.batches[request] for request in self._requests)
        self._iterations += 1
        iteration = self._iterations
        for number, (inputs, targets) in enumerate(_explained(source), start=batch + 1):
            self._epoch, self._batch = (epoch, number) if number < len(self) else (epoch + 1, 0)
            yield devices.send(inputs, self.device), devices.send(targets, self.device)
            if self._workers is not None and iteration != self._iterations:
                raise DataError(
                    "This loader was iterated anew inside an iteration, and its workers can serve only one at a time. "
                    "Make a second loader, or use num_workers=0."
                )

    def _order(self, epoch: int) -> Tensor:
        samples = len(self.batches)
        return randomness.permutation(samples, self.seed, epoch) if self.shuffle else torch.arange(samples)

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


def _explained(batches: Iterable) -> Iterator:
    """Pass batches on, and say in a sentence what it means when a worker process ends without a word."""
    try:
        yield from batches
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker"):
            raise  # an error of the data set itself, in its own words
        raise DataError(
            "A process that prepares batches was ended from outside, most often for want of memory. Use a smaller "
            "num_workers; with num_workers=0 an error of the data set shows its place."
        ) from error


def _prepare_worker(worker: int) -> None:
    """Let workers ignore Ctrl-C, which reaches every process of a terminal: the main one decides when to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


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
) -> Loader:
    """Return a Loader over an ImageSet (kept in memory, a batch at a time) or over any map-style data set.

    flip, shift (pixels), cutout (pixels): augmentation of an ImageSet, see `labkit.data.augment`.
    statistics: the (mean, deviation) to normalise with; give those of the *training* part to the other parts.
    Raises DataError for sizes that cannot work, DeviceError for a device that is not there.
    """
    if isinstance(data, IterableDataset) or not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        raise DataError(
            f"{type(data).__name__} has no length or cannot be indexed, so no order can be drawn. "
            "Give a map-style data set (with __len__ and __getitem__), or read the stream into an ImageSet."
        )
    for name, value in {"batch_size": batch_size, "shift": shift, "cutout": cutout, "num_workers": num_workers}.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise DataError(f"{name}={value!r} must be a whole number.")
    if batch_size < 1:
        raise DataError(f"batch_size={batch_size}: a batch needs at least 1 sample.")
    if num_workers < 0:
        raise DataError(f"num_workers={num_workers}: use 0 (no worker process) or more.")
    if len(data) == 0:
        raise DataError("The data set is empty: there is nothing to make batches of.")
    if batch_size > len(data) and (shuffle or drop_last):
        raise DataError(
            f"batch_size={batch_size} is larger than the {len(data)} samples to train on. Use at most {len(data)}."
        )
    device = devices.choose(str(device))
    if not isinstance(data, ImageSet):
        if flip or shift or cutout or statistics is not None:
            raise DataError(
                f"flip, shift, cutout and statistics are for an ImageSet; {type(data).__name__} prepares its own "
                "inputs. Put random transforms into its __getitem__."
            )
        return Loader(SampleBatches(data, seed), batch_size, device, seed, shuffle, num_workers, drop_last)
    batches = ImageBatches(data, seed, flip, shift, cutout, statistics)
    if num_workers == 0:
        batches.to(device)
    return Loader(batches, batch_size, device, seed, shuffle, num_workers, drop_last)
