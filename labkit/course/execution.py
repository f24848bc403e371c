"""Execute a notebook in a fresh kernel, and say in words what went wrong where."""

import asyncio
import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Callable

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from labkit.course.kernel import CourseKernel, kernel_environment
from labkit.course.outputs import clean
from labkit.course.places import Chapter
from labkit.errors import LabkitError

CELL_SECONDS = 600
ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

OnCell = Callable[[int, int], None]
"""Called before each cell with its number, from 1, and how many cells there are."""


def execute(notebook: NotebookNode, chapter: Chapter, on_cell: OnCell | None = None) -> list[float]:
    """Execute a notebook of the chapter in place, in the chapter's folder, with outputs fit to be stored.

    Returns the seconds that each cell took. Raises LabkitError that shows the failing cell and its error.
    """
    folder = chapter.notebook.parent
    root = folder.parent
    begun = [0.0] * len(notebook.cells)
    seconds = [0.0] * len(notebook.cells)

    def start(cell: NotebookNode, cell_index: int) -> None:
        begun[cell_index] = time.perf_counter()
        if on_cell is not None:
            on_cell(cell_index + 1, len(notebook.cells))

    def end(cell: NotebookNode, cell_index: int, execute_reply: dict) -> None:
        seconds[cell_index] = time.perf_counter() - begun[cell_index]

    client = NotebookClient(
        notebook,
        kernel_manager_class=CourseKernel,
        timeout=CELL_SECONDS,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
        on_notebook_start=_let_ctrl_c_through,
        on_cell_start=start,
        on_cell_executed=end,
    )
    language = notebook.metadata["language_info"]
    try:
        # What child processes print is captured by the kernel; without DEVNULL it would appear on the terminal as well.
        client.execute(env=kernel_environment(root), stdout=subprocess.DEVNULL)
    except CellExecutionError:
        raise LabkitError(_failure(chapter, notebook)) from None
    except CellTimeoutError:
        raise LabkitError(f"{chapter.name}: a cell ran longer than {CELL_SECONDS} seconds and was stopped.") from None
    except KeyboardInterrupt:
        client.shutdown_kernel = "immediate"  # it happens at the end of this program; a polite kernel would complain
        raise
    except DeadKernelError:
        raise LabkitError(f"{chapter.name}: the kernel died, perhaps for lack of memory.") from None
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = clean(cell.outputs, root)
    notebook.metadata["language_info"] = language  # the kernel has put its own there, with its version
    return seconds


def _let_ctrl_c_through(notebook: NotebookNode) -> None:
    """Undo that nbclient turns Ctrl-C into a kernel that seems to have died: here it is a KeyboardInterrupt again."""
    with contextlib.suppress(NotImplementedError):  # Windows, where nbclient does not do it
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)


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
