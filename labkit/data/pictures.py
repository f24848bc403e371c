"""Your own pictures: a folder or a tar archive becomes ImageSets, and every file that could not be read is named."""

import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy
import torch
from PIL import Image

from labkit.data.decoding import UnreadablePicture, decode
from labkit.data.files import Directory, TarArchive, path_of
from labkit.data.images import ImageSet
from labkit.data.layout import Part, arrange
from labkit.errors import DataError

ARCHIVES = (".tar", ".tar.gz", ".tgz")
LARGEST_DEFAULT = 64  # pixels a side, when nobody asks for a size
NAMED = 3  # files that a message names before it stops
PATIENCE = 2.0  # seconds before reading tells how far it is


class DataWarning(UserWarning):
    """Some of the data could not be used; work goes on with the rest."""


def folder(path: str | Path, size: int | tuple[int, int] | None = None) -> dict[str, ImageSet]:
    """Read a folder, .tar, .tar.gz or .tgz of pictures, sorted into folders by class or by part and class.

    `class/picture` gives {"all": ImageSet}; `train/class/picture` gives the keys "train", "val" and "test" as far as
    they are there ("training", "valid", "validation", "testing" are understood). One folder around everything is seen
    through, and folders inside a class folder belong to the class. A folder and a tar of it give the same, bit for bit.

    Every picture becomes uint8 RGB of `size`: an int for a square, or (height, width). Without `size` it is the size of
    the first picture, if that has at most 64 pixels a side, else 64 × 64. A picture of another size is scaled until
    its shorter side fits, and its middle is kept. The pixels are held once, while reading and after.

    Files that cannot be read are left out, named in `ImageSet.notes`, and announced by one DataWarning.
    Raises DataError if the path or its layout is not as said, if a class has no readable picture, if a part has a class
    that the training part lacks, or if more files of a part are unreadable than readable.
    """
    path = path_of(path)
    size = _checked_size(size)
    files = _open(path)
    parts, classes = arrange(files.names, files.folders, str(path))
    next(iter(parts.values())).notes += files.notes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Pillow has to say about odd files is said in the notes
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        pixels, skipped = _read(files, parts, size or _default_size(files, parts), path)
    sets = {key: _image_set(part, pixels[key], skipped, classes, f"{path.name} ({key})") for key, part in parts.items()}
    if skipped:
        warnings.warn(f"{path}: {_some_of(skipped)}. ImageSet.notes has them all.", DataWarning, stacklevel=2)
    return sets


def _image_set(
    part: Part, pixels: numpy.ndarray, skipped: dict[str, str], classes: tuple[str, ...], source: str
) -> ImageSet:
    """Make an ImageSet of the pictures of one part that could be read, with notes on the others."""
    rows = _readable_rows(part, skipped, source)
    numbers = {label: number for number, label in enumerate(classes)}
    return ImageSet(
        images=torch.from_numpy(_compact(pixels, rows)),
        labels=torch.tensor([numbers[part.labels[row]] for row in rows]),
        classes=classes,
        source=source,
        notes=(
            *(f"left out {name}: {skipped[name]}" for name in part.names if name in skipped),
            *sorted(part.notes),
        ),
    )


def _open(path: Path) -> Directory | TarArchive:
    if os.path.isdir(path):
        return Directory(path)
    if not os.path.exists(path):  # unlike Path.exists, false for a name that no system can have
        raise DataError(f"There is no file or folder {path} (looked from {Path.cwd()}). Is it spelt right?")
    if path.name.lower().endswith(ARCHIVES):
        return TarArchive(path)
    raise DataError(
        f"{path} is neither a folder nor a {', '.join(ARCHIVES)} archive. "
        "Give the folder that holds the class folders; unpack an archive of another kind first."
    )


def _checked_size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    sides = size if isinstance(size, (tuple, list)) else (size, size)
    if size is not None and (len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides)):
        raise DataError(f"size must be a positive whole number or (height, width), got {size!r}.")
    return None if size is None else tuple(sides)


def _default_size(files: Directory | TarArchive, parts: dict[str, Part]) -> tuple[int, int]:
    """Return (height, width) of the first readable picture, or 64 × 64 if that is larger."""
    for part in parts.values():
        for name in part.names:
            [(_, content)] = files.contents([name])
            try:
                height, width = _decode(content, None)[0].shape[:2]
            except UnreadablePicture:
                continue
            return (height, width) if max(height, width) <= LARGEST_DEFAULT else (LARGEST_DEFAULT, LARGEST_DEFAULT)
    return LARGEST_DEFAULT, LARGEST_DEFAULT  # nothing can be read, which is told later


def _decode(content: bytes | OSError, size: tuple[int, int] | None) -> tuple[numpy.ndarray, str | None]:
    if isinstance(content, OSError):
        raise UnreadablePicture(f"it cannot be read ({content.strerror})")
    return decode(content, size)


def _read(
    files: Directory | TarArchive, parts: dict[str, Part], size: tuple[int, int], path: Path
) -> tuple[dict[str, numpy.ndarray], dict[str, str]]:
    """Decode every picture into its row: {part: uint8 (N, 3, H, W)}, and {name: reason} for those left out."""
    pixels, skipped, places = {}, {}, {}
    for key, part in parts.items():
        pixels[key] = _room(len(part.names), size)
        places.update({name: (part, pixels[key][row]) for row, name in enumerate(part.names)})
    for name, content in _with_progress(files.contents(places), path.name, len(places)):
        part, place = places[name]
        try:
            picture, remark = _decode(content, size)
        except UnreadablePicture as reason:
            skipped[name] = str(reason)
            continue
        place[...] = picture.transpose(2, 0, 1)
        if remark:
            part.notes.append(f"{name} {remark}")
    return pixels, skipped


def _room(count: int, size: tuple[int, int]) -> numpy.ndarray:
    try:
        return numpy.empty((count, 3, *size), numpy.uint8)
    except MemoryError:
        gigabytes = count * 3 * size[0] * size[1] / 1e9
        raise DataError(
            f"{count} pictures of {size[0]}×{size[1]} need {gigabytes:.1f} GB of memory, more than there is. "
            "Ask for a smaller size."
        ) from None


def _readable_rows(part: Part, skipped: dict[str, str], where: str) -> list[int]:
    """Return the rows whose picture could be read, after making sure that they are enough to work with."""
    rows = [row for row, name in enumerate(part.names) if name not in skipped]
    here = {name: skipped[name] for name in part.names if name in skipped}
    if len(here) > len(rows):
        raise DataError(f"{where}: {_some_of(here)}. That is more than half; is this the right place?")
    lost = sorted(set(part.labels) - {part.labels[row] for row in rows})
    if lost:
        raise DataError(
            f"{where}: no picture of class {lost[0]!r} can be read, so the class would vanish. {_some_of(here)}. "
            "Replace the pictures, or take the class folder away."
        )
    return rows


def _compact(pixels: numpy.ndarray, rows: list[int]) -> numpy.ndarray:
    """Move the given rows to the front, in place: a copy would need the memory twice."""
    for place, row in enumerate(rows):
        if place != row:
            pixels[place] = pixels[row]
    return pixels[: len(rows)]


def _some_of(skipped: dict[str, str]) -> str:
    """Say how many files were left out, and why, for the first few."""
    first = "; ".join(f"{name}: {skipped[name]}" for name in sorted(skipped)[:NAMED])
    more = "; …" if len(skipped) > NAMED else ""
    return f"{len(skipped)} of the files could not be read ({first}{more})"


def _with_progress(items: Iterator, title: str, total: int) -> Iterator:
    """Pass `items` on; if that takes long and a person is watching a terminal, show on one line how far it is."""
    watched = sys.stderr is not None and sys.stderr.isatty()
    start, line = time.monotonic(), ""
    for count, item in enumerate(items, 1):
        yield item
        if watched and count % 500 == 0 and time.monotonic() - start > PATIENCE:
            line = f"reading {title}: {count:,} of {total:,} pictures"
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
    if line:
        print(f"\r{' ' * len(line)}\r", end="", file=sys.stderr, flush=True)
