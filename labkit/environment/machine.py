"""This Python, and what the machine has for it: disk, memory, cores."""

import os
import platform
import re
import shutil
import struct
import sys
from pathlib import Path

from labkit.environment.report import Line

OLDEST = (3, 10)
GIGABYTE = 10**9
LITTLE_DISK, NO_DISK = 2 * GIGABYTE, 0.2 * GIGABYTE  # CIFAR-10 takes 0.4 GB with its archive, a chapter some MB
LITTLE_MEMORY = 2 * GIGABYTE  # a kernel with torch and a data set takes about 1 GB


def probe_python() -> dict:
    """Return version, bits, place and kind of this Python."""
    return {
        "version": platform.python_version(),
        "bits": 8 * struct.calcsize("P"),
        "executable": sys.executable,
        "virtual": sys.prefix != sys.base_prefix or (Path(sys.prefix) / "conda-meta").is_dir(),
    }


def judge_python(python: dict) -> list[Line]:
    """Say whether this Python will do."""
    found = f"{python['version']}, {python['bits']} bit, {python['executable']}"
    version = tuple(int(number) for number in re.findall(r"\d+", python["version"])[:2])
    if version < OLDEST:
        return [Line("problem", "Python", found, "Install Python 3.10 or newer from python.org, then: python start.py")]
    if python["bits"] < 64:
        return [Line("problem", "Python", found, "PyTorch needs a 64-bit Python. Install that, then: python start.py")]
    if not python["virtual"]:
        action = "Packages of other projects share this Python. For an environment of its own: python start.py"
        return [Line("note", "Python", found, action)]
    return [Line("ok", "Python", found)]


def probe_disk(folder: Path) -> dict:
    """Return the free bytes where the course writes, and whether it may write there."""
    return {"folder": str(folder), "free": shutil.disk_usage(folder).free, "writable": os.access(folder, os.W_OK)}


def judge_disk(disk: dict) -> list[Line]:
    """Say whether runs and data sets have room."""
    found = f"{disk['free'] / GIGABYTE:.1f} GB free in {disk['folder']}"
    if not disk["writable"]:
        action = "Copy the course to a folder that is yours, and work there."
        return [Line("problem", "disk", f"{disk['folder']} cannot be written to", action)]
    if disk["free"] < NO_DISK:
        return [Line("problem", "disk", found, "Free some space: a run could not be saved.")]
    if disk["free"] < LITTLE_DISK:
        return [Line("note", "disk", found, "Enough for the chapters; free 2 GB before you download data sets.")]
    return [Line("ok", "disk", found)]


def probe_memory() -> dict:
    """Return the bytes of memory in all and still available. psutil comes along with ipykernel."""
    import psutil

    memory = psutil.virtual_memory()
    return {"total": memory.total, "available": memory.available}


def judge_memory(memory: dict) -> list[Line]:
    """Say whether a kernel with torch has room."""
    found = f"{memory['available'] / GIGABYTE:.1f} of {memory['total'] / GIGABYTE:.1f} GB available"
    if memory["available"] < LITTLE_MEMORY:
        return [Line("note", "memory", found, "Close other programs, and notebooks that you no longer use.")]
    return [Line("ok", "memory", found)]


def probe_cores() -> dict:
    """Return the cores of the machine, those that this process may use, and the variable that limits threads."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cores": os.cpu_count(), "allowed": allowed, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS")}


def judge_cores(cores: dict, torch: dict) -> list[Line]:
    """Say how many cores there are, and how many of them PyTorch uses."""
    threads = torch.get("threads")
    found = f"{cores['allowed']} of {cores['cores']} may be used here"
    if threads is None:
        return [Line("ok", "cores", found)]
    found += f"; PyTorch computes in {threads} {'thread' if threads == 1 else 'threads'}"
    if cores["OMP_NUM_THREADS"] and threads < cores["allowed"]:
        action = f"OMP_NUM_THREADS={cores['OMP_NUM_THREADS']} says so. Without that variable it uses all cores."
        return [Line("note", "cores", found, action)]
    if threads > cores["allowed"]:
        action = f"More threads than cores wait for each other. Set OMP_NUM_THREADS={cores['allowed']}"
        return [Line("note", "cores", found, action)]
    return [Line("ok", "cores", found)]
