"""Build the chapters: read the text, execute it as a notebook, store it if anything changed."""

import hashlib
import os
import re
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from labkit.course.compare import difference, is_unchanged, text_difference
from labkit.course.kernel import CourseKernel, kernel_environment
from labkit.course.outputs import clean
from labkit.course.places import Chapter
from labkit.course.rules import problems
from labkit.errors import LabkitError

CELL_SECONDS = 600
ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
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


def build(chapter: Chapter) -> Outcome:
    """Execute a chapter afresh and store its notebook, unless it came out as it is stored already.

    Raises LabkitError, and leaves the stored notebook alone, when a cell fails or a rule of the course is broken.
    """
    begin = time.perf_counter()
    fresh = execute(chapter)
    seconds = time.perf_counter() - begin
    stored = read_stored(chapter) if chapter.notebook.exists() else None
    if stored is not None and is_unchanged(stored, fresh):
        return Outcome("unchanged", seconds)
    store(fresh, chapter.notebook)
    return Outcome("stored", seconds)


def check(chapter: Chapter) -> Outcome:
    """Execute a chapter afresh and compare it with the stored notebook, which is not touched.

    Pictures and cells tagged `nbval-ignore-output` may differ; the explanation names the first cell that otherwise
    does. Raises LabkitError as `build` does, and when there is no stored notebook.
    """
    stored = read_stored(chapter)
    begin = time.perf_counter()
    explanation = text_difference(stored, read_source(chapter)) or difference(stored, execute(chapter))
    seconds = time.perf_counter() - begin
    return Outcome("differs" if explanation else "unchanged", seconds, explanation)


def read_source(chapter: Chapter) -> NotebookNode:
    """Return the chapter's text as a notebook that is not executed yet.

    The id of a cell comes from the chapter's name and the cell's text: it stays when other cells come and go.
    """
    notebook = jupytext.reads(chapter.source.read_text(encoding="utf-8"), fmt="py:percent")
    seen: Counter[str] = Counter()
    title = ""
    for cell in notebook.cells:
        text = f"{chapter.name}\n{cell.cell_type}\n{cell.source}"
        seen[text] += 1
        cell["id"] = hashlib.sha256(f"{text}\n{seen[text]}".encode()).hexdigest()[:12]
        cell.metadata.pop("lines_to_next_cell", None)
        if not title and cell.source.startswith("# ") and cell.cell_type == "markdown":
            title = cell.source.split("\n", 1)[0].removeprefix("# ").strip()
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE, "title": title})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def execute(chapter: Chapter) -> NotebookNode:
    """Return the chapter executed in its folder, with outputs fit to be stored.

    Raises LabkitError that shows the failing cell and its error, or lists the broken rules.
    """
    notebook = read_source(chapter)
    folder = chapter.notebook.parent
    root = folder.parent
    client = NotebookClient(
        notebook,
        kernel_manager_class=CourseKernel,
        timeout=CELL_SECONDS,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        # What child processes print is captured by the kernel; without DEVNULL it would appear on the terminal as well.
        client.execute(env=kernel_environment(root), stdout=subprocess.DEVNULL)
    except CellExecutionError:
        raise LabkitError(_failure(chapter, notebook)) from None
    except CellTimeoutError:
        raise LabkitError(f"{chapter.name}: a cell ran longer than {CELL_SECONDS} seconds and was stopped.") from None
    except DeadKernelError:
        raise LabkitError(f"{chapter.name}: the kernel died, perhaps for lack of memory.") from None
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = clean(cell.outputs, root)
    notebook.metadata["language_info"] = LANGUAGE  # the kernel has put its own there, with its version
    if broken := problems(notebook):
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
    """Write a notebook in one step: a reader sees the old file or the new one, never a half of it."""
    nbformat.validate(notebook)
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8", newline="\n")
    os.replace(temporary, path)


def _failure(chapter: Chapter, notebook: NotebookNode) -> str:
    """Return the text for a failed chapter: which cell, its source, and the real error without colours."""
    number, cell, error = next(
        (number, cell, output)
        for number, cell in enumerate(notebook.cells, start=1)
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error"
    )
    traceback = ANSI_COLOUR.sub("", "\n".join(error.traceback))
    source = "\n".join(f"    {line}" for line in cell.source.splitlines())
    return (
        f"{chapter.name}: cell {number} failed with {error.ename}; the stored notebook is as it was. The cell:\n\n"
        f"{source}\n\nIts error:\n\n{traceback}"
    )
