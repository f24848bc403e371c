"""Processes that train together share out every batch: all of a batch is made, and nothing of it twice.

So the size of a batch, the number of updates and what a sample looks like do not depend on the number of processes.
"""

from collections.abc import Iterable, Iterator

from torch import Tensor

from labkit import distributed, randomness
from labkit.data.borrowed import BorrowedLoader, as_loader
from labkit.data.collate import CollatedBatches
from labkit.data.loading import Loader
from labkit.errors import DataError


def own_parts(loader: Loader | BorrowedLoader, epoch: int, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Iterate from a batch of an epoch on, over the part of each batch that belongs to this process.

    Where samples can be missing, whether one is there is only known once it is read: so each process reads the whole
    batch, and then takes its part.
    """
    rank, size = distributed.rank(), distributed.size()
    if size == 1:
        yield from loader.at(epoch, batch)
        return
    if isinstance(loader.batches, CollatedBatches):
        parts = (tuple(values.tensor_split(size)[rank] for values in whole) for whole in loader.at(epoch, batch))
    else:
        parts = loader.at(epoch, batch, lambda batches: [indices.tensor_split(size)[rank] for indices in batches])
    for number, part in enumerate(parts, start=batch):
        if rank > 0:  # else all would drop the same units; the generators of the main process are in the checkpoint
            randomness.seed_everything(randomness.seed_for(loader.seed, f"process {rank}", epoch, number))
        yield part


def own_batches(loader: Loader | BorrowedLoader) -> Iterable[tuple[Tensor, Tensor]]:
    """Return the batches of a validation that belong to this process: every second of two, and so on.

    They are whole, so that each gives the same numbers as in one process, to the last bit.
    """
    rank, size = distributed.rank(), distributed.size()
    return loader if size == 1 else loader.at(loader.next_epoch, 0, lambda batches: batches[rank::size])


def checked(source: object, training: bool) -> Loader | BorrowedLoader:
    """Return what gives batches as a loader, after a look whether the processes of a group can share them out.

    training: each batch is cut into parts, so it must have a sample for everyone. Raises DataError where it has not.
    """
    loader, size = as_loader(source), distributed.size()
    if size == 1:
        return loader
    if not isinstance(loader, Loader):
        raise DataError(
            f"{size} processes that train together share out each batch, and a {type(loader.source).__name__} cannot "
            "be shared out like that. Make the batches with labkit.data.loader(data_set, batch_size)."
        )
    last = loader.count - (len(loader) - 1) * loader.batch_size
    smallest = loader.batch_size if loader.drop_last else min(last, loader.batch_size)
    if training and smallest < size:
        which = "Each batch" if loader.batch_size < size else "The last batch of an epoch"
        raise DataError(
            f"{which} has {smallest} {'sample' if smallest == 1 else 'samples'}, too few for {size} processes: each "
            "needs at least one. Choose another batch_size, or fewer processes."
        )
    return loader
