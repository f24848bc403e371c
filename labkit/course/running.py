"""Run chapters through papermill, each in a process of its own, and keep what comes out of each."""

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import nbformat

from labkit.course.chosen import checked, declarations
from labkit.course.kernel import course_environment
from labkit.course.places import Chapter
from labkit.durable import write_durably
from labkit.errors import ConfigError, LabkitError

KEPT = "chapters.json"  # what is known of the chapters that ran in a folder
ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Outcome:
    """How the run of one chapter ended. status: "finished", "failed" or "stopped"; error: one sentence, or empty."""

    name: str
    status: str
    seconds: float
    parameters: dict
    fingerprint: str  # SHA-256 of the notebook that ran, so that a changed chapter is run again
    error: str = ""


@dataclass
class Course:
    """Chapters that are to run with their parameters, and the folder for everything they leave."""

    chapters: list[Chapter]
    folder: Path
    parameters: dict[str, dict]

    def notebook(self, name: str) -> Path:
        """Return where the executed notebook of a chapter lies."""
        return self.folder / f"{name}.ipynb"

    def runs(self, name: str) -> Path:
        """Return the folder for the training runs of a chapter."""
        return self.folder / "runs" / name


def plan(chapters: list[Chapter], folder: Path, fast: bool, chosen: dict[str, object]) -> Course:
    """Check every parameter before anything runs; a parameter goes to each chapter that has it.

    Raises ConfigError for a parameter that no chapter has, or a value of another type.
    """
    course = Course(chapters, folder.resolve(), {})
    unused = set(chosen)
    for chapter in chapters:
        declared = _declared(chapter)
        wanted = {"fast": fast, "run_dir": str(course.runs(chapter.name))} | chosen
        fitting = {name: value for name, value in wanted.items() if name in declared}
        course.parameters[chapter.name] = checked(fitting, declared)
        unused -= set(declared)
    if unused:
        raise ConfigError(f"No chapter that is to run has the parameter {', '.join(sorted(unused))}. Nothing was run.")
    try:
        course.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabkitError(f"The folder {folder} cannot be made: {error.strerror}. Name another with --out.") from None
    return course


def run(
    course: Course, jobs: int, on_begin: Callable[[str], None], on_end: Callable[[Outcome, bool], None]
) -> list[Outcome]:
    """Run the chapters, `jobs` at a time, and return how each ended, in the order of the course.

    A chapter that has finished in this folder with the same text and parameters is not run again. Each outcome is
    kept at once, so after Ctrl-C (or a power cut) the same call goes on. on_begin gets the name of each chapter that
    begins, on_end each outcome and whether it is from an earlier call.
    """
    outcomes = {}
    for outcome in earlier(course.folder):
        if _still_good(outcome, course):
            outcomes[outcome.name] = outcome
            on_end(outcome, True)
    running: dict[str, subprocess.Popen] = {}
    waiting = [chapter for chapter in course.chapters if chapter.name not in outcomes]
    with ThreadPoolExecutor(jobs) as pool, _all_stopped(running, pool):
        futures = [pool.submit(_run_one, course, chapter, jobs, running, on_begin) for chapter in waiting]
        for future in as_completed(futures):
            outcome = future.result()
            outcomes[outcome.name] = outcome
            _keep(course.folder, outcome)
            on_end(outcome, False)
    return [outcomes[chapter.name] for chapter in course.chapters]


def earlier(folder: Path) -> list[Outcome]:
    """Return the outcomes that are kept in a folder; none where the file is missing or damaged."""
    try:
        content = json.loads((folder / KEPT).read_text(encoding="utf-8"))
        return [Outcome(**each) for each in content]
    except (OSError, ValueError, TypeError):
        return []


def _declared(chapter: Chapter) -> dict[str, type]:
    for cell in nbformat.read(chapter.notebook, as_version=4).cells:
        if "parameters" in cell.metadata.get("tags", []):
            return declarations(cell.source)
    return {}


def _fingerprint(chapter: Chapter) -> str:
    return hashlib.sha256(chapter.notebook.read_bytes()).hexdigest()


def _still_good(outcome: Outcome, course: Course) -> bool:
    chapter = next((chapter for chapter in course.chapters if chapter.name == outcome.name), None)
    return (
        chapter is not None
        and outcome.status == "finished"
        and outcome.parameters == course.parameters[outcome.name]
        and outcome.fingerprint == _fingerprint(chapter)
        and course.notebook(outcome.name).is_file()
    )


def _run_one(
    course: Course,
    chapter: Chapter,
    jobs: int,
    running: dict[str, subprocess.Popen],
    on_begin: Callable[[str], None],
) -> Outcome:
    parameters, out = course.parameters[chapter.name], course.notebook(chapter.name)
    source, begin = chapter.notebook, time.perf_counter()
    command = [sys.executable, "-m", "papermill", str(source), str(out), "--cwd", str(source.parent), "-k", "python3"]
    command += ["--no-progress-bar", "--parameters_yaml", json.dumps(parameters)]  # JSON is YAML
    environment = course_environment(source.parents[1])
    on_begin(chapter.name)
    environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // jobs)))
    running[chapter.name] = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    said = running[chapter.name].communicate()[1].decode(errors="replace")
    status = running.pop(chapter.name).returncode
    error = "" if status == 0 else _failure(out, said)
    seconds = round(time.perf_counter() - begin, 1)
    return Outcome(chapter.name, "failed" if status else "finished", seconds, parameters, _fingerprint(chapter), error)


def _failure(notebook: Path, said: str) -> str:
    """Return which cell failed with what; else the last thing that papermill said."""
    with contextlib.suppress(OSError, nbformat.reader.NotJSONError):
        for cell in nbformat.read(notebook, as_version=4).cells:
            for output in cell.get("outputs", []):
                if output.output_type == "error":
                    begin = cell.source.strip().split("\n")[0]
                    return ANSI_COLOUR.sub("", f"{output.ename}: {output.evalue}, in the cell that begins `{begin}`")
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "papermill stopped without a word; perhaps the memory was full."


@contextlib.contextmanager
def _all_stopped(running: dict[str, subprocess.Popen], pool: ThreadPoolExecutor) -> Iterator[None]:
    """Let nothing go on when the block is left by an error or Ctrl-C."""
    try:
        yield
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running.values()):
            process.terminate()
        raise


def _keep(folder: Path, outcome: Outcome) -> None:
    others = [kept for kept in earlier(folder) if kept.name != outcome.name]
    kept = sorted([*others, outcome], key=lambda each: each.name)
    write_durably(folder / KEPT, json.dumps([asdict(each) for each in kept], indent=1).encode())
