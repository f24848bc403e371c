"""Measurements for the topic "Data": what a data set must have, and what a loader does with its samples."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


class Counter(TorchFunctionMode):
    """Counts the calls of torch inside its block."""

    calls = 0

    def __torch_function__(
        self, function: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        self.calls += 1
        return function(*args, **(kwargs or {}))


class Squares(Dataset):
    """Ten numbers with their squares, computed when asked for; there is no `__init__`."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor([float(index)]), index**2


@claim(
    "C151",
    true="It is the way for files, and for all that is made when asked for. Rows that lie in memory as one tensor are "
    "another case: the loader took each of them out alone, only to stack them again.",
    false="Perhaps you index tensors and are content, and for small data you may be. But samples that are read or "
    "computed one by one have to be called, counted and stacked by somebody, and the loader does that.",
    depends="Right: it depends on where the data are. Made one by one: a data set and a loader. Already a tensor: "
    "`x[order[i : i + 32]]` is one operation for a batch.",
)
def a_loader_takes_rows_one_by_one() -> dict[str, bool]:
    """Make batches of samples that are computed, and count the calls of torch for 64 rows in memory in both ways."""
    inputs, squares = next(iter(DataLoader(Squares(), batch_size=10)))
    rows = torch.arange(128.0).reshape(64, 2)
    loader = DataLoader(TensorDataset(rows), batch_size=16)
    with Counter() as by_loader:
        loaded = [batch for (batch,) in loader]
    with Counter() as by_index:
        indexed = [rows[places] for places in torch.arange(64).split(16)]
    same = all(torch.equal(one, other) for one, other in zip(loaded, indexed, strict=True))
    return {
        "samples that are made one by one become batches without code of yours": torch.equal(
            inputs[:, 0].square(), squares
        ),
        "rows in memory become the same batches with no more calls than by indexing": same
        and by_loader.calls <= by_index.calls,
    }


@claim(
    "C157",
    true="Two of the three, and only for the usual kind. The data set below has no `__init__` and works; a stream has "
    "neither a length nor an index.",
    false="You may have written an `IterableDataset`, which needs `__iter__` alone. The usual kind does fail without "
    "a length, and without `__getitem__` there is nothing to ask for.",
    depends="Right: `__getitem__` and `__len__` for a data set with an index, `__iter__` for a stream. `__init__` is "
    "there for your own convenience: it keeps paths, labels and transforms.",
)
def two_methods_are_needed() -> dict[str, bool]:
    """Leave out each of the three methods, and read a stream that has none of them."""

    class WithoutLength(Dataset):
        def __getitem__(self, index: int) -> int:
            return index

    class WithoutItems(Dataset):
        def __len__(self) -> int:
            return 2

    class Stream(IterableDataset):
        def __iter__(self) -> object:
            return iter(range(4))

    def read(data: Dataset) -> list:
        return list(DataLoader(data, batch_size=2, shuffle=not isinstance(data, IterableDataset)))

    return {
        "without `__init__` it fails": error_of(lambda: read(Squares())) != "",
        "without `__len__` it fails": error_of(lambda: read(WithoutLength())) != "",
        "without `__getitem__` it fails": error_of(lambda: read(WithoutItems())) != "",
        "an `IterableDataset` fails without them as well": error_of(lambda: read(Stream())) != "",
    }


@claim(
    "C158",
    true="Yes. The loader asked for one index after the other and put the answers together with `torch.stack`, which "
    "wants equal shapes and says so.",
    false="Perhaps you expect that the data set is asked for a whole batch, or that a loader pads. It was asked for "
    "single indices, and a row of 4 behind a row of 3 raised an error.",
    depends="A `collate_fn` of your own may do anything with the samples. Without one they are stacked, and then the "
    "shapes must agree.",
)
def single_samples_are_stacked() -> dict[str, bool]:
    """Write down what a loader asks a data set for, and give it samples of two lengths."""
    asked = []

    class Listening(Squares):
        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            asked.append(index)
            return super().__getitem__(index)

    inputs, _ = next(iter(DataLoader(Listening(), batch_size=4)))
    message = error_of(lambda: next(iter(DataLoader([torch.zeros(3), torch.zeros(4)], batch_size=2))))
    return {
        "the data set is asked for one sample at a time": asked == [0, 1, 2, 3],
        "the samples are stacked along a new first dimension": inputs.shape == (4, 1),
        "samples of unequal shapes raise an error that names two": "[3] at entry 0 and [4] at entry 1" in message,
    }


def padded_with_lengths(samples: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return samples of unequal length as one tensor, filled up with zeros, and their lengths."""
    return pad_sequence(samples, batch_first=True), torch.tensor([len(sample) for sample in samples])


@claim(
    "C159",
    true="Yes. And give back the lengths with the padded values: nothing else tells a padded zero from a real one.",
    false="You may pad in the data set itself, to one length for all. That works as their lengths are then equal. "
    "Samples that *are* unequal stopped the loader until a `collate_fn` took them.",
    depends="With `batch_size=1`, or all of one length, none is needed; but then they are not unequal samples in one "
    "batch. As soon as two lengths meet, the ordinary stacking fails.",
)
def unequal_samples_need_a_collate_function() -> dict[str, bool]:
    """Batch sequences of 2, 5 and 3 values with the ordinary collate function and with one that pads."""
    samples = [torch.ones(2), torch.ones(5), torch.ones(3)]
    message = error_of(lambda: next(iter(DataLoader(samples, batch_size=3))))
    values, lengths = next(iter(DataLoader(samples, batch_size=3, collate_fn=padded_with_lengths)))
    return {
        "without one the loader stops with an error": "equal size" in message,
        "with one that pads they become a batch": values.shape == (3, 5),
        "the lengths tell which values are real": torch.equal(values.sum(dim=1).long(), lengths),
    }


#: The data set as many texts print it.
AS_PRINTED = """
class Files(Dataset):
    def __init__(self, files, transform=None):
        self.files = files
        self.transform = transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        sample = load_file(self.files[index])
        if self.transform:
            sample = self.transform(sample)
        return sample
"""


class Cutter:
    """A transform that also keeps a list of its steps, and has none yet: an empty list counts as false."""

    def __len__(self) -> int:
        return 0

    def __call__(self, sample: Tensor) -> Tensor:
        """Return the first value of the sample, shape (1,)."""
        return sample[:1]


@claim(
    "C160",
    true="It looks complete, as everyone fills in `load_file` while reading. Python does not: the first sample raised "
    "a `NameError`.",
    false="You may have met the `NameError`. The pattern itself is sound: with a loading function of your own it gave "
    "batches at once.",
    depends="Right: the pattern holds, the listing does not run by itself. Write `load_file`, ask `if self.transform "
    "is not None` (a transform may count as false, as the last line shows), and return a label too.",
)
def the_printed_data_set_lacks_a_function() -> dict[str, bool]:
    """Run the printed class as it is, then with a function that loads, then with a transform that counts as false."""

    def first_batch(transform: object = None, **names: object) -> Tensor:
        space = {"Dataset": Dataset, **names}
        exec(AS_PRINTED, space)
        return next(iter(DataLoader(space["Files"]([1, 2], transform), batch_size=2)))

    def load_file(path: int) -> Tensor:
        return torch.full((2,), float(path))

    return {
        "as printed it delivers a sample": "load_file" not in error_of(first_batch),
        "with a function that loads it delivers batches": first_batch(load_file=load_file).shape == (2, 2),
        "it uses whatever transform it is given": first_batch(Cutter(), load_file=load_file).shape == (2, 1),
    }
