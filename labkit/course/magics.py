"""What `%load_ext labkit` brings into a notebook.

That is `%reset_exercise` and `%doctor`, the progress of this chapter, and under every error of PyTorch what it means.
"""

import difflib
import os
from pathlib import Path
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from IPython.display import display

from labkit.doctor import Report, examine
from labkit.doctor.explain import Explanation, explain, explain_exception
from labkit.doctor.explain.watching import WarningWatch
from labkit.doctor.namespace import as_pieces, pieces_named
from labkit.errors import LabkitError
from labkit.exercises import Chapter, Exercise, progress


def load(shell: InteractiveShell) -> None:
    """Register the magics, and listen to how cells end and to what they warn of."""
    _loaded[shell] = lab = LabInShell(shell)
    lab.warnings.start()
    shell.register_magic_function(lab.reset_exercise, "line", "reset_exercise")
    shell.register_magic_function(lab.doctor, "line", "doctor")
    shell.events.register("post_run_cell", lab.after_cell)
    shell.events.register("post_run_cell", lab.explain_error)


def unload(shell: InteractiveShell) -> None:
    """Take all of it away again."""
    lab = _loaded.pop(shell)
    lab.warnings.stop()
    shell.events.unregister("post_run_cell", lab.explain_error)
    for name in ("reset_exercise", "doctor"):
        shell.magics_manager.magics["line"].pop(name, None)
    shell.events.unregister("post_run_cell", lab.after_cell)


class LabInShell:
    """What the lab does in one shell: a notebook's kernel, or IPython in a terminal."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._opened: set[str] = set()
        self.warnings = WarningWatch(display)

    def reset_exercise(self, line: str) -> None:
        """Put an exercise back to how it was handed out: `%reset_exercise column_means`, in the cell of your answer."""
        known = {exercise.name: exercise for chapter in self._chapters() for exercise in chapter.exercises}
        name = line.strip().rpartition(".")[2]  # `lab.column_means` is the same
        if name not in known:
            raise UsageError(_unknown(name, known))
        self._shell.set_next_input(known[name].stub.rstrip("\n"), replace=True)

    def doctor(self, line: str) -> Report:
        """Examine the training program in this notebook: `%doctor`, or `%doctor pieces` for a dict or a function.

        Without a name it takes the variables model, loss_fn, optimizer, train_loader, and if there are any val_loader,
        scheduler, train_step, evaluate; usual other names (net, criterion, ...) are understood. Returns the report.
        """
        name = line.strip()
        if name and name not in self._shell.user_ns:
            raise UsageError(
                f"There is no variable {name!r}. Write %doctor, or %doctor and the name of a dict of pieces."
            )
        try:
            if not name:
                return examine(**pieces_named(self._shell.user_ns, "This notebook"))
            given = self._shell.user_ns[name]
            return examine(**as_pieces(given() if callable(given) else given, name))
        except LabkitError as error:
            raise UsageError(str(error)) from error

    def after_cell(self, result: ExecutionResult) -> None:
        """Note that this chapter is open, and the type of the error that ended a cell: no text of it, no code."""
        chapter = self._chapter_name()
        if chapter is None:
            return
        if chapter not in self._opened:
            self._opened.add(chapter)
            progress.record_opened(chapter)
        error = result.error_before_exec or result.error_in_exec
        if error is not None and not isinstance(error, KeyboardInterrupt):
            progress.record_error(chapter, type(error).__name__)

    def explain_error(self, result: ExecutionResult) -> None:
        """Show under the traceback of a cell what its error means; the traceback is as it was."""
        explanation = explain_exception(result.error_in_exec) if result.error_in_exec is not None else None
        if explanation is not None and not _is_same(explanation, explain.latest):
            display(explanation)
        explain.latest = None

    def _chapters(self) -> list[Chapter]:
        """Return the chapters whose exercises the notebook has loaded."""
        return [value for value in list(self._shell.user_ns.values()) if isinstance(value, Chapter)]

    def _chapter_name(self) -> str | None:
        """Return which chapter this notebook is, by its file or else by its exercises; None for other notebooks."""
        file = Path(os.environ.get("JPY_SESSION_NAME", ""))  # Jupyter tells the kernel for which notebook it started
        if (file.parent / "source" / f"{file.stem}.py").is_file():
            return file.stem
        loaded = self._chapters()
        return loaded[-1].name if loaded else None


def _is_same(explanation: Explanation, other: Explanation | None) -> bool:
    """Say whether `with explain():` in the cell has already said it."""
    return other is not None and (explanation.row, explanation.where) == (other.row, other.where)


def _unknown(name: str, known: dict[str, Exercise]) -> str:
    if not known:
        return 'No exercises are loaded. Run the cell with exercises.load("…") first.'
    close = difflib.get_close_matches(name, known, n=1)
    asked = f"There is no exercise {name!r}." if name else "Which exercise? Write %reset_exercise NAME."
    return asked + (f" Did you mean {close[0]}?" if close else f" Here are {', '.join(known)}.")


_loaded: WeakKeyDictionary[InteractiveShell, LabInShell] = WeakKeyDictionary()
