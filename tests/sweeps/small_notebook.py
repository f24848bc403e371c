"""A notebook that takes no time, fails for one set of parameters, and notes in a file that it was run."""

from pathlib import Path

import nbformat
from nbformat import v4

CELLS = (
    ("parameters", "width: int = 1\nrate: float = 0.1\npause: float = 0.0\nbad_rate: float = 0.0"),
    ("", "import pathlib, time\ntime.sleep(pause)\nassert rate != bad_rate or width != 3, 'this one cannot work'"),
    ("results", '{"score": width * rate, "kind": "small"}'),
    ("", "with open('made.txt', 'a') as file:\n    print(width, rate, file=file)"),
)


def write_notebook(folder: Path, cells: tuple = CELLS) -> Path:
    """Write it into a folder, and return its path."""
    notebook = v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}}
    )
    for tag, source in cells:
        notebook.cells.append(v4.new_code_cell(source, metadata={"tags": [tag] if tag else []}))
    path = folder / "small.ipynb"
    nbformat.write(notebook, path)
    return path


def made(folder: Path) -> list[str]:
    """Return a line for each time that it was run to its end."""
    return (folder / "made.txt").read_text(encoding="utf-8").splitlines()
