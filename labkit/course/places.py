"""Where the course lies on disk, and which chapters it has."""

from dataclasses import dataclass
from pathlib import Path

from labkit.errors import LabkitError


@dataclass(frozen=True)
class Chapter:
    """One chapter: the text that people edit, and the executed notebook that is made from it."""

    source: Path
    notebook: Path

    @property
    def name(self) -> str:
        """The file name without its ending, such as "05_training_loop"."""
        return self.source.stem


def find_course(start: Path | None = None) -> Path:
    """Return the folder that holds `notebooks/source`: `start` (the current folder) or one above it, else labkit's own.

    Raises LabkitError where there is none, as after installing labkit without the course.
    """
    start = (start or Path.cwd()).resolve()
    beside_labkit = Path(__file__).resolve().parents[2]
    for folder in (start, *start.parents, beside_labkit):
        if (folder / "notebooks" / "source").is_dir():
            return folder
    raise LabkitError(
        f"There is no folder notebooks/source in {start} or above it. Run this in the folder of the course."
    )


def chapters(root: Path, names: tuple[str, ...] = ()) -> list[Chapter]:
    """Return the chapters under `root` in order: all of them, or those that `names` say. A chapter's file has a number.

    A name is a number ("05"), a chapter ("05_training_loop") or one of its files. Raises LabkitError for a name that
    fits no chapter.
    """
    folder = root / "notebooks"
    found = [
        Chapter(path, folder / f"{path.stem}.ipynb") for path in sorted((folder / "source").glob("[0-9][0-9]_*.py"))
    ]
    if not names:
        return found
    chosen = []
    for name in names:
        matching = [chapter for chapter in found if _fits(chapter, Path(name).stem)]
        if not matching:
            known = ", ".join(chapter.name for chapter in found)
            raise LabkitError(f"There is no chapter {name!r}. The chapters are: {known}.")
        chosen += [chapter for chapter in matching if chapter not in chosen]
    return chosen


def _fits(chapter: Chapter, name: str) -> bool:
    return chapter.name == name or chapter.name.split("_")[0] == name
