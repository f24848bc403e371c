"""Chapter 06, fifth part: is it what was written? And if not, the one before."""

import hashlib
from collections.abc import Callable

import torch

from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise

DIGEST = 32  # bytes of a SHA-256


def _file(content: bytes) -> bytes:
    return content + hashlib.sha256(content).digest()


def _is_whole(file: bytes) -> bool:
    return hashlib.sha256(file[:-DIGEST]).digest() == file[-DIGEST:]


def _finds(
    is_whole: Callable[[bytes], bool] = _is_whole,
    content_of: Callable[[bytes], bytes] = lambda file: file[:-DIGEST],
    tried: Callable[[list[bytes]], list[bytes]] = lambda files: files,
) -> Callable[[list[bytes]], bytes | None]:
    """Return an answer with its own test, its own idea of the content, and of the files to try."""

    def newest_intact(files: list[bytes]) -> bytes | None:
        return next((content_of(file) for file in tried(files) if is_whole(file)), None)

    return newest_intact


def _raises_where_none_is_whole(files: list[bytes]) -> bytes:
    return [file[:-DIGEST] for file in files if _is_whole(file)][0]  # noqa: RUF015  as a learner writes it


def _stops_at_the_first_damage(files: list[bytes]) -> bytes | None:
    return files[0][:-DIGEST] if _is_whole(files[0]) else None


def _flipped(file: bytes, place: int) -> bytes:
    return file[:place] + bytes([file[place] ^ 1]) + file[place + 1 :]


def _cases(generator: torch.Generator) -> list[tuple]:
    new, old, oldest = (
        _file(bytes(torch.randint(65, 91, (6 + number,), generator=generator).tolist())) for number in range(3)
    )
    return [
        ([new, old, oldest],),
        ([_flipped(new, 2), old, oldest],),
        ([_flipped(new, -1), old],),
        ([new[:-5], old, oldest],),
        ([b"", _flipped(old, 0), oldest],),
        ([new[:20], b""],),
    ]


NEWEST_INTACT = Exercise(
    name="newest_intact",
    prompt="`files` holds the bytes of several files, the newest first. Each was written as its content, followed by "
    "the SHA-256 of the content (`hashlib.sha256(content).digest()`, always 32 bytes). Since then some were cut off or "
    "damaged. Return the content of the newest that is what was written, without those 32 bytes; None where none is.",
    stub='''def newest_intact(files):
    """Return the content of the first file that is whole, or None."""
    return ...  # your turn''',
    solved='''import hashlib


def newest_intact(files):
    """Return the content of the first file that is whole, or None."""
    for file in files:
        content, digest = file[:-32], file[-32:]
        if hashlib.sha256(content).digest() == digest:
            return content
    return None''',
    hints=(
        "The last 32 bytes say what the checksum of the rest must be.",
        "Slices with negative bounds also work for what is too short: `file[:-32]`, `file[-32:]`.",
        "Take the checksum of the content alone, compare bytes with bytes, and return at the first that agrees.",
    ),
    cases=_cases,
    praise="One flipped bit is enough to be noticed, and the previous file is there.",
    misconceptions=(
        Misconception(
            "the newest, unchecked",
            _finds(is_whole=lambda file: True),
            "The newest is the one that was being written when the power went. Compare before you trust it.",
        ),
        Misconception(
            "long enough is whole",
            _finds(is_whole=lambda file: len(file) > DIGEST),
            "A length tells nothing about a flipped bit, nor about a file that was cut after its first 32 bytes.",
        ),
        Misconception(
            "no file is ever whole",
            _finds(is_whole=lambda file: hashlib.sha256(file).digest() == file[-DIGEST:]),
            "The checksum was taken of the content *without* itself. And `hexdigest()` is text of 64 letters, which "
            "never equals 32 bytes.",
        ),
        Misconception(
            "the checksum is returned, too",
            _finds(content_of=lambda file: file),
            "The right file, with its last 32 bytes. They are no part of the content.",
        ),
        Misconception(
            "the oldest",
            _finds(tried=lambda files: files[::-1]),
            "You return the last that is whole. The newest is first: each older one means work done again.",
        ),
        Misconception(
            "one damaged file ends it",
            _stops_at_the_first_damage,
            "You saw that the newest is damaged, and gave up. The one before it was kept for this very moment.",
        ),
        Misconception(
            "an error where none is whole",
            _raises_where_none_is_whole,
            "With no whole file the list is empty, and its first entry an IndexError from deep inside. Return None, "
            "and let the caller say in words what happened.",
        ),
    ),
)
