"""The instructor edition of a chapter: answers filled in, notes for teachers shown, every cell run and timed.

It is also what nbgrader makes assignments from: each cell to answer in keeps the learner's text in its metadata, and
nbgrader_config.py, which goes with the notebooks, puts that back.
"""

import hashlib
import os
import platform
import re
import time
from pathlib import Path

import nbformat
import torch
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from labkit.course.builder import as_notebook, store
from labkit.course.execution import OnCell, execute
from labkit.course.expansion import TEACHING_NOTE, declared, is_teaching_note, read_cells
from labkit.course.kernel import THREADS
from labkit.course.places import Chapter
from labkit.durable import write_durably
from labkit.errors import LabkitError
from labkit.exercises import Exercise, Prediction

CONFIG = "nbgrader_config.py"
LINK = re.compile(r"(\]\()([^)\s#:]+)(?=[)#\s])")  # the target of a Markdown link or picture that is a relative path
HEADING = re.compile(r"(?m)^## +(.+)$")
FOR_NBGRADER = f"nbgrader needs the settings in `{CONFIG}`: they take these notes out, and put the stubs back in."
GRADED = """
### BEGIN HIDDEN TESTS
assert lab.{name}.judge({name}).is_right
### END HIDDEN TESTS"""


def prepare(folder: Path, chapters: list[Chapter]) -> None:
    """Make the folder for editions of these chapters, and put the settings for nbgrader there.

    Raises LabkitError, before anything is written, that names a file which labkit did not write or which was changed,
    and for the folders of the course itself: what lies there is taken for a chapter.
    """
    for chapter in chapters:
        if folder.resolve() in (chapter.source.parent.resolve(), chapter.notebook.parent.resolve()):
            raise LabkitError(f"{folder} is where the course keeps its own notebooks. Choose another folder.")
        _refuse_foreign(folder / chapter.notebook.name)
    settings = Path(__file__).with_name(CONFIG).read_text(encoding="utf-8")
    target = folder / CONFIG
    if target.exists() and target.read_text(encoding="utf-8") != settings:
        raise LabkitError(f"{target} is not what labkit writes. Move it away, or choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_durably(target, settings.encode())
    except OSError as error:
        raise LabkitError(f"The folder {folder} cannot be written: {error.strerror}. Choose another.") from error


def solve(chapter: Chapter, folder: Path, on_cell: OnCell | None = None) -> float:
    """Make and store the instructor edition of a chapter, and return the seconds that it took.

    Raises LabkitError that shows the failing cell; a solution that its own check does not call right fails too.
    """
    begin = time.perf_counter()
    notebook = as_notebook(chapter, solved_cells(chapter))
    seconds = execute(notebook, chapter, on_cell)
    cells = [_moved(cell, chapter.notebook.parent, folder) for cell in notebook.cells]
    cells.insert(1, _note(f"{timings(cells, seconds)}\n\n{FOR_NBGRADER}"))
    notebook = as_notebook(chapter, cells)
    notebook.metadata["labkit"] = {"edition": "instructor", "text": _text_hash(notebook)}
    target = folder / chapter.notebook.name
    _refuse_foreign(target)  # once more, for executing takes its time
    store(notebook, target)
    return time.perf_counter() - begin


def solved_cells(chapter: Chapter) -> list[NotebookNode]:
    """Return the cells of a chapter with answers and predictions filled in, and with what nbgrader needs to know."""
    lab = declared(chapter)
    cells = []
    for cell in read_cells(chapter):
        if is_teaching_note(cell):
            cell.source = _quoted(cell.source)
        elif "exercise" in cell.metadata:
            _answer(cell, lab[cell.metadata["exercise"]])
        elif "predict" in cell.metadata:
            _guess(cell, lab[cell.metadata["predict"]])
        cells.append(cell)
        if "check" in cell.metadata:
            exercise = lab[cell.metadata["check"]]
            _grade(cell, exercise)
            cells.append(_note(_about(exercise)))
    return cells


def _answer(cell: NotebookNode, exercise: Exercise) -> None:
    """Replace the stub by the solution."""
    _replace(cell, exercise.solved.strip())
    cell.metadata["nbgrader"] = _for_nbgrader(exercise.name, solution=True)


def _guess(cell: NotebookNode, prediction: Prediction) -> None:
    """Fill in what the measurement will give."""
    _replace(cell, f'guess = "{prediction.answer}"')


def _replace(cell: NotebookNode, text: str) -> None:
    """Give a cell another text; what learners have there stays in its metadata."""
    if text != cell.source:
        cell.metadata["learner"] = cell.source
        cell.source = text


def _grade(cell: NotebookNode, exercise: Exercise) -> None:
    """Let the check fail loudly for a wrong answer; nbgrader takes these lines out for learners and back in to grade.

    They also run whenever the edition is made, so that no solution gets there which its own check does not accept.
    """
    cell.metadata["nbgrader"] = _for_nbgrader(f"{exercise.name}-check", grade=True, points=exercise.points)
    cell.source += GRADED.format(name=exercise.name)


def _for_nbgrader(grade_id: str, grade: bool = False, solution: bool = False, points: int = 0) -> NotebookNode:
    """Return what nbgrader reads in the metadata of a cell: what it is, and what it is worth."""
    kind = {"grade": grade, "solution": solution, "task": False, "locked": grade}
    worth = {"points": points} if grade else {}
    return nbformat.from_dict({"grade_id": grade_id, **kind, **worth, "schema_version": 3})


def _about(exercise: Exercise) -> str:
    """Return what a teacher wants to know about an exercise, as Markdown."""
    ideas = "; ".join(misconception.name for misconception in exercise.misconceptions)
    lines = [exercise.note.strip(), f"Wrong ideas that the check knows: {ideas}." if ideas else ""]
    lines.append(f"Points: {exercise.points}. Hints: {len(exercise.hints)}.")
    return "\n\n".join(line for line in lines if line)


def _note(text: str) -> NotebookNode:
    """Return a cell for teachers only."""
    return new_markdown_cell(_quoted(text), metadata={"tags": [TEACHING_NOTE]})


def _quoted(text: str) -> str:
    """Return Markdown as a quotation, so that nobody takes it for the learner's text."""
    lines = ["**For teachers**", "", *text.strip().splitlines()]
    return "\n".join(f"> {line}".rstrip() for line in lines)


def timings(cells: list[NotebookNode], seconds: list[float]) -> str:
    """Return a table, in Markdown, of the seconds that each section of a chapter took. seconds: one number a cell."""
    sections: dict[str, float] = {}
    section = "(before the first section)"
    for cell, spent in zip(cells, seconds, strict=True):
        if cell.cell_type == "code":
            sections[section] = sections.get(section, 0.0) + spent
        elif headings := HEADING.findall(cell.source):
            section = headings[-1].strip().replace("|", "\\|")
    rows = [f"| {name} | {spent:.1f} |" for name, spent in [*sections.items(), ("**all cells**", sum(seconds))]]
    python, threads = platform.python_version(), "one thread" if THREADS == "1" else f"{THREADS} threads"
    where = f"Measured with Python {python} and PyTorch {torch.__version__} on {platform.system()}, {threads}, no GPU."
    return "\n".join(["| section | seconds to run |", "|---|--:|", *rows, "", where])


def _moved(cell: NotebookNode, old: Path, new: Path) -> NotebookNode:
    """Let the relative links of a Markdown cell lead to the same files from another folder; links to chapters stay."""

    def moved(match: re.Match) -> str:
        target = (old / match.group(2)).resolve()
        if target.suffix == ".ipynb" or not target.exists():
            return match.group()
        try:
            path = Path(os.path.relpath(target, new.resolve())).as_posix()
        except ValueError:  # Windows, another drive
            path = target.as_uri()
        return match.group(1) + path

    if cell.cell_type == "markdown":
        _replace(cell, LINK.sub(moved, cell.source))
    return cell


def _refuse_foreign(path: Path) -> None:
    """Raise LabkitError if there is a file that is not, or no longer, what labkit wrote."""
    if not path.exists():
        return
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception:  # whatever it is, it is not ours
        notebook = nbformat.v4.new_notebook()
    written = notebook.metadata.get("labkit", {})
    if written.get("edition") != "instructor":
        raise LabkitError(f"{path} is no instructor edition that labkit wrote. Move it away, or choose another folder.")
    if written.get("text") != _text_hash(notebook):
        raise LabkitError(f"{path} was changed since labkit wrote it. Move it away, or choose another folder.")


def _text_hash(notebook: NotebookNode) -> str:
    """Return a short hash of the text of all cells."""
    text = "\n".join(f"{cell.cell_type}\n{cell.source}" for cell in notebook.cells)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
