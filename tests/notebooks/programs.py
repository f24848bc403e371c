"""Run programs of this Python as a teacher would in a terminal."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, folder: Path = ROOT) -> str:
    """Run a module, such as `labkit solve`, insist that it ends well, and return what it printed."""
    programs = str(Path(sys.executable).parent)  # nbgrader looks for alembic on the path
    changes = {
        "PATH": os.pathsep.join([programs, os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    finished = subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | changes,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=1200,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout
