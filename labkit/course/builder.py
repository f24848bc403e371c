"""Build the chapters: read the text, execute it as a notebook, store it if anything changed."""

import hashlib
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from labkit.course import execution
from labkit.course.compare import difference, is_unchanged, text_difference
from labkit.course.execution import OnCell
from labkit.course.expansion import declared, learners_cells, read_cells
from labkit.course.places import Chapter
from labkit.course.rules import problems
from labkit.durable import write_durably
from labkit.errors import LabkitError

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# Without the version of Python, so that another one makes the same file.
LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}


@dataclass(frozen=True)
class Outcome:
    """What became of one chapter: its state ("stored", "unchanged", "differs"), the seconds, and what differs."""

    state: str
    seconds: float
    explanation: str = ""


def build(chapter: Chapter, on_cell: OnCell | None = None) -> Outcome:
    """Execute a chapter afresh and store its notebook, unless it came out as it is stored already.

    Raises LabkitError, and leaves the stored notebook alone, when a cell fails or a rule of the course is broken.
    """
    begin = time.perf_counter()
    fresh = execute(chapter, on_cell)
    seconds = time.perf_counter() - begin
    stored = read_stored(chapter) if chapter.notebook.exists() else None
    if stored is not None and is_unchanged(stored, fresh):
        return Outcome("unchanged", seconds)
    store(fresh, chapter.notebook)
    return Outcome("stored", seconds)


def check(chapter: Chapter, on_cell: OnCell | None = None) -> Outcome:
    """Execute a chapter afresh and compare it with the stored notebook, which is not touched.

    Pictures and cells tagged `nbval-ignore-output` may differ; the explanation names the first cell that otherwise
    does. Raises LabkitError as `build` does, and when there is no stored notebook.
    """
    stored = read_stored(chapter)
    begin = time.perf_counter()
    explanation = text_difference(stored, read_source(chapter)) or difference(stored, execute(chapter, on_cell))
    seconds = time.perf_counter() - begin
    return Outcome("differs" if explanation else "unchanged", seconds, explanation)


def read_source(chapter: Chapter) -> NotebookNode:
    """Return the chapter as learners get it, not executed yet: exercises to be done, no notes for teachers.

    Raises LabkitError for an exercise or a prediction that is not declared.
    """
    return as_notebook(chapter, learners_cells(read_cells(chapter)))


def as_notebook(chapter: Chapter, cells: list[NotebookNode]) -> NotebookNode:
    """Return a notebook of these cells, with metadata and ids.

    The id of a cell comes from the chapter's name and the cell's text: it stays when other cells come and go.
    """
    seen: Counter[str] = Counter()
    title = ""
    for cell in cells:
        text = f"{chapter.name}\n{cell.cell_type}\n{cell.source}"
        seen[text] += 1
        cell["id"] = hashlib.sha256(f"{text}\n{seen[text]}".encode()).hexdigest()[:12]
        if not title and cell.source.startswith("# ") and cell.cell_type == "markdown":
            title = cell.source.split("\n", 1)[0].removeprefix("# ").strip()
    metadata = {"kernelspec": KERNELSPEC, "language_info": LANGUAGE, "title": title}
    return nbformat.v4.new_notebook(cells=cells, metadata=nbformat.from_dict(metadata))


def execute(chapter: Chapter, on_cell: OnCell | None = None) -> NotebookNode:
    """Return the chapter executed in its folder, with outputs fit to be stored.

    Raises LabkitError that shows the failing cell and its error, or lists the broken rules.
    """
    notebook = read_source(chapter)
    execution.execute(notebook, chapter, on_cell)
    if broken := problems(notebook, declared(chapter)):
        raise LabkitError(f"{chapter.name} breaks rules of the course:\n" + "\n".join(f"  {line}" for line in broken))
    return notebook


def read_stored(chapter: Chapter) -> NotebookNode:
    """Return the stored notebook. Raises LabkitError when it is missing or cannot be read."""
    try:
        return nbformat.read(chapter.notebook, as_version=4)
    except FileNotFoundError:
        raise LabkitError(f"{chapter.notebook} does not exist yet. Run: labkit build {chapter.name}") from None
    except nbformat.reader.NotJSONError:
        raise LabkitError(
            f"{chapter.notebook} is damaged: it is not JSON. Delete it and run: labkit build {chapter.name}"
        ) from None


def store(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook in one step: a reader sees the old file or the new one, never a half of it.

    Raises LabkitError where the disk refuses; then the old file is there.
    """
    nbformat.validate(notebook)
    try:
        write_durably(path, (nbformat.writes(notebook) + "\n").encode())
    except OSError as error:
        raise LabkitError(f"{path} cannot be written: {error.strerror}.") from error
