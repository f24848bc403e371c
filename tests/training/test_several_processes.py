"""Processes that train together (torch.distributed) write one record, once; the others stay silent, and all end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from labkit.runs import checkpoint
from labkit.training import fit
from tests.training.helpers import assert_identical, small_loaders, small_model, without_times
from tests.training.test_resume import CONFIG

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this torch has no way for processes to talk")

CHILD = """
import sys
from pathlib import Path
import torch.distributed as dist
from labkit.errors import LabkitError
from labkit.training import fit, resume
from tests.training.helpers import small_loaders, small_model
from tests.training.test_resume import CONFIG

def train(folder):
    if (folder / "run").exists() and "again" not in sys.argv:
        return resume(small_model(5), *small_loaders(), folder / "run")
    return fit(small_model(), *small_loaders(), CONFIG.replace(run_dir=str(folder)))

if __name__ == "__main__":
    folder, meeting, rank = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo", init_method=meeting.as_uri(), rank=rank, world_size=2)
    try:
        run = train(folder)
        print("end:", run.status, run.folder)
    except LabkitError as error:
        print("end:", type(error).__name__, error)
    dist.destroy_process_group()
"""


def together(folder: Path, meeting: Path, *words: str) -> list[str]:
    """Train in two processes; return what each of them printed."""
    script = meeting.with_suffix(".py")
    script.write_text(CHILD, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    children = [
        subprocess.Popen(
            [sys.executable, script, folder, meeting, str(rank), *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        answers = [child.communicate(timeout=120) for child in children]
    finally:
        for child in children:
            child.kill()
    assert [child.returncode for child in children] == [0, 0], answers
    return [printed for printed, _ in answers]


def test_two_processes_write_one_record_once(tmp_path):
    alone = fit(small_model(), *small_loaders(), CONFIG.replace(run_dir=str(tmp_path / "alone")))
    main, other = together(tmp_path / "together", tmp_path / "meeting")
    folder = tmp_path / "together" / "run"
    assert main.splitlines()[-1] == f"end: finished {folder}" and "running acc." in main
    assert other == "end: finished None\n", "it trained, and wrote and said nothing"
    written, expected = ({file.name.partition(".out")[0] for file in run.iterdir()} for run in (folder, alone.folder))
    assert written == expected and len([*folder.glob("events*")]) == 1
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert without_times(rows) == without_times(alone.history)
    for name in ("last.pt", "best.pt"):
        first, second = (without_times(checkpoint.read(run / name)) for run in (folder, alone.folder))
        assert_identical(first, second)


def test_two_processes_go_on_with_a_run(tmp_path):
    folder = tmp_path / "together"
    together(folder, tmp_path / "meeting")
    last = folder / "run" / "last.pt"
    checkpoint.previous(last).replace(last)  # from the end of the first epoch
    main, other = together(folder, tmp_path / "second meeting")
    assert main.splitlines()[-1] == f"end: finished {folder / 'run'}" and other == "end: finished None\n"
    assert len((folder / "run" / "history.jsonl").read_text(encoding="utf-8").splitlines()) == 2


def test_what_the_main_process_cannot_write_stops_all_of_them(tmp_path):
    folder = tmp_path / "together"
    together(folder, tmp_path / "meeting")
    for printed in together(folder, tmp_path / "second meeting", "again"):
        assert printed.startswith("end: CheckpointError A run named 'run' exists in")
