"""Downloads that are complete or absent, with a time limit, and with the reason in words where they fail."""

import contextlib
import errno
import http.client
import io
import re
import shutil
import socket
import sys
import tarfile
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError

SILENCE = 30.0  # seconds without a byte after which a download counts as failed


class DownloadFailed(Exception):
    """A download did not succeed and has left nothing. Its text is the reason, as the end of a sentence."""


def fetch(dataset: type, folder: str, archive_folder: str, cache: Path, search_folders: list[Path], title: str) -> None:
    """Let a torchvision data set download itself, so that `cache / folder` holds it, checked and complete.

    All happens in a folder of its own within the cache; only when the data are complete they move to their place. What
    a killed process leaves behind is therefore never taken for the data. Archives that somebody has put into
    `archive_folder` below one of the `search_folders` by hand save the download, if their checksum is right.
    Raises DownloadFailed.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".unfinished-", dir=cache, ignore_cleanup_errors=True) as unfinished:
            for place in search_folders:
                _take_good_archives(dataset, place / archive_folder, Path(unfinished, archive_folder))
            with _watched(f"fetching {title} into {cache}"):
                dataset(unfinished, train=False, download=True)
            _move(Path(unfinished, folder), cache / folder)
    except (OSError, RuntimeError, EOFError, tarfile.TarError, zlib.error, http.client.HTTPException) as error:
        raise DownloadFailed(_reason(error)) from error


def archives(dataset: type) -> dict[str, str]:
    """Return the official files of a torchvision data set, with their MD5 checksums."""
    return dict(dataset.resources) if hasattr(dataset, "resources") else {dataset.filename: dataset.tgz_md5}


def _take_good_archives(dataset: type, source: Path, target: Path) -> None:
    from torchvision.datasets.utils import check_integrity

    for file, checksum in archives(dataset).items():
        if check_integrity(source / file, checksum) and not (target / file).exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / file, target / file)


def _move(source: Path, target: Path) -> None:
    """Put a complete folder in the place of an incomplete one, or of none."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.replace(target)


@contextlib.contextmanager
def _watched(message: str) -> Iterator[None]:
    """Let no download hang, nor run in silence: torchvision's bar on a terminal, elsewhere one line."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")  # Python's about how torchvision unpacks
            if sys.stderr is not None and not sys.stderr.isatty():
                print(message, file=sys.stderr, flush=True)
                stack.enter_context(contextlib.redirect_stderr(io.StringIO()))  # a bar would flood a notebook
            yield
    finally:
        socket.setdefaulttimeout(before)


def _reason(error: Exception) -> str:
    """Say in a few words why a download failed. torchvision packs most causes into the text of a RuntimeError."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "the disk is full"
    if answer := re.search(r"HTTP Error (\d+: [\w ]+)", text):
        return f"the server answered {answer[1].strip()}"
    if "corrupted" in text:
        return "what arrived does not have the right checksum"
    if isinstance(error, (URLError, TimeoutError, ConnectionError)) or "urlopen error" in text:
        cause = re.search(r"urlopen error (?:\[Errno -?\d+\] )?([^>]+)>", text)
        return f"there is no connection ({cause[1] if cause else text})"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename} cannot be written ({error.strerror})"
    return text
