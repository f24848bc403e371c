"""Pictures in a folder that are too many for the memory: found once, read one by one when a batch asks for them."""

import gc
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from labkit.data.collate import skip_missing
from labkit.data.decoding import UnreadablePicture, decode
from labkit.data.files import path_of, printable, tidy
from labkit.data.images import chosen_places
from labkit.data.layout import Part, arrange
from labkit.errors import DataError

PATIENCE = 0.2  # seconds before the search tells how far it is, and between two such lines


class FolderDataset(Dataset):
    """A map-style data set of picture files. Sample i is (picture: float32 (3, H, W) in 0..1, label: int).

    A file that cannot be read gives None, which labkit's loader leaves out and reports. `stream` makes these.

    labels: int64 (N,).   classes: the class names.   size: (height, width), as for `labkit.data.folder`.
    notes: what was left out while searching, one sentence each.
    transform: called with the uint8 picture (3, H, W); what it returns is the input, in place of the picture in 0..1.
    It may draw from the global random generators: the loader makes that repeatable.
    """

    collate = staticmethod(skip_missing)

    def __init__(
        self,
        root: Path,
        names: "Names",
        labels: Tensor,
        classes: tuple[str, ...],
        size: tuple[int, int],
        transform: Callable[[Tensor], Tensor] | None = None,
        notes: tuple[str, ...] = (),
    ):
        self.root, self.names, self.labels, self.classes = root, names, labels, classes
        self.size, self.transform, self.notes = size, transform, notes

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int] | None:
        """Read one picture from its file: (input, label), or None when it cannot be read."""
        try:
            picture = self._read(index)
        except UnreadablePicture:
            return None
        pixels = torch.from_numpy(picture).permute(2, 0, 1).contiguous()
        return (pixels / 255 if self.transform is None else self.transform(pixels)), int(self.labels[index])

    def __repr__(self) -> str:
        height, width = self.size
        return f"FolderDataset({self.root}: {len(self):,} pictures 3×{height}×{width}, {len(self.classes)} classes)"

    def name(self, index: int) -> str:
        """Return the name of a file below the folder, with "/" on every system."""
        return tidy(self.names[index])

    def why_missing(self, index: int) -> str:
        """Return why a picture cannot be read, or "" when it can."""
        try:
            self._read(index)
        except UnreadablePicture as reason:
            return str(reason)
        return ""

    def select(self, indices: Tensor) -> "FolderDataset":
        """Return the pictures at `indices` (int64 or bool, in one row), in that order, as a new data set.

        Raises DataError for indices of another kind, and for those that no picture has.
        """
        places = chosen_places(indices, len(self), str(self.root))
        names = self.names.select(places.numpy())
        return FolderDataset(self.root, names, self.labels[places], self.classes, self.size, self.transform, self.notes)

    def _read(self, index: int) -> numpy.ndarray:
        """Return the pixels of a file: uint8 (H, W, 3). Raises UnreadablePicture."""
        try:
            content = (self.root / self.names[index]).read_bytes()
        except OSError as error:
            raise UnreadablePicture(f"it cannot be read ({error.strerror})") from None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Pillow has to say about odd files
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return numpy.array(decode(content, self.size)[0])


class Names:
    """Many file names in two arrays: a list of 200,000 strings would be copied by every worker that looks at it.

    (Whoever reads a Python object writes to it, its count of references; so a forked worker gets pages of its own.)
    """

    def __init__(self, text: numpy.ndarray, begins: numpy.ndarray, ends: numpy.ndarray):
        self.text, self.begins, self.ends = text, begins, ends

    @classmethod
    def of(cls, names: list[str]) -> "Names":
        """Return the names of a list."""
        encoded = [os.fsencode(name) for name in names]
        ends = numpy.cumsum([len(one) for one in encoded], dtype=numpy.int64)
        begins = numpy.concatenate([numpy.zeros(1, numpy.int64), ends[:-1]])
        return cls(numpy.frombuffer(b"".join(encoded), numpy.uint8), begins, ends)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> str:
        return os.fsdecode(self.text[self.begins[index] : self.ends[index]].tobytes())

    def select(self, places: numpy.ndarray) -> "Names":
        """Return the names at some places; the text is shared."""
        return Names(self.text, self.begins[places], self.ends[places])


def stream(
    path: str | Path, size: int | tuple[int, int] = 64, transform: Callable[[Tensor], Tensor] | None = None
) -> dict[str, FolderDataset]:
    """Find the pictures of a folder without opening one: {"all": …} or {"train": …, "val": …, "test": …}.

    The layout is that of `labkit.data.folder`: `class/picture` or `train/class/picture`. Links to folders are followed.
    size: every picture is scaled until its shorter side fits, and its middle is kept. A search that takes long shows
    how many files it has found, in a terminal or a notebook page; where nobody watches it is silent. Raises DataError
    if the path or its layout is not as said.
    """
    root = path_of(path)
    if not os.path.isdir(root):  # unlike Path.is_dir, false for a name that no system can have
        raise DataError(f"There is no folder {root} (looked from {Path.cwd()}). Is it spelt right?")
    sides = size if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
        raise DataError(f"size must be a positive whole number or (height, width), got {size!r}.")
    folders: list[str] = []
    names = sorted(_counted(_search(root, folders), root.name))
    parts, classes = arrange(names, folders, str(root))
    found = {key: _data_set(part, root, classes, tuple(sides), transform) for key, part in parts.items()}
    del names, parts
    gc.collect()  # of the list of names only the arrays stay
    return found


def _data_set(
    part: Part, root: Path, classes: tuple[str, ...], size: tuple[int, int], transform: Callable | None
) -> FolderDataset:
    numbers = {label: number for number, label in enumerate(classes)}
    labels = torch.tensor([numbers[label] for label in part.labels])
    names, notes = Names.of(part.names), tuple(map(printable, part.notes))
    return FolderDataset(root, names, labels, tuple(map(tidy, classes)), size, transform, notes)


def _search(root: Path, folders: list[str], prefix: str = "", above: tuple[str, ...] = ()) -> Iterator[str]:
    """Give the name of every file below a folder, as "folder/folder/file", and note the folders in `folders`."""
    here = os.path.realpath(root / prefix)
    if here in above:  # a link that leads back up: do not walk in circles
        return
    try:
        with os.scandir(root / prefix) as entries:
            inside = list(entries)
    except OSError as error:
        raise DataError(f"The folder {printable(str(root / prefix))} cannot be read: {error.strerror}.") from error
    for entry in inside:  # what an entry is, the system has told already: no file is touched
        if entry.is_dir():
            folders.append(prefix + entry.name)
            yield from _search(root, folders, f"{prefix}{entry.name}/", (*above, here))
        elif entry.is_file():
            yield prefix + entry.name


def _counted(names: Iterator[str], title: str) -> Iterator[str]:
    """Pass names on; if a person is watching and it takes long, show on one line how many there are so far, and end it.

    A log, a test or a program that runs by night gets no lines: the count is in the data set that comes back.
    """
    # Jupyter sets this variable for kernels behind a page.
    watched = sys.stderr is not None and (sys.stderr.isatty() or "JPY_SESSION_NAME" in os.environ)
    began = told = time.monotonic()
    count = 0
    for count, name in enumerate(names, 1):
        yield name
        if watched and count % 1000 == 0 and time.monotonic() - told > PATIENCE:
            told = time.monotonic()
            print(f"\rsearching {title}: {count:,} files", end="", file=sys.stderr, flush=True)
    if told > began:
        seconds = time.monotonic() - began
        print(f"\rsearching {title}: {count:,} files in {seconds:.1f} seconds", file=sys.stderr, flush=True)
