"""What a learner has done, in one readable JSON file on this computer. Nothing sends it anywhere.

The file holds names of chapters and exercises with counts of outcomes, the known wrong ideas that were met, hints and
solutions looked at, choices in predictions, claims and cases, and the types of errors. It holds no code, no answer, no
time of day, and no name unless the learner gave one. Counts only grow, so what was right once stays right.
"""

import errno
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from filelock import FileLock

from labkit.durable import write_durably
from labkit.errors import LabkitError

SCHEMA = 1
LOCK_SECONDS = 5  # a writer takes milliseconds; whoever holds the lock longer is stopped, not busy

_MORE_THAN_ANYBODY = 2**53  # no learner counts that far, and every program can read what is below
_ANY = "*"  # in LAYOUT: whatever the key is called
_ANSWER = {"first": str, "right_at_once": bool, "is_right": bool}
LAYOUT = {
    "schema": int,
    "name": str,
    "chapters": {
        _ANY: {
            "opened": int,
            "exercises": {
                _ANY: {"checks": {_ANY: int}, "misconceptions": {_ANY: int}, "hint": int, "solution": bool},
            },
            "predictions": {_ANY: _ANSWER},
            "errors": {_ANY: int},
        },
    },
    "claims": {_ANY: _ANSWER},
    "clinic": {_ANY: _ANSWER},
}

#: What could not be written yet, by file; it is written together with what comes next.
_waiting: defaultdict[Path, list[Callable[[dict], None]]] = defaultdict(list)
_already_said: set[str] = set()


def place() -> Path | None:
    """Return the file that progress is kept in, or None when recording is off.

    The variable LABKIT_PROGRESS names another file than ~/.labkit/progress.json, or says "off".
    """
    chosen = os.environ.get("LABKIT_PROGRESS", "").strip()
    if chosen.lower() == "off":
        return None
    return Path(chosen or "~/.labkit/progress.json").expanduser().resolve()  # a link goes on leading to its file


def read(path: Path | None = None) -> dict:
    """Return the learner's progress, or that of another file, laid out as LAYOUT.

    Where nothing is recorded yet it is empty. A damaged file of the learner is kept aside, and a new one begins. Raises
    LabkitError for what cannot be opened or is no file, and for another file that is missing or damaged.
    """
    try:
        if path is not None:
            return _parse(Path(path))
        own = place()
        return _read_own(own) if own is not None and own.exists() else _empty()
    except (OSError, RuntimeError, ValueError) as error:
        raise LabkitError(f"This progress cannot be read: {_reason(error)}.") from error


def record_check(chapter: str, exercise: str, outcome: str, misconception: str | None = None) -> None:
    """Note the outcome of a check, and which known wrong idea it showed. What was not attempted is not noted."""
    if outcome == "not attempted":
        return

    def change(progress: dict) -> None:
        entry = _entry(progress, chapter, "exercises", exercise)
        _count(entry.setdefault("checks", {}), outcome)
        if misconception is not None:
            _count(entry.setdefault("misconceptions", {}), misconception)

    _record(change)


def record_hint(chapter: str, exercise: str, level: int) -> None:
    """Note that a hint was looked at; the strongest one is kept."""

    def change(progress: dict) -> None:
        entry = _entry(progress, chapter, "exercises", exercise)
        entry["hint"] = max(level, entry.get("hint", 0))

    _record(change)


def record_solution(chapter: str, exercise: str) -> None:
    """Note that the solution was looked at."""
    _record(lambda progress: _entry(progress, chapter, "exercises", exercise).update(solution=True))


def record_prediction(chapter: str, name: str, guess: str, is_right: bool) -> None:
    """Note a prediction. The first one counts: whoever has seen the result no longer predicts."""
    _record(lambda progress: _answer(_entry(progress, chapter, "predictions", name), guess, is_right))


def record_claim(claim_id: str, choice: str, is_right: bool) -> None:
    """Note a choice in the claim quiz: the first one, and whether the claim was judged rightly at some time."""
    _record(lambda progress: _answer(progress.setdefault("claims", {}).setdefault(claim_id, {}), choice, is_right))


def record_case(name: str, fault: str, is_right: bool) -> None:
    """Note which fault was named in a case of the clinic: the first one, and whether it was solved at some time."""
    _record(lambda progress: _answer(progress.setdefault("clinic", {}).setdefault(name, {}), fault, is_right))


def record_error(chapter: str, error_type: str) -> None:
    """Note that a cell of the chapter ended with an error of this type; neither its text nor the code is kept."""
    _record(lambda progress: _count(_chapter(progress, chapter).setdefault("errors", {}), error_type))


def record_opened(chapter: str) -> None:
    """Note that the chapter was opened in a fresh kernel."""
    _record(lambda progress: _count(_chapter(progress, chapter), "opened"))


def record_name(name: str) -> None:
    """Keep the learner's name in the file; an empty one takes it out again."""
    _record(lambda progress: progress.update(name=name))


def _record(change: Callable[[dict], None]) -> None:
    """Apply a change to the learner's file. A disk that refuses is named once, and the lesson goes on."""
    try:
        own = place()
        if own is None:
            return
        waiting = _waiting[own]
        waiting.append(change)
        own.parent.mkdir(parents=True, exist_ok=True)
        with _lock(own):
            progress, taken = _load_or_begin(own), list(waiting)  # another thread may have written this one already
            for each in taken:
                each(progress)
            text = json.dumps(progress, indent=2, ensure_ascii=False)
            write_durably(own, f"{text}\n".encode(errors="backslashreplace"))  # half a pair of UTF-16 is \\ud800
            del waiting[: len(taken)]
    except (OSError, RuntimeError, ValueError) as error:  # no home folder is a RuntimeError, a null byte a ValueError
        _say_once(
            f"your progress cannot be saved ({_reason(error)}). The lesson goes on without; the variable "
            "LABKIT_PROGRESS can name another file, or say off."
        )


def _lock(own: Path) -> AbstractContextManager:
    """Take the lock that every reader and writer of the file holds. The system frees it when its holder dies."""
    _need_a_file(own)
    # Asking often matters: beside a busy writer, one who asks every 50 ms (the default) may never find the lock free.
    return FileLock(own.with_name(own.name + ".lock")).acquire(timeout=LOCK_SECONDS, poll_interval=0.005)


def _read_own(own: Path) -> dict:
    try:
        with _lock(own):  # on Windows a file that is being read cannot be replaced, so readers wait too
            return _load_or_begin(own)
    except PermissionError:  # a folder in which nothing can be written, not even a lock
        return _parse(own)


def _load_or_begin(own: Path) -> dict:
    """Return the content of the learner's file, empty if there is none; move a damaged one aside. Holds the lock."""
    if not own.exists():
        return _empty()
    try:
        return _parse(own)
    except LabkitError as error:
        numbers = range(1, 1000)
        aside = next(free for n in numbers if not (free := own.with_name(f"{own.stem}.damaged-{n}.json")).exists())
        os.replace(own, aside)
        print(f"labkit: {error} It is kept as {aside.name}, and a new file begins.", file=sys.stderr)
        return _empty()


def _need_a_file(path: Path) -> None:
    """Raise OSError for a folder, and for a device or pipe, which must be neither read to its end nor replaced."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "Not a file", str(path))


def _parse(path: Path) -> dict:
    _need_a_file(path)
    try:
        progress = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise LabkitError(f"{path} is damaged: it is not JSON.") from error
    if not _fits(progress, LAYOUT) or progress.get("schema") != SCHEMA:
        raise LabkitError(f"{path} is not a progress file that this labkit knows.")
    return _empty() | progress


def _fits(value: Any, layout: Any) -> bool:
    """Tell whether a value has the types of a layout. Keys may be absent, and keys that are not in it hold anything."""
    if layout is int:
        return type(value) is int and 0 <= value < _MORE_THAN_ANYBODY
    if isinstance(layout, type) or not isinstance(value, dict):
        return isinstance(layout, type) and isinstance(value, layout)
    return all(_fits(part, layout.get(key, layout.get(_ANY, object))) for key, part in value.items())


def _empty() -> dict:
    return {"schema": SCHEMA, "name": "", "chapters": {}, "claims": {}}


def _chapter(progress: dict, chapter: str) -> dict:
    return progress["chapters"].setdefault(chapter, {})


def _entry(progress: dict, chapter: str, kind: str, name: str) -> dict:
    return _chapter(progress, chapter).setdefault(kind, {}).setdefault(name, {})


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _answer(entry: dict, choice: str, is_right: bool) -> None:
    entry.setdefault("first", str(choice))
    entry.setdefault("right_at_once", bool(is_right))
    entry["is_right"] = bool(is_right) or entry.get("is_right", False)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error).rstrip(".")


def _say_once(sentence: str) -> None:
    if sentence not in _already_said:
        _already_said.add(sentence)
        print(f"labkit: {sentence}", file=sys.stderr)
