"""Chapter 06, fourth part: a file that is whole at every moment."""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise

#: When the content may be forced to the disk, from best to worst.
_MOMENTS = ("all of it, before it got the name", "all of it, under the name already", "not all of it", "nothing")


class _Camera:
    """Looks at a file after every call that Python makes into the system: what a kill at that moment would leave.

    seen: what stood under the name, in words. forced: what was forced to the disk, and when, at the best moment.
    """

    def __init__(self, path: Path, old: bytes | None, new: bytes) -> None:
        self.path, self.old, self.new = path, old, new
        self.seen: set[str] = set()
        self.forced = "nothing"

    def __enter__(self) -> "_Camera":
        self._look()
        self._before = sys.getprofile()
        sys.setprofile(self._watch)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(self._before)
        self._look()

    def _watch(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and getattr(argument, "__name__", "") in ("fsync", "fdatasync", "sync"):
            self._note_what_is_forced()
        if event in ("c_return", "c_exception"):
            self._look()

    def _note_what_is_forced(self) -> None:
        others = [file.read_bytes() for file in self.path.parent.iterdir() if file != self.path]
        if self.found() == "the new content":
            moment = "all of it, under the name already"
        else:
            moment = "all of it, before it got the name" if self.new in others else "not all of it"
        self.forced = min(self.forced, moment, key=_MOMENTS.index)

    def _look(self) -> None:
        self.seen.add(self.found())

    def found(self) -> str:
        """Say what stands under the name."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return "no file"
        return {self.old: "the old content", self.new: "the new content"}.get(content, "a part")


def run_saving(answer: Any, old: bytes | None, new: bytes) -> Any:
    """Save into a folder of its own, under a camera; `old` is what stands there before, None where nothing does."""
    families.need_function(answer)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "last.pt"
        if old is not None:
            path.write_bytes(old)
        with _Camera(path, old, new) as camera:
            result = answer(path, new)
        if result is ... and camera.seen == {"no file" if old is None else "the old content"}:
            return ...
        return {
            "under the name at some moment": sorted(camera.seen),
            "under the name in the end": camera.found(),
            "forced to the disk": camera.forced,
            "other files in the end": sorted(file.name for file in path.parent.iterdir() if file != path),
        }


def _written(path: Path, content: bytes, flush: bool = True, sync: bool = True) -> Path:
    """Write a temporary file beside `path` and return it."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        if flush:
            file.flush()
        if sync:
            os.fsync(file.fileno())
    return temporary


def _old_away_first(path: Path, content: bytes) -> None:
    temporary = _written(path, content)
    path.unlink(missing_ok=True)
    temporary.rename(path)


def _copied(path: Path, content: bytes) -> None:
    temporary = _written(path, content)
    shutil.copyfile(temporary, path)
    temporary.unlink()


def _forced_afterwards(path: Path, content: bytes) -> None:
    os.replace(_written(path, content, sync=False), path)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _over_the_old(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


SAVE_ATOMICALLY = Exercise(
    name="save_atomically",
    prompt="Write `content` (bytes) into the file `path` (a `pathlib.Path`), so that whoever looks under that name "
    "finds, at *every* moment, either the old content or the new one, whole. The check looks after each call into the "
    "system, as a kill would. Before the new content gets the name it is complete, and forced to the disk with "
    "`os.fsync`. No other file is left.",
    stub='''def save_atomically(path, content):
    """Replace the content of a file; a kill at any moment leaves the old or the new content, whole."""
    return ...  # your turn''',
    solved='''import os


def save_atomically(path, content):
    """Replace the content of a file; a kill at any moment leaves the old or the new content, whole."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)''',
    hints=(
        "Write under another name first, in the same folder. Then give the file its name, in one step.",
        "`os.replace(temporary, path)` is that step: the old content is under the name until the new is.",
        "What you write waits in Python's buffer, then in the system's. `file.flush()` empties the first, "
        "`os.fsync(file.fileno())` the second.",
    ),
    cases=lambda generator: [(b"the weights of epoch 1", b"the weights of epoch 2"), (None, b"the first weights")],
    run=run_saving,
    praise="Pull the plug when you like.",
    misconceptions=(
        Misconception(
            "over the old file",
            _over_the_old,
            "`open(path, 'wb')` empties the file before you have written anything. From then until the end there is "
            "neither the old nor the new: a kill in between costs both. `torch.save(state, path)` does just that.",
        ),
        Misconception(
            "the old one away first",
            _old_away_first,
            "Between `unlink` and `rename` nothing stands under the name. It is a short moment, and one day a kill "
            "falls into it. `os.replace` does both in one step, on Windows too.",
        ),
        Misconception(
            "copied instead of renamed",
            _copied,
            "A copy is written into the place byte by byte, just as the first file was: the name has a part of it "
            "meanwhile. Renaming moves no byte.",
        ),
        Misconception(
            "not forced to the disk",
            lambda path, content: os.replace(_written(path, content, sync=False), path),
            "A kill leaves no half file here, a power cut may: the system writes when it likes, and often the new name "
            "before the bytes. `os.fsync` waits until they are there.",
        ),
        Misconception(
            "forced before it was flushed",
            lambda path, content: os.replace(_written(path, content, flush=False), path),
            "`os.fsync` forces out what the *system* has. Your bytes were still in Python's own buffer, so it forced "
            "an empty file. `file.flush()` comes first.",
        ),
        Misconception(
            "forced after it got the name",
            _forced_afterwards,
            "For a moment the name belongs to a file whose bytes may not be on the disk. First the bytes, then the "
            "name.",
        ),
    ),
)
