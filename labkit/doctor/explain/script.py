"""Run a script as Python would, and say under its traceback what its error means."""

import os
import sys
import traceback
import types
from collections.abc import Sequence
from pathlib import Path

from labkit.doctor.explain.explaining import explain_exception
from labkit.doctor.explain.watching import WarningWatch, print_explanation
from labkit.errors import LabkitError


def run_script(file: str, arguments: Sequence[str] = ()) -> int:
    """Run a script as `__main__` with its own arguments; return the status that Python would end with.

    sys.exit in the script goes on as SystemExit. Raises LabkitError if there is no such file.
    """
    path = Path(file)
    if not path.is_file():
        raise LabkitError(f"There is no script {file}. Give the path of a .py file.")
    full = os.path.abspath(file)  # Python shows a script by its full path
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__, main.__spec__ = full, __builtins__, None
    sys.modules["__main__"] = main  # also for what the script sends to worker processes
    sys.argv = [file, *arguments]
    sys.path[0] = str(path.resolve().parent)
    watch = WarningWatch(print_explanation)
    watch.start()
    try:
        exec(compile(path.read_bytes(), full, "exec", dont_inherit=True), main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        show_error(error, full)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        watch.stop()
    return 0


def show_error(error: BaseException, file: str) -> None:
    """Print the traceback as Python does, from the first line of the script on, and under it what the error means."""
    sys.stdout.flush()
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)
    if explanation := explain_exception(error):
        print_explanation(explanation)
