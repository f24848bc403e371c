"""The files in a directory or in a tar archive, seen alike: sorted names, and contents read one after another.

An archive is never unpacked to disk. Names use "/" on every system and are written in composed Unicode (macOS stores
"é" as two characters), so that a directory and a tar made of it on another machine give the same names and order.
"""

import errno
import os
import re
import tarfile
import unicodedata
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from labkit.errors import DataError

NOT_A_FILE = "is a link or a device, not a file, and was left out."
LARGEST_FILE = 2**29  # bytes; no picture is larger, and reading what only calls itself one could fill the memory
ESCAPING = re.compile(r"^([/\\]|[A-Za-z]:)|(^|[/\\])\.\.([/\\]|$)")


class Directory:
    """The files below a directory on disk: `names` sorted, `folders`, and `notes` about what was left out.

    Links are followed, and each folder is visited once. Raises DataError for a folder that may not be read.
    """

    def __init__(self, path: Path):
        self.path = path
        self.notes: list[str] = []
        self.folders: list[str] = []
        self._paths: dict[str, str] = {}
        visited = set()
        for parent, folders, files in os.walk(path, onerror=self._refuse, followlinks=True):
            if os.path.realpath(parent) in visited:  # a link that leads back up: do not walk in circles
                folders.clear()
                continue
            visited.add(os.path.realpath(parent))
            prefix = Path(parent).relative_to(path).as_posix() + "/"
            self.folders += [tidy(prefix + folder) for folder in folders]
            for file in files:
                name, place = tidy(prefix + file), os.path.join(parent, file)
                if not os.path.isfile(place):
                    self.notes.append(f"{name} {NOT_A_FILE}")
                elif name in self._paths:
                    self.notes.append(f"{name} is there twice, in two spellings of Unicode, and one was left out.")
                else:
                    self._paths[name] = place
        self.names = sorted(self._paths)

    def contents(self, names: Collection[str]) -> Iterator[tuple[str, bytes | OSError]]:
        """Yield (name, content) for each of `names`; a file that the system will not read gives its OSError."""
        for name in names:
            try:
                _refuse_huge(os.path.getsize(self._paths[name]))
                yield name, Path(self._paths[name]).read_bytes()
            except OSError as error:
                yield name, error

    def _refuse(self, error: OSError) -> None:
        raise DataError(f"The folder {printable(error.filename)} cannot be read: {error.strerror}.") from error


class TarArchive:
    """The files in a .tar, .tar.gz or .tgz: `names` sorted, `folders`, and `notes` about what was left out.

    Raises DataError for a damaged archive, and for one with a name that would escape when it is unpacked.
    """

    def __init__(self, path: Path):
        self.path = path
        self.notes: list[str] = []
        self.folders: list[str] = []
        self._places: dict[str, tuple[int, int]] = {}  # where each file begins, and how many bytes it has
        for member in self._members():
            name = self._safe_name(member.name)
            if member.isdir():
                self.folders.append(name)
            elif member.isreg() and not member.issparse():
                # A name that comes twice: the later one counts, as when unpacking.
                self._places[name] = member.offset_data, member.size
            else:
                self.notes.append(f"{name} {NOT_A_FILE}")
        self.names = sorted(self._places)

    def contents(self, names: Collection[str]) -> Iterator[tuple[str, bytes | OSError]]:
        """Yield (name, content) for each of `names`, in the order in which they lie in the archive.

        A compressed archive can only be read forwards: in order of name it would be decompressed again and again.
        """
        with self._open() as archive:
            for name in sorted(names, key=self._places.__getitem__):
                start, length = self._places[name]
                try:
                    _refuse_huge(length)
                except OSError as error:
                    yield name, error
                    continue
                archive.fileobj.seek(start)
                yield name, archive.fileobj.read(length)

    def _members(self) -> Iterator[tarfile.TarInfo]:
        with self._open() as archive:
            yield from archive
            # tarfile takes a damaged or missing header for the end. The true end is a block of zeros.
            archive.fileobj.seek(archive.offset)
            if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                raise tarfile.ReadError("it stops before its end mark")

    @contextmanager
    def _open(self) -> Iterator[tarfile.TarFile]:
        try:
            with tarfile.open(self.path, "r:*", encoding="utf-8") as archive:
                yield archive
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            reason = str(error).partition(":\n")[0]  # tarfile lists every kind of archive that it is not
            raise DataError(
                f"{self.path} cannot be read as a tar archive ({reason}). If it is damaged or was cut off, get it "
                "again; a folder with the pictures works too."
            ) from error

    def _safe_name(self, name: str) -> str:
        if ESCAPING.search(name):
            raise DataError(
                f"{self.path} has a member named {tidy(name)!r}, which leads out of the archive. No honest collection "
                "of pictures needs that: do not unpack it, and get one from a source that you trust."
            )
        return tidy(name)


def path_of(given: str | Path) -> Path:
    """Return a path with "~" spelt out. Raises DataError for what is no path."""
    if not isinstance(given, str | Path):
        raise DataError(f"A path is a text or a pathlib.Path, such as 'pictures'; got {given!r}.")
    return Path(os.path.expanduser(given))


def tidy(name: str) -> str:
    """Return a name that can be compared and shown: no "./", composed Unicode, nothing that is not printable."""
    return printable("/".join(part for part in name.split("/") if part not in ("", ".")))


def printable(name: str) -> str:
    r"""Return a name in composed Unicode, with "\x1b" for a control character, "\udcff" for a byte that is no text."""
    text = name.encode("utf-8", "backslashreplace").decode("utf-8")
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda found: rf"\x{ord(found[0]):02x}", unicodedata.normalize("NFC", text))


def _refuse_huge(length: int) -> None:
    if length > LARGEST_FILE:
        raise OSError(errno.EFBIG, f"{length / 1e6:,.0f} MB are too many for a picture")
