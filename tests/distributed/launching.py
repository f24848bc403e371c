"""Start processes with torchrun as a user does, and read what they left."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]


def start(processes: int, *command: object) -> subprocess.Popen:
    """Start a script or, after "-m", a module in so many processes."""
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    return subprocess.Popen(
        [*TORCHRUN, str(processes), "--standalone", *map(str, command)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def finish(launched: subprocess.Popen, seconds: float = 120) -> tuple[str, str]:
    """Wait for the end; return what was printed and what was said on stderr."""
    try:
        return launched.communicate(timeout=seconds)
    finally:
        launched.terminate()
        launched.communicate()


def run(processes: int, *command: object) -> str:
    """Start, wait for a good end, and return what was printed."""
    launched = start(processes, *command)
    printed, said = finish(launched)
    assert launched.returncode == 0, said
    return printed
