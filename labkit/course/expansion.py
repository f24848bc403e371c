"""From the text of a chapter to its cells: exercises and predictions are named there, and declared in labkit.exercises.

    # %% exercise="column_means"      becomes the task, the cell to answer in, and the cell that checks
    # %% predict="promotion"          becomes the question and the cell to guess in

Either can be the mark of a [markdown] cell; then its text stands above the task or the question, in the same cell.
In the notebook, the metadata of the cell to answer in says `exercise`, of the one that checks `check`, and of the one
to guess in `predict`.
"""

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from labkit import exercises
from labkit.course.places import Chapter
from labkit.errors import LabkitError
from labkit.exercises import Exercise, Prediction

TEACHING_NOTE = "teaching-note"  # the tag of a cell that only teachers see


def declared(chapter: Chapter) -> exercises.Chapter | None:
    """Return the exercises and predictions that belong to a chapter, or None where it has none."""
    return exercises.load(chapter.name) if chapter.name in exercises.names() else None


def read_cells(chapter: Chapter) -> list[NotebookNode]:
    """Return the cells of a chapter's text with exercises and predictions expanded, notes for teachers included.

    Raises LabkitError for a name that is not declared, and for a code cell that names one and has text of its own.
    """
    lab = declared(chapter)
    cells = []
    for cell in jupytext.reads(chapter.source.read_text(encoding="utf-8"), fmt="py:percent").cells:
        cell.metadata.pop("lines_to_next_cell", None)
        kind = next((kind for kind in ("exercise", "predict") if kind in cell.metadata), "")
        cells += _expanded(chapter, lab, cell, kind) if kind else [cell]
    return cells


def learners_cells(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Return the cells without the notes for teachers."""
    return [cell for cell in cells if not is_teaching_note(cell)]


def is_teaching_note(cell: NotebookNode) -> bool:
    """Return whether the cell is for teachers only."""
    return TEACHING_NOTE in cell.metadata.get("tags", [])


def _expanded(chapter: Chapter, lab: exercises.Chapter | None, cell: NotebookNode, kind: str) -> list[NotebookNode]:
    """Return the cells that stand for one that names an exercise or a prediction; what else it carries stays."""
    others = dict(cell.metadata)
    name = others.pop(kind)
    marker = f'{chapter.name}: the cell `# %% {kind}="{name}"`'
    if cell.source.strip() and cell.cell_type != "markdown":
        raise LabkitError(f"{marker} has text of its own. Leave it empty: the declaration says what is shown there.")
    if lab is None:
        raise LabkitError(f"{marker} cannot be shown: no module in labkit/exercises/chapters is for this chapter.")
    part = lab[name]
    if kind == "exercise" and isinstance(part, Exercise):
        return _below(cell.source, exercise_cells(part, others))
    if kind == "predict" and isinstance(part, Prediction):
        return _below(cell.source, prediction_cells(part, others))
    raise LabkitError(f"{marker} names {name!r}, which is declared as {type(part).__name__}.")


def _below(text: str, cells: list[NotebookNode]) -> list[NotebookNode]:
    """Put a text above the task or the question in the first of these cells."""
    if text.strip():
        cells[0].source = f"{text.strip()}\n\n---\n\n{cells[0].source}"  # with a line between them
    return cells


def exercise_cells(exercise: Exercise, others: dict) -> list[NotebookNode]:
    """Return the cells of an exercise: the task, the cell to answer in, the check, which also gets other metadata."""
    check = f"lab.{exercise.name}.check({exercise.name})\n# stuck? lab.{exercise.name}.hint()"
    return [
        new_markdown_cell(exercise.prompt.strip()),
        new_code_cell(exercise.stub.strip(), metadata={"exercise": exercise.name}),
        new_code_cell(check, metadata={"check": exercise.name, **others}),
    ]


def prediction_cells(prediction: Prediction, others: dict) -> list[NotebookNode]:
    """Return the cells of a prediction: the question, and the cell to guess in."""
    *first, last = (f'"{choice}"' for choice in prediction.choices)
    choices = f"{', '.join(first)} or {last}"
    return [
        new_markdown_cell(prediction.question.strip()),
        new_code_cell(f"guess = ...  # your turn: {choices}", metadata={"predict": prediction.name, **others}),
    ]
