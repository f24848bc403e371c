"""The environment doctor behind `labkit check`: is everything here that the course needs, and if not, what to do?

Each topic is a pair: a *probe* that returns what it finds as plain data, and a *judge*, a pure function from that data
to lines. So each line can be tested without the machine that it is about. Nothing here imports torch: this has to work
just where torch is missing or broken.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from labkit.course.places import find_course
from labkit.environment import gpu, jupyter, machine, packages, pytorch
from labkit.environment.report import Line, Report
from labkit.errors import LabkitError

__all__ = ["Line", "Report", "check"]

# What is judged, in the order of the lines, and the evidence that each judge takes.
JUDGES: tuple[tuple[Callable[..., list[Line]], tuple[str, ...]], ...] = (
    (machine.judge_python, ("python",)),
    (packages.judge_packages, ("packages",)),
    (packages.judge_shadows, ("shadows",)),
    (packages.judge_copies, ("copies", "torch")),
    (pytorch.judge_torch, ("torch",)),
    (pytorch.judge_torchvision, ("torch", "fit")),
    (gpu.judge_build, ("torch", "driver")),
    (gpu.judge_driver, ("torch", "driver")),
    (gpu.judge_gpu, ("torch", "driver", "platform")),
    (jupyter.judge_widgets, ("widgets",)),
    (jupyter.judge_kernel, ("kernel",)),
    (pytorch.judge_data, ("torch",)),
    (machine.judge_disk, ("disk",)),
    (machine.judge_memory, ("memory",)),
    (machine.judge_cores, ("cores", "torch")),
)


def check() -> Report:
    """Examine this computer for the course, which takes some seconds: torch is imported in a process of its own."""
    evidence = gather()
    return Report(judge(evidence), evidence)


def gather() -> dict[str, dict]:
    """Run all probes, side by side; a probe that fails leaves {"failed": why}."""
    course = _course()
    notebooks = course / "notebooks" if course else Path.cwd()
    folders = sorted({notebooks, Path.cwd()})
    probes = {
        "torch": lambda: pytorch.probe_torch(notebooks),
        "kernel": lambda: jupyter.probe_kernel(notebooks),
        "python": machine.probe_python,
        "packages": lambda: packages.probe_packages(course),
        "shadows": lambda: packages.probe_shadows(folders),
        "copies": packages.probe_copies,
        "fit": pytorch.probe_fit,
        "driver": gpu.probe_driver,
        "platform": gpu.probe_platform,
        "widgets": jupyter.probe_widgets,
        "disk": lambda: machine.probe_disk(notebooks),
        "memory": machine.probe_memory,
        "cores": machine.probe_cores,
    }
    with ThreadPoolExecutor() as pool:
        return dict(zip(probes, pool.map(_attempt, probes.values()), strict=True))


def judge(evidence: dict[str, dict]) -> list[Line]:
    """Return the lines for the evidence. A probe that failed costs its own lines only, and a note says so."""
    lines = []
    for judge_topic, names in JUDGES:
        pieces = [evidence[name] for name in names]
        if not any("failed" in piece for piece in pieces):
            lines += judge_topic(*pieces)
    for name, found in evidence.items():
        if "failed" in found:
            action = "Solve the problems above first; without one, nothing."
            lines.append(Line("note", name, f"could not be examined: {found['failed']}", action))
    return lines


def _course() -> Path | None:
    try:
        return find_course()
    except LabkitError:
        return None


def _attempt(probe: Callable[[], dict]) -> dict:
    try:
        return probe()
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
