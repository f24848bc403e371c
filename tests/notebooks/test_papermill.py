"""Every chapter end to end through papermill, with parameters that arrive or are refused."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import nbformat
import papermill
import pytest
from PIL import Image

from labkit.course import places

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
FAST_FOR = "00_start_here"  # every chapter is run by nbval, too

pytestmark = pytest.mark.usefixtures("run_like_the_builder")


# Each chapter passes its parameters to the same function (see test_stored.py), so two chapters stand for all others.
SHORT_AND_LONG = [
    pytest.param(each, id=each.name, marks=[] if each.name.startswith(("00", "09")) else pytest.mark.exhaustive)
    for each in places.chapters(NOTEBOOKS.parent)
]


def run(chapter, folder: Path, **parameters: object) -> nbformat.NotebookNode:
    """Run a chapter with papermill as from `folder`, and return the executed notebook."""
    return papermill.execute_notebook(
        chapter.notebook,
        folder / "out.ipynb",
        parameters,
        cwd=NOTEBOOKS,
        kernel_name="python3",
        progress_bar=False,
        execution_timeout=300,
    )


def test_a_chapter_runs_to_its_end_from_any_folder_and_its_parameters_arrive(chapter, declared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = {"fast": True, "run_dir": str(tmp_path / "runs"), "seed": 1}
    changes = {name: value for name, value in changes.items() if name in declared}
    notebook = run(chapter, tmp_path, **changes)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code[1].metadata.tags == ["injected-parameters"]
    assert all(cell.execution_count for cell in code)
    if "run_dir" in declared:
        records = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.glob("runs/*/run.json")]
        assert records and all(record["config"]["seed"] == changes.get("seed", 0) for record in records)


@pytest.mark.parametrize("chapter", SHORT_AND_LONG)
def test_an_unknown_parameter_is_refused(chapter, tmp_path):
    with pytest.raises(papermill.PapermillExecutionError, match=r"ConfigError.*no parameter 'fest'.*mean 'fast'\?"):
        run(chapter, tmp_path, fest=True)


@pytest.mark.parametrize("chapter", SHORT_AND_LONG)
def test_a_parameter_of_another_type_is_refused(chapter, tmp_path):
    with pytest.raises(papermill.PapermillExecutionError, match=r"ConfigError.*'fast' must be True or False"):
        run(chapter, tmp_path, fast="no")


@pytest.mark.parametrize("chapter", SHORT_AND_LONG)
def test_an_impossible_value_is_refused(chapter, declared, tmp_path):
    if "epochs" in declared:
        with pytest.raises(papermill.PapermillExecutionError, match=r"ConfigError.*epochs=0"):
            run(chapter, tmp_path, epochs=0)


@pytest.fixture
def pictures(tmp_path) -> Path:
    """A tar of pictures in three classes that differ by their colour, as split/class/picture."""
    for part, count in (("train", 40), ("test", 10)):
        for name, colour in (("red", (200, 30, 30)), ("green", (30, 200, 30)), ("blue", (30, 30, 200))):
            folder = tmp_path / "pictures" / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                shade = tuple(min(255, channel + number) for channel in colour)
                Image.new("RGB", (32, 32), shade).save(folder / f"{number}.png")
    archive = tmp_path / "pictures.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tmp_path / "pictures", arcname="pictures")
    return archive


@pytest.mark.slow
def test_the_project_trains_on_pictures_of_ones_own_from_the_command_line(pictures, tmp_path):
    source, target = NOTEBOOKS / "09_cifar10.ipynb", tmp_path / "out.ipynb"
    command = [sys.executable, "-m", "papermill", str(source), str(target), "--cwd", str(NOTEBOOKS), "-k", "python3"]
    command += ["-p", "data", str(pictures), "-p", "epochs", "1", "-p", "fast", "False", "--no-progress-bar"]
    command += ["-p", "run_dir", str(tmp_path / "runs")]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr
    (record,) = tmp_path.glob("runs/*/run.json")
    settings = json.loads(record.read_text(encoding="utf-8"))["config"]
    assert settings["epochs"] == 1 and settings["data"] == str(pictures)
    result = json.loads(record.with_name("result.json").read_text(encoding="utf-8"))
    assert 0 <= result["test_accuracy"] <= 1
