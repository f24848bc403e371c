"""Run the command line of labkit, in this process or in one of its own, and look at what it printed."""

import io
import os
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from labkit import cli

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "labkit"]


def labkit(*arguments: str, folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess:
    """Run a command in this process, as from `folder`: each start of Python with torch takes seconds."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2)]
    with (
        warnings.catch_warnings(),
        pytest.MonkeyPatch.context() as changes,
        redirect_stdout(streams[0]),
        redirect_stderr(streams[1]),
        pytest.raises(SystemExit) as ended,
    ):
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)  # what Python shows, where pytest makes errors of warnings
        changes.chdir(folder)
        changes.setattr(sys, "argv", ["labkit", *arguments])
        for name, value in variables.items():
            changes.setenv(name, value)
        cli.main()
    printed, said = (stream.seek(0) or stream.read() for stream in streams)
    return subprocess.CompletedProcess(arguments, ended.value.code or 0, printed, said)


def labkit_process(*arguments: str, folder: Path = ROOT, **variables: str) -> subprocess.CompletedProcess:
    """Run a command as a user does: in a process of its own."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


def refused(finished: subprocess.CompletedProcess, status: int = 1) -> str:
    """Return what was said on stderr, after looking that it is a sentence and no traceback."""
    assert finished.returncode == status, finished.stderr
    assert "Traceback" not in finished.stderr
    assert status != 1 or finished.stderr.startswith("labkit: ")
    return " ".join(finished.stderr.split())
