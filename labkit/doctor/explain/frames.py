"""The lines that an error came through, and which of them are the user's own: also in workers and compiled modules."""

import contextlib
import dis
import linecache
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, TracebackType

import torch

import labkit

_LIBRARIES = tuple(
    str(Path(folder).resolve())
    for folder in (
        *{sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")},
        Path(torch.__file__).parent,
        Path(labkit.__file__).parent,
    )
)
_NOT_WRITTEN = re.compile(r"torchinductor_|[/\\](site|dist)-packages[/\\]|^<(frozen|eval_with_key|__array|attrs)")
_FRAME_IN_TEXT = re.compile(r'^ *File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_ERROR_IN_TEXT = re.compile(
    r"^(?P<type>[A-Za-z_][\w.]*)(: (?P<text>.*))?", re.MULTILINE | re.DOTALL
)  # no space before it
_FROM_ELSEWHERE = re.compile(
    r"^(Caught (?P<type>[\w.]+) in (?P<where>.+)\.\nOriginal |.*Process (?P<number>\d+) terminated.*\n)"
    r"Traceback \(most recent call last\):\n",
    re.DOTALL,
)


@dataclass(frozen=True)
class Place:
    """A line that an error came through.

    frame: where its variables are, None if it ran in another process. position: (line, end line, column, end column)
    of the expression that failed, columns in bytes of UTF-8, None where Python does not tell.
    """

    file: str
    line: int
    function: str
    frame: FrameType | None = None
    position: tuple[int, int, int, int] | None = None
    is_raise: bool = False

    @property
    def is_of_user(self) -> bool:
        """Whether the user wrote it: it is in no library and was not generated."""
        if _NOT_WRITTEN.search(self.file):
            return False
        if self.file.startswith("<"):
            return True
        with contextlib.suppress(OSError):
            return not str(Path(self.file).resolve()).startswith(_LIBRARIES)
        return True

    @property
    def text(self) -> str:
        """The line itself, "" where it is not known."""
        return linecache.getline(self.file, self.line, self.frame and self.frame.f_globals).strip()


@dataclass(frozen=True)
class Raised:
    """One error: the name of its type, its text, and the places it came through, the outermost first.

    where: "DataLoader worker process 0" if another process raised it, "" for this one.
    """

    type: str
    text: str
    places: tuple[Place, ...]
    where: str = ""

    @property
    def user_place(self) -> Place | None:
        """The last line that is the user's own: the one to look at."""
        return next((place for place in reversed(self.places) if place.is_of_user), None)

    @property
    def library_places(self) -> tuple[Place, ...]:
        """The lines of libraries that came after the last line of the user's."""
        own = [number for number, place in enumerate(self.places) if place.is_of_user]
        return self.places[own[-1] + 1 :] if own else self.places

    @property
    def is_users_own(self) -> bool:
        """Whether a `raise` or an `assert` of the user made it, so that its text is the user's."""
        return bool(self.places) and self.places[-1].is_of_user and self.places[-1].is_raise


def raised_by(error: BaseException) -> Iterator[Raised]:
    """Yield what is known of an error, then of the errors behind it: those it was raised from or in place of."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        here = Raised(type(error).__name__, str(error), tuple(_places(error.__traceback__)))
        yield _from_elsewhere(here) or here
        behind = error.__cause__
        if behind is None and not error.__suppress_context__ and here.is_users_own:
            behind = error.__context__  # raised on purpose while the other one was handled
        error = behind


def _places(trace: TracebackType | None) -> Iterator[Place]:
    while trace is not None:
        frame, code = trace.tb_frame, trace.tb_frame.f_code
        is_raise = dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS" if trace.tb_lasti >= 0 else False
        position = _position(code, trace.tb_lasti)
        yield Place(code.co_filename, trace.tb_lineno or 0, code.co_name, frame, position, is_raise)
        trace = trace.tb_next


def _position(code: CodeType, instruction: int) -> tuple[int, int, int, int] | None:
    """Return where in the source an instruction comes from; Python 3.10 knows only the line."""
    if instruction < 0 or not hasattr(code, "co_positions"):
        return None
    for number, position in enumerate(code.co_positions()):
        if number == instruction // 2:
            return position if None not in position else None
    return None


def _from_elsewhere(here: Raised) -> Raised | None:
    """Return the error that another process met and sent as text, None if this is none of that kind."""
    match = _FROM_ELSEWHERE.match(here.text.lstrip("\n- "))
    if not match:
        return None
    text = here.text.lstrip("\n- ")[match.end() :]
    end = max((frame.end() for frame in _FRAME_IN_TEXT.finditer(text)), default=0)
    found = _ERROR_IN_TEXT.search(text, end)
    if not found:
        return None
    where = match["where"] or f"process {match['number']}"
    return Raised(found["type"].rpartition(".")[2], (found["text"] or "").strip(), tuple(places_in(text)), where)


def places_in(text: str) -> Iterator[Place]:
    """Yield the places that the text of a traceback names."""
    for match in _FRAME_IN_TEXT.finditer(text):
        place = Place(match["file"], int(match["line"]), match["function"])
        is_raise = place.text.startswith(("raise ", "assert "))
        yield Place(place.file, place.line, place.function, is_raise=is_raise)
