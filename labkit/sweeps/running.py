"""Runs of a sweep, several at a time: joblib hands them out, to processes of its own or to a Dask cluster."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import joblib
from filelock import FileLock, Timeout

import labkit
from labkit.durable import write_durably
from labkit.errors import ProcessError
from labkit.runs.reading import read
from labkit.sweeps.plan import Sweep

BACKENDS = ("processes", "dask")
SAID = "stderr.txt"  # what the process of a run said


def run(sweep: Sweep, jobs: int, backend: str = "processes", scheduler: str | None = None) -> Iterator[str]:
    """Make the runs that are waiting, `jobs` at a time, and give the name of each as it ends.

    backend: "dask" sends them to the cluster whose scheduler has this address, in as many jobs as its workers have
    threads; they must see the same folder. Raises ProcessError for a cluster that does not answer.
    """
    with _cluster(scheduler) if backend == "dask" else joblib.parallel_config("loky", n_jobs=jobs):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch="all")
        yield from parallel(joblib.delayed(make)(sweep.folder, run) for run in sweep.waiting())


def make(folder: Path, run: str) -> str:
    """Make one run in a process of its own, on a GPU of its own where there are several; return its name.

    A process that dies, for one because the memory was full, has written nothing: then this one writes that it failed.
    """
    with own_gpu() as environment, open(folder / run / SAID, "wb") as said:
        paths = [str(Path(labkit.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        environment |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "LABKIT_PROGRESS": "off"}
        command = [sys.executable, "-m", "labkit.sweeps.one_run", str(folder / run)]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": said}
        # In a session of its own: Ctrl-C would reach it, too, and look like a failure of the notebook.
        process = subprocess.Popen(command, env=os.environ | environment, start_new_session=True, **streams)
        _wait_for(process)
    if not read(folder / run).result:
        lines = (folder / run / SAID).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        error = lines[-1] if lines else f"the process ended with status {process.returncode} and without a word"
        outcome = {"status": "failed", "error": error}
        write_durably(folder / run / "result.json", (json.dumps(outcome, indent=2) + "\n").encode("utf-8"))
    return run


def _wait_for(process: subprocess.Popen) -> None:
    """Wait for a process; end it when this one is interrupted, and both when whoever started this one is gone."""
    parent = os.getppid()
    try:
        while process.poll() is None:
            if os.getppid() != parent:  # the sweep was killed, and nobody waits for an answer
                process.terminate()
                os._exit(1)
            time.sleep(0.1)
    finally:
        process.terminate()


@contextlib.contextmanager
def own_gpu() -> Iterator[dict[str, str]]:
    """Give the variable that shows a run one GPU only: one that no other run has, while there is such a one."""
    gpus = visible_gpus()
    if len(gpus) < 2:
        yield {}
        return
    for turn, gpu in enumerate(itertools.cycle(gpus)):
        lock = FileLock(Path(tempfile.gettempdir()) / f"labkit-gpu-{gpu}-{turn // len(gpus)}.lock")
        try:
            with lock.acquire(timeout=0):
                yield {"CUDA_VISIBLE_DEVICES": gpu}
                return
        except Timeout:
            continue


def visible_gpus() -> list[str]:
    """Return the numbers of the GPUs that programs started from here may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [gpu.strip() for gpu in visible.split(",") if gpu.strip() not in ("", "-1")]
    try:
        answer = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(number) for number, _ in enumerate(answer.strip().splitlines())]


@contextlib.contextmanager
def _cluster(scheduler: str | None) -> Iterator[None]:
    """Let joblib hand out its work to a Dask cluster."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ProcessError('The backend dask needs more packages: pip install "labkit[cluster]".') from error
    if not scheduler:
        raise ProcessError(
            "The backend dask needs the address of a scheduler, such as --scheduler tcp://10.0.0.1:8786."
        )
    try:
        client = Client(scheduler, timeout=20)
    except (OSError, TimeoutError, ValueError) as error:
        raise ProcessError(f"No Dask scheduler answers at {scheduler}: {error}.") from error
    with client, joblib.parallel_config("dask", wait_for_workers_timeout=60):
        yield
