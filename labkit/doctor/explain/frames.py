"""The lines that an error came through, and which of them are the user's own."""

import contextlib
import dis
import linecache
import re
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Place:
    """A line that an error came through.

    frame: where its variables are, None if it ran in another process or was compiled; known: the variables that were
    found all the same. position: (line, end line, column, end column) of the expression that failed, columns in bytes
    of UTF-8, None where Python does not tell. is_raise: whether the line raised the error by `raise` or `assert`.
    """

    file: str
    line: int
    function: str
    frame: FrameType | None = None
    position: tuple[int, int, int, int] | None = None
    is_raise: bool = False
    known: Mapping[str, object] = field(default_factory=dict)

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
    def variables(self) -> Mapping[str, object]:
        """The local variables."""
        return self.frame.f_locals if self.frame else self.known

    @property
    def global_variables(self) -> Mapping[str, object]:
        """The variables of the module, or of the notebook."""
        return self.frame.f_globals if self.frame else {}

    @property
    def lines(self) -> list[str]:
        """The lines of its file or cell, none where they are not known."""
        return linecache.getlines(self.file, self.frame and self.frame.f_globals)


@dataclass(frozen=True)
class Raised:
    """One error: the name of its type, its text, and the places it came through, the outermost first.

    where: "DataLoader worker process 0" or "a compiled module" if it is from there, else "". outside: the places in
    this process that led there.
    """

    type: str
    text: str
    places: tuple[Place, ...]
    where: str = ""
    outside: tuple[Place, ...] = ()

    @property
    def user_place(self) -> Place | None:
        """The last line that is the user's own: the one to look at."""
        return next((place for place in (*reversed(self.places), *reversed(self.outside)) if place.is_of_user), None)

    @property
    def library_places(self) -> tuple[Place, ...]:
        """The lines of libraries that came after the last line of the user's."""
        own = [number for number, place in enumerate(self.places) if place.is_of_user]
        return self.places[own[-1] + 1 :] if own else self.places

    @property
    def is_users_own(self) -> bool:
        """Whether a `raise` or an `assert` of the user made it, so that its text is the user's."""
        return bool(self.places) and self.places[-1].is_of_user and self.places[-1].is_raise


def chain_of(error: BaseException) -> Iterator[Raised]:
    """Yield what is known of an error, then of the errors behind it: those it was raised from or in place of."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        raised = Raised(type(error).__name__, str(error), tuple(places_of(error.__traceback__)))
        yield raised
        behind = error.__cause__
        if behind is None and not error.__suppress_context__ and raised.is_users_own:
            behind = error.__context__  # the user raised it on purpose while the other one was handled
        error = behind


def places_of(trace: TracebackType | None) -> Iterator[Place]:
    """Yield the places of a traceback."""
    while trace is not None:
        frame, code = trace.tb_frame, trace.tb_frame.f_code
        is_raise = trace.tb_lasti >= 0 and dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"
        position = _position(code, trace.tb_lasti)
        yield Place(code.co_filename, trace.tb_lineno or 0, code.co_name, frame, position, is_raise)
        trace = trace.tb_next


def places_above(frame: FrameType | None) -> Iterator[Place]:
    """Yield the places of a frame and of those that called it, the outermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    for one in reversed(frames):
        code = one.f_code
        yield Place(code.co_filename, one.f_lineno or 0, code.co_name, one, _position(code, one.f_lasti))


def _position(code: CodeType, instruction: int) -> tuple[int, int, int, int] | None:
    """Return where in the source an instruction comes from; Python 3.10 knows only the line."""
    if instruction < 0 or not hasattr(code, "co_positions"):
        return None
    for number, position in enumerate(code.co_positions()):
        if number == instruction // 2:
            return position if None not in position else None
    return None
