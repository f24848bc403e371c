"""The rules that every stored chapter keeps; each broken one is a line of text."""

import re
from collections import Counter

from nbformat import NotebookNode

from labkit.course.chosen import declarations
from labkit.course.compare import is_ignored
from labkit.course.outputs import PLACEHOLDERS, WIDGET_VIEW
from labkit.errors import ConfigError
from labkit.exercises import Chapter, Exercise

CLAIM = re.compile(r"C\d{3}")
# The first two hide failures from the comparison, and papermill stops at an error whatever the third says.
FORBIDDEN_TAGS = ("nbval-skip", "nbval-check-output", "raises-exception", "nbval-raises-exception")


def problems(notebook: NotebookNode, lab: Chapter | None = None) -> list[str]:
    """Return the broken rules of an executed notebook, each as a sentence that names the cell.

    lab: the exercises and predictions that are declared for it.
    """
    code = [(number, cell) for number, cell in enumerate(notebook.cells, start=1) if cell.cell_type == "code"]
    found = _title(notebook) + _parameters(code) + _share_ignored(code)
    if "widgets" in notebook.metadata:
        found.append("The notebook stores the state of widgets.")
    for number, cell in code:
        found += [f"Cell {number} {problem}" for problem in _cell(cell)]
    return found + (_shown(notebook, lab) + _given_away(notebook, lab) if lab else [])


def _title(notebook: NotebookNode) -> list[str]:
    first = notebook.cells[0] if notebook.cells else None
    if first is None or first.cell_type != "markdown" or not first.source.startswith("# "):
        return ["The first cell is not a Markdown cell that begins with the title, `# …`."]
    return []


def _parameters(code: list[tuple[int, NotebookNode]]) -> list[str]:
    if not code or "parameters" not in code[0][1].metadata.get("tags", []):
        return ["The first code cell is not tagged `parameters`."]
    source = code[0][1].source
    try:
        declared = declarations(source)
    except (ConfigError, SyntaxError) as error:
        return [str(error)]
    helped = [name for name in declared if re.search(rf"(?m)^{name}\s*:.*\s#\s*\S", source)]
    return [f"The parameter {name!r} has no comment that says what it is." for name in declared if name not in helped]


def _share_ignored(code: list[tuple[int, NotebookNode]]) -> list[str]:
    ignored = sum(is_ignored(cell) for _, cell in code)
    if 2 * ignored > len(code):
        return [f"{ignored} of {len(code)} code cells are not compared; at most half may be."]
    return []


def _cell(cell: NotebookNode) -> list[str]:
    found = []
    tags = cell.metadata.get("tags", [])
    found += [f"has the tag `{tag}`, which chapters do not use." for tag in FORBIDDEN_TAGS if tag in tags]
    claims = cell.metadata.get("claims", [])
    if not (isinstance(claims, list) and all(isinstance(claim, str) and CLAIM.fullmatch(claim) for claim in claims)):
        found.append(f"has the claims {claims!r}; they are a list of ids such as C012.")
    if not cell.source.strip():
        found.append("is empty.")
    elif cell.execution_count is None:
        found.append("is not executed.")
    for output in cell.outputs:
        found += _output(output, is_ignored(cell))
    return found


def _output(output: NotebookNode, ignored: bool) -> list[str]:
    if output.output_type == "error":
        return [f"stores an error, {output.ename}. Catch it in the cell and print it."]
    if WIDGET_VIEW in output.get("data", {}):
        return ["stores the view of a widget, which is dead without its kernel."]
    if ignored:
        return []
    if output.output_type == "stream" and output.name == "stderr":
        return [f"prints to stderr, which is not compared: {output.text.strip().splitlines()[-1]}"]
    text = output.get("text", "") + str({k: v for k, v in output.get("data", {}).items() if "image/" not in k})
    if any(word in text for word in PLACEHOLDERS):
        return ["prints a path of this machine. Print a relative one, or tag the cell `nbval-ignore-output`."]
    return []


def _shown(notebook: NotebookNode, lab: Chapter) -> list[str]:
    """Say which exercises and predictions are not shown exactly once, and which predictions are never settled."""
    kinds = ("exercise", "predict")
    shown = Counter(cell.metadata[kind] for cell in notebook.cells for kind in kinds if kind in cell.metadata)
    found = []
    for part in lab:
        kind = "exercise" if isinstance(part, Exercise) else "predict"
        if shown[part.name] == 0:
            found.append(f'{part.name!r} is declared but not shown. Its place is a cell `# %% {kind}="{part.name}"`.')
        elif shown[part.name] > 1:
            found.append(f"{part.name!r} is shown {shown[part.name]} times; once is enough.")
        elif kind == "predict" and not any(f"lab.{part.name}.reveal(" in cell.source for cell in notebook.cells):
            found.append(f"The prediction {part.name!r} is never settled: no cell calls lab.{part.name}.reveal.")
    return found


def _given_away(notebook: NotebookNode, lab: Chapter) -> list[str]:
    """Say where the text or the output of a cell contains the solution of an exercise."""
    texts = [_one_line(f"{cell.source}\n{_printed(cell)}") for cell in notebook.cells]
    return [
        f"Cell {number} gives away the solution of {exercise.name!r}."
        for exercise in lab.exercises
        for number, text in enumerate(texts, start=1)
        if (parts := telling_parts(exercise)) and all(part in text for part in parts)
    ]


def telling_parts(exercise: Exercise) -> list[str]:
    """Return what the solution has and the stub has not: its neighbouring new lines, each group as one line.

    The word `return` tells nothing, and the expression after it everything.
    """
    known = {_one_line(line) for line in exercise.stub.splitlines()}
    groups = [[]]
    for line in map(_one_line, exercise.solved.splitlines()):
        if line and line not in known:
            groups[-1].append(line)
        elif groups[-1]:
            groups.append([])
    return [" ".join(group).removeprefix("return ") for group in groups if group]


def _printed(cell: NotebookNode) -> str:
    """Return all text among the outputs of a cell."""
    texts = []
    for output in cell.get("outputs", []):
        texts.append(output.get("text", ""))
        texts += [str(content) for kind, content in output.get("data", {}).items() if "image/" not in kind]
    return "\n".join(texts)


def _one_line(text: str) -> str:
    return " ".join(text.split())
