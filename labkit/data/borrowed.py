"""Let the training loop use a loader that somebody else made."""

from collections.abc import Iterator
from itertools import islice

from torch.utils.data import DataLoader

from labkit.data.loading import Loader
from labkit.errors import DataError


class BorrowedLoader:
    """A torch DataLoader (or anything with a length that gives batches) with the methods of a labkit Loader.

    Its order comes from global random numbers, so a run that is resumed in the middle of an epoch sees other batches
    than the uncut run would have. `labkit.data.loader` has no such limit.
    """

    def __init__(self, source: DataLoader):
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator:
        return iter(self.source)

    def at(self, epoch: int, batch: int) -> Iterator:
        """Iterate from a batch on, by reading what lies before it and throwing it away."""
        return islice(iter(self.source), batch, None)

    def fingerprint(self) -> str:
        """Return what can be told without reading everything: type and number of batches."""
        return f"{type(self.source).__name__} of {len(self)} batches"

    def description(self) -> dict:
        """Return nothing: a foreign loader does not tell how its inputs were made."""
        return {}


def as_loader(source) -> Loader | BorrowedLoader:
    """Return a labkit Loader as it is, and anything else that gives batches in a wrapper.

    Raises DataError for a source without a length or without iteration, and for one that gives no batch.
    """
    if isinstance(source, Loader | BorrowedLoader):
        ready = source
    elif hasattr(source, "__iter__") and _has_length(source):
        ready = BorrowedLoader(source)
    else:
        raise DataError(
            f"{type(source).__name__} cannot be trained on: it needs a length and batches (inputs, targets). "
            "Use labkit.data.loader(data_set, batch_size) or a torch DataLoader over a map-style data set."
        )
    if len(ready) == 0:
        raise DataError("The loader has no batch: the data set is empty, or smaller than one batch with drop_last.")
    return ready


def _has_length(source: object) -> bool:
    """Ask for the length: a DataLoader has the method `__len__` even where its data set cannot tell."""
    try:
        len(source)
    except TypeError:
        return False
    return True
