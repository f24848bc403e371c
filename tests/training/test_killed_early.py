"""A run that is killed before its first checkpoint is whole can begin again under its name."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labkit.errors import CheckpointError
from labkit.runs.listing import listing
from labkit.training import fit, resume
from tests.training.helpers import small_loaders, small_model
from tests.training.test_resume import CONFIG

CHILD = """
import sys, time
from pathlib import Path
from labkit.training import fit
from tests.training.helpers import small_loaders, small_model
from tests.training.test_resume import CONFIG

folder, model = Path(sys.argv[1]), small_model()

def wait_in_the_first_checkpoint(*_):
    while (folder / "run" / "run.json").exists():
        time.sleep(0.01)

model.register_state_dict_post_hook(wait_in_the_first_checkpoint)
fit(model, *small_loaders(), CONFIG.replace(run_dir=str(folder)))
"""


def killed_before_its_first_checkpoint(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    child = subprocess.Popen([sys.executable, "-c", CHILD, folder], env=environment)
    while child.poll() is None and not (folder / "run" / "run.json").exists():
        time.sleep(0.01)
    child.kill()
    assert child.wait() != 0 and not (folder / "run" / "last.pt").exists()


def test_it_begins_anew_under_its_name(tmp_path, capsys):
    killed_before_its_first_checkpoint(tmp_path)
    assert listing(tmp_path).rows[0]["status"] == "unfinished"
    with pytest.raises(CheckpointError, match=r"cut off before its first checkpoint, .* again under the same name"):
        resume(small_model(), *small_loaders(), tmp_path / "run")
    run = fit(small_model(), *small_loaders(), CONFIG.replace(run_dir=str(tmp_path)))
    assert run.status == "finished" and run.folder == tmp_path / "run"
    assert "was cut off before its first checkpoint, so it begins anew" in capsys.readouterr().out
    assert resume(small_model(), *small_loaders(), run.folder).history == run.history
    with pytest.raises(CheckpointError, match="is not overwritten"):
        fit(small_model(), *small_loaders(), CONFIG.replace(run_dir=str(tmp_path)))
