"""Worker processes: how they start, what can be sent to them, and what their errors say.

Linux forks: the worker is a copy of this process and knows everything in it. Windows and macOS spawn: the worker is a
new Python, which is sent the data set and must be able to import every class and function that this is made of.
"""

import contextlib
import multiprocessing
import pickle
import re
import signal
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FunctionType

import numpy
import torch
from torch import Tensor

import labkit
from labkit.errors import DataError, LabkitError

LIBRARIES = (str(Path(labkit.__file__).parent), sysconfig.get_path("stdlib"), "site-packages", "dist-packages")
FRAME = re.compile(
    r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<where>.+)\n(?:    (?P<code>.+)\n)?', re.MULTILINE
)


def start_method_of(name: str | None) -> str:
    """Return how workers start here: `name`, or what the system does of its own. Raises DataError for another name."""
    known = multiprocessing.get_all_start_methods()
    if name is not None and name not in known:
        raise DataError(f"start_method={name!r}: this system knows {', '.join(map(repr, known))}, or None to choose.")
    return multiprocessing.get_context(name).get_start_method()


def check_travels(batches: object, name: str, start_method: str) -> None:
    """Make sure that workers which start in this way can be given `batches`. Raises DataError with the way out if not.

    name: what a message shall call the data.
    """
    if start_method == "fork":
        return
    journey, reason = _Journey(), None
    try:
        journey.dump(batches)
    except Exception as error:  # what is pickled may raise anything
        reason = error
    if journey.homeless:
        written = journey.homeless[0]
        raise DataError(
            f"{written} was written in a notebook cell, and worker processes that start anew ({start_method}) cannot "
            f"import it from there. Put it into a file (%%writefile my_data.py as the first line of its cell, then "
            f"from my_data import {written}), or use num_workers=0."
        )
    if journey.has_generator:
        raise DataError(
            f"{name} keeps a torch.Generator, which cannot be sent to worker processes that start anew "
            f"({start_method}). Draw without it, as in torch.rand(2): this loader seeds torch's own generator for each "
            "sample. Or use num_workers=0."
        )
    if reason is not None:
        raise DataError(
            f"{name} cannot be sent to worker processes, which start anew here ({start_method}): {reason}. Let it keep "
            "no lambda, open file or function inside a function: make those in __getitem__. Or use num_workers=0."
        )


class _Journey(pickle.Pickler):
    """Pickles to nowhere, and notes what a new process cannot be given, though it can be pickled.

    homeless: the classes and functions that it would find in no file. has_generator: whether there is a generator of
    torch, whose state is shared memory that is gone (torch 2.14) before the new process has opened it.
    """

    def __init__(self) -> None:
        super().__init__(self, protocol=pickle.HIGHEST_PROTOCOL)
        self.homeless: list[str] = []
        self.has_generator = False
        self._no_file = not hasattr(sys.modules["__main__"], "__file__")

    def write(self, content: bytes) -> None:
        """Take what the pickler writes, and forget it."""

    def reducer_override(self, thing: object) -> object:
        """Note what does not travel; leave out arrays, which always travel and may be large."""
        if isinstance(thing, Tensor | numpy.ndarray):
            return int, ()
        if self._no_file and isinstance(thing, type | FunctionType) and thing.__module__ == "__main__":
            self.homeless.append(thing.__qualname__)
        self.has_generator |= isinstance(thing, torch.Generator)
        return NotImplemented


def prepare(worker: int) -> None:
    """Let a worker ignore Ctrl-C, which reaches every process of a terminal: the main one decides when to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def explained(batches: Iterable) -> Iterator:
    """Pass on what workers make, and let their errors say what happened, at which line, and what helps."""
    try:
        yield from batches
    except Exception as error:
        text = str(error)
        if isinstance(error, RuntimeError) and "bootstrapping phase" in text:
            raise DataError(
                "A worker process started this program once more, and the program went on to start workers of its "
                'own. Put everything that shall run only once under if __name__ == "__main__":'
            ) from None
        is_cut_off = isinstance(error, ConnectionError | EOFError) and "Original Traceback" not in text
        if is_cut_off or text.startswith("DataLoader worker"):
            if is_cut_off:
                _await_the_signal()
            raise DataError(
                "A process that prepares batches has ended. If an error is printed above, that is the reason; "
                "otherwise it was ended from outside, most often for want of memory. Use a smaller num_workers; with "
                "num_workers=0 an error of the data set shows its place."
            ) from error
        if "Original Traceback" in text:
            _tell_first_what_matters(error)
        raise


def _await_the_signal() -> None:
    """Let torch's own report of the dead worker come now: it is raised from a signal, wherever the program is then."""
    with contextlib.suppress(RuntimeError):
        time.sleep(1)


def worker_error(error: Exception) -> str:
    """Return an error of a DataLoader's worker in short: its type and message, then the line that it came from.

    error: what iterating over a torch DataLoader with workers raised. The line is the last one that belongs to no
    library. An error of this process itself gives its type and message.
    """
    kind, message, place, _ = _parts(error)
    return f"{kind}: {message}" + (f"\n  {place}" if place else "")


def _tell_first_what_matters(error: Exception) -> None:
    """Put the message of a worker's error first and the line it came from second, before the long traceback."""
    kind, message, place, text = _parts(error)
    if isinstance(error, LabkitError):
        error.args = (message,)
        return
    if type(error).__name__ != kind:  # torch raises RuntimeError for errors that it cannot make again
        message = f"{kind}: {message}"
    error.args = (_Plain(f"{message}\n  {place}\n\nAll of it, as the worker process saw it:\n{text}"),)


def _parts(error: Exception) -> tuple[str, str, str, str]:
    """Return (type, message, the line it came from, the worker's traceback) of an error out of a worker."""
    text = str(error)
    found = re.match(r"Caught (\w+) in .*\nOriginal (?=Traceback)", text)
    if not found:
        return type(error).__name__, text, "", ""
    text = text[found.end() :]
    last = text.rpartition("Traceback (most recent call last):\n")[2]
    message = re.search(r"^\S.*", last, re.MULTILINE | re.DOTALL)
    message = message[0].strip().partition(": ")[2] if message else ""
    frames = list(FRAME.finditer(last))
    own = [frame for frame in frames if not any(library in frame["file"] for library in LIBRARIES)]
    return found[1], message, _place((own or frames)[-1]) if frames else "", text


def _place(frame: re.Match) -> str:
    file = "a notebook cell" if "ipykernel" in frame["file"] else Path(frame["file"]).name
    code = f": {frame['code']}" if frame["code"] else ""
    return f"{file}, line {frame['line']}, in {frame['where']}{code}"


class _Plain(str):
    """A text that stays as it is where an error would show its quotes: KeyError does."""

    def __repr__(self) -> str:
        return self
