"""When, where and with what a run is made: what one needs to know when the same settings give another result."""

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy
import psutil
import torch
import torchvision

import labkit


def surroundings() -> dict:
    """Return time, command, state of the code, versions and hardware as plain data."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": sys.argv,
        "git": _git(),
        "versions": {
            "labkit": labkit.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "torchvision": torchvision.__version__,
            "numpy": numpy.__version__,
        },
        "machine": platform.platform(),
        "hardware": {
            "cpu": _cpu(),
            "instructions": torch.backends.cpu.get_cpu_capability(),  # such as AVX2: sums are ordered accordingly
            "cores": os.cpu_count(),
            "memory": psutil.virtual_memory().total,
        },
        "threads": torch.get_num_threads(),
    }


def _git() -> dict | None:
    """Return the commit of the current folder and whether files differ from it; None outside a repository."""
    commit = _answer("git", "rev-parse", "HEAD")
    changes = _answer("git", "status", "--porcelain")
    if commit is None or changes is None:
        return None
    return {"commit": commit, "uncommitted_changes": bool(changes)}


def _cpu() -> str:
    """Return the name of the processor, as its maker writes it where the system tells."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        return _answer("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    return platform.processor() or platform.machine()


def _answer(*command: str) -> str | None:
    """Return what a program prints, without the spaces around it; None where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", errors="replace").strip()
