"""The command line: `labkit check`, `data`, `train`, `trial`, `explain`, `runs`, `build`, `solve`, `claims` and others.

Modules are imported inside the commands, and only here: torch takes seconds, and `labkit --help` shall be instant.
"""

import os
import sys
import traceback
import warnings

import click

from labkit.cli import clinic, course, examining, explaining, lab, runs, speed, sweeping, trials
from labkit.cli.group import INTERRUPTED, labkit
from labkit.errors import LabkitError

__all__ = [
    "clinic",
    "course",
    "examining",
    "explaining",
    "lab",
    "labkit",
    "main",
    "runs",
    "speed",
    "sweeping",
    "trials",
]

DEBUG = os.environ.get("LABKIT_DEBUG") == "1"


def main() -> None:
    """Run the command line. What the user can mend is a sentence on stderr; LABKIT_DEBUG=1 shows where it came from."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a console without some letter shows "?" for it and goes on
    if not DEBUG:
        warnings.showwarning = _warn
    try:
        status = labkit.main(prog_name="labkit", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.Abort:
        status = _say("stopped by Ctrl-C.", INTERRUPTED)
    except LabkitError as error:
        status = 1 if _is_echo(error) else _say(str(error), 1)
    except ImportError as error:
        status = _say(f"a package is missing or broken ({error}). `labkit check` says what to do.", 1)
    except Exception as error:
        status = _say(f"an error that labkit did not expect, {type(error).__name__}: {error}", 1)
    sys.exit(status)


def _warn(message: Warning, *_: object) -> None:
    click.echo(f"labkit: {message}", err=True)


def _is_echo(error: LabkitError) -> bool:
    """Say whether another process of those that torchrun has started says the same.

    What is found before they have met is wrong in all of them, and the first on each machine says it.
    """
    group = sys.modules.get("labkit.distributed")
    have_met = group is not None and group.are_several()
    return getattr(error, "is_echo", False) or (not have_met and os.environ.get("LOCAL_RANK", "0") != "0")


def _say(sentence: str, status: int) -> int:
    if DEBUG:
        traceback.print_exc()
    rank = os.environ.get("RANK", "0")
    click.echo(f"labkit{f' (process {rank})' if rank != '0' else ''}: {sentence}", err=True)
    return status
