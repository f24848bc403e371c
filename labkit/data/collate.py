"""How samples become a batch when they do not simply stack: of different lengths, or missing.

A collate function takes the list of samples of one batch and returns (inputs, targets). Those here can be given to
labkit's loader and, as `collate_fn`, to torch's DataLoader.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from labkit.data.batches import Request, SampleBatches, types_of
from labkit.errors import DataError
from labkit.table import Table

Collate = Callable[[list], tuple[Any, Any]]


class Padded(NamedTuple):
    """Inputs of different lengths in one tensor, and how long each one was.

    values: (B, longest, …), filled up at the end.   lengths: int64 (B,).
    """

    values: Tensor
    lengths: Tensor

    def mask(self) -> Tensor:
        """Return what is real and what is filling: bool (B, longest), True where a value came from a sample."""
        return torch.arange(self.values.shape[1], device=self.lengths.device) < self.lengths[:, None]

    def to(self, device: torch.device, non_blocking: bool = False) -> "Padded":
        """Return both tensors on a device."""
        return Padded(*(part.to(device, non_blocking=non_blocking) for part in self))


def pad(samples: list, value: float = 0) -> tuple[Padded, Any]:
    """Return (Padded inputs, targets) of samples (input, target) whose inputs differ in their first dimension.

    Shorter inputs are filled up at the end with `value`. Missing samples (None) are left out.
    Raises DataError when the inputs differ in more than their length.
    """
    samples = _there(samples)
    try:
        inputs, targets = [torch.as_tensor(sample[0]) for sample in samples], [sample[1] for sample in samples]
    except (TypeError, ValueError, RuntimeError, LookupError) as error:
        raise DataError(
            f"pad needs samples (input, target), each input a tensor or a row of numbers; got "
            f"{types_of(samples[0])} ({error})."
        ) from error
    kinds = {(one.dtype, tuple(one.shape[1:])) for one in inputs}
    if len(kinds) > 1 or inputs[0].ndim == 0:
        found = ", ".join(str(tuple(one.shape)) for one in inputs[:4])
        raise DataError(
            f"pad fills up the first dimension, and the others and the dtype must agree: the inputs are {found}, of "
            f"{', '.join(sorted({str(one.dtype) for one in inputs}))}."
        )
    lengths = torch.tensor([len(one) for one in inputs])
    values = torch.nn.utils.rnn.pad_sequence(inputs, batch_first=True, padding_value=value)
    return Padded(values, lengths), _stacked(targets)


def skip_missing(samples: list) -> Any:
    """Stack the samples that are there: torch's default, without those that are None."""
    return _stacked(_there(samples))


def _stacked(values: list) -> Any:
    try:
        return default_collate(values)
    except (RuntimeError, TypeError) as error:
        raise DataError(f"The samples do not stack ({error}). For different lengths use collate=pad.") from error


def _there(samples: list) -> list:
    there = [sample for sample in samples if sample is not None]
    if not samples:
        raise DataError("There is no sample to make a batch of.")
    if not there:
        raise DataError(f"All {len(samples)} samples of a batch are None, so there is nothing to make it of.")
    return there


class CollatedBatches(SampleBatches):
    """Batches of a map-style data set, put together by a collate function; with each comes who was missing."""

    def __init__(self, data: Dataset, seed: int, collate: Collate):
        super().__init__(data, seed)
        self.collate = collate

    def __getitem__(self, request: Request) -> tuple:
        """Return (inputs, targets, indices of the samples that were None: int64). All None: inputs are None."""
        epoch, indices = request
        samples = [self._sample(epoch, index) for index in indices.tolist()]
        missing = indices[torch.tensor([sample is None for sample in samples])]
        if len(missing) == len(samples):
            return None, None, missing
        batch = self.collate(samples)
        if not isinstance(batch, tuple | list) or len(batch) != 2 or not all(hasattr(part, "to") for part in batch):
            raise DataError(
                f"collate must return a pair (inputs, targets) of tensors (or of anything with a method `to`), got "
                f"{types_of(batch)}."
            )
        return *batch, missing

    def fingerprint(self) -> str:
        """Return a SHA-256 of the type, the length, and the first and the last sample, as far as they are there."""
        digest = hashlib.sha256(f"{type(self.data).__name__}/{len(self)}".encode())
        for index in (0, len(self) - 1):
            for part in _tensors(self[0, torch.tensor([index])][:2]):
                digest.update(f"{part.dtype}/{tuple(part.shape)}".encode())
                digest.update(part.contiguous().flatten().view(torch.uint8).numpy())
        return digest.hexdigest()


def missing_samples(data: Dataset, indices: Sequence[int]) -> Table:
    """Return which samples were missing: index and, where the data set can tell, name and reason.

    indices: what `Loader.missing` has. A data set tells by methods name(index) and why_missing(index), both of text.
    """
    rows = []
    for index in indices:
        row: dict[str, Any] = {"index": index}
        if hasattr(data, "name"):
            row["name"] = data.name(index)
        if hasattr(data, "why_missing"):
            row["reason"] = data.why_missing(index)
        rows.append(row)
    return Table(rows, f"{len(rows):,} of {len(data):,} samples of {type(data).__name__} were missing.")


def _tensors(part: Any) -> Iterator[Tensor]:
    """Walk through whatever a batch is made of and give its tensors."""
    if isinstance(part, Tensor):
        yield part
    elif isinstance(part, dict):
        for key in sorted(part):
            yield from _tensors(part[key])
    elif isinstance(part, tuple | list):
        for inner in part:
            yield from _tensors(inner)
