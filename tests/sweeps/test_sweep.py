"""Sweeps over real notebooks: killed half-way and started again, with a run that fails; here and on a Dask cluster."""

import csv
import json
import subprocess
import sys
import time

import nbformat
import pytest

from labkit.sweeps import running
from tests.command_line import COMMAND, labkit, refused
from tests.sweeps.small_notebook import made, write_notebook


def statuses(folder) -> list[str]:
    return [json.loads(file.read_text(encoding="utf-8"))["status"] for file in sorted(folder.glob("run-*/result.json"))]


@pytest.mark.slow
def test_twelve_runs_two_at_a_time_one_failing_killed_half_way_and_started_again(tmp_path):
    notebook, out = write_notebook(tmp_path), tmp_path / "out"
    command = ["sweep", str(notebook), "--grid", "width=1,2,3,4,5,6", "--grid", "rate=0.5,2.0", "--grid", "pause=0.2"]
    command += ["--grid", "bad_rate=2.0", "--jobs", "2", "--out", str(out)]
    with open(tmp_path / "said.txt", "w") as said:
        launched = subprocess.Popen([*COMMAND, *command], stdout=subprocess.DEVNULL, stderr=said)
    while len(statuses(out)) < 5 and launched.poll() is None:
        time.sleep(0.05)
    launched.kill()
    launched.wait()
    assert (tmp_path / "said.txt").read_text(encoding="utf-8") == "" and len(statuses(out)) < 12

    again = labkit(*command)
    assert again.returncode == 1 and "12 runs of small.ipynb: 11 finished, 1 failed" in again.stdout, again.stdout
    assert "runs were made before." in again.stdout
    assert sorted(statuses(out)) == ["failed"] + ["finished"] * 11
    assert "AssertionError: this one cannot work, in cell" in again.stdout
    assert len(made(tmp_path)) == len(set(made(tmp_path))) == 11, "no finished run is repeated"
    with open(out / "results.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    good = [row for row in rows if row["status"] == "finished"]
    assert all(float(row["score"]) == float(row["width"]) * float(row["rate"]) for row in good) and len(good) == 11
    assert (out / "results.png").stat().st_size > 10_000
    failed = next(row["run"] for row in rows if row["status"] == "failed")
    cells = nbformat.read(out / failed / "notebook.ipynb", as_version=4).cells
    assert any(output.output_type == "error" for cell in cells for output in cell.get("outputs", []))
    listed = labkit("runs", str(out))
    assert listed.stdout.startswith("12 runs in ") and "this one cannot work" in listed.stdout

    third = labkit(*command, "--json")
    assert third.returncode == 1 and len(made(tmp_path)) == 11
    assert [row["status"] for row in json.loads(third.stdout)["runs"]].count("finished") == 11


@pytest.mark.slow
def test_the_same_over_a_dask_cluster(tmp_path):
    distributed = pytest.importorskip("dask.distributed", reason="the extra `cluster` is not installed")
    notebook, out = write_notebook(tmp_path), tmp_path / "out"
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        answer = labkit(
            "sweep", str(notebook), "--grid", "width=1,2,3", "--grid", "rate=2.0", "--grid", "bad_rate=2.0",
            "--backend", "dask", "--scheduler", cluster.scheduler_address, "--out", str(out),
        )  # fmt: skip
    assert answer.returncode == 1 and "3 runs of small.ipynb: 2 finished, 1 failed" in answer.stdout, answer.stderr
    assert sorted(made(tmp_path)) == ["1 2.0", "2 2.0"]


@pytest.mark.slow
def test_the_record_of_a_training_becomes_that_of_its_run(tmp_path):
    cells = (
        ("parameters", "epochs: int = 1\nrun_dir: str = 'runs'"),
        ("", "from labkit import training\nchosen = {'data': 'digits', 'model': 'mlp', 'device': 'cpu'}"),
        ("", "training.project(training.Config(**chosen, epochs=epochs, run_dir=run_dir));"),
    )
    notebook, out = write_notebook(tmp_path, cells), tmp_path / "out"
    answer = labkit("sweep", str(notebook), "--grid", "epochs=2", "--out", str(out), "--json")
    assert answer.returncode == 0, answer.stderr
    (row,) = json.loads(answer.stdout)["runs"]
    assert row["epochs"] == 2 and row["test_accuracy"] > 0.5 and row["val_accuracy"] > 0.5
    assert not (tmp_path / "runs").exists(), "the records lie in the folder of the sweep"
    (listed,) = json.loads(labkit("runs", str(out), "--json").stdout)
    assert listed["run"] == "run-001" and listed["epochs"] == 2 and listed["test accuracy"] == row["test_accuracy"]
    assert listed["best val accuracy"] == row["val_accuracy"]


def test_dask_without_an_answer_is_said(tmp_path):
    pytest.importorskip("dask.distributed", reason="the extra `cluster` is not installed")
    command = ["sweep", str(write_notebook(tmp_path)), "--grid", "width=1", "--backend", "dask"]
    assert "needs the address of a scheduler" in refused(labkit(*command, "--out", str(tmp_path / "a")))
    answer = refused(labkit(*command, "--scheduler", "nonsense://x", "--out", str(tmp_path / "b")))
    assert "No Dask scheduler answers at nonsense://x" in answer


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--grid", "widht=1,2"], "no parameter 'widht'. Did you mean 'width'?"),
        (["--grid", "width=1,two"], "'width' must be a whole number, but it is 'two'"),
        (["--grid", "width=1,1"], "comes twice"),
        (["--grid", "width"], "'width' is not understood"),
        (["--grid", "width=1", "--grid", "width=2"], "is given twice"),
        (["--random", "rate=log(0,1)", "--trials", "2"], "log needs two numbers above 0"),
        (["--random", "rate=normal(0,1)", "--trials", "2"], "rate=normal(0,1) is not understood"),
        (["--random", "width=int(1.5,2)", "--trials", "2"], "int needs two whole numbers"),
        (["--random", "rate=log(1e-3,1)"], "belong together"),
        (["--random", "rate=log(1e-3,1)", "--grid", "rate=1.0", "--trials", "2"], "in --grid and in --random"),
        ([], "Name what to vary"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(tmp_path, options, sentence):
    answer = labkit("sweep", str(write_notebook(tmp_path)), *options, "--out", str(tmp_path / "out"))
    assert sentence in refused(answer)
    assert not (tmp_path / "out").exists()


def test_an_impossible_setting_of_a_training_is_said_before_anything_starts(tmp_path):
    cells = ("parameters", "epochs: int = 1"), ("", "from labkit.training import Config\nConfig(epochs=epochs)")
    notebook = write_notebook(tmp_path, cells)
    answer = refused(labkit("sweep", str(notebook), "--grid", "epochs=1,0", "--out", str(tmp_path / "out")))
    assert "epochs=0 is too small: it must be at least 1" in answer and not (tmp_path / "out").exists()


def test_a_notebook_without_parameters_and_other_files_are_refused(tmp_path):
    bare = write_notebook(tmp_path, (("", "1 + 1"),))
    (tmp_path / "text.ipynb").write_text("no notebook", encoding="utf-8")
    for notebook, sentence in (
        (bare, "no cell with the tag `parameters`"),
        (tmp_path / "text.ipynb", "is no notebook"),
        (tmp_path / "gone.ipynb", "cannot be read"),
    ):
        answer = labkit("sweep", str(notebook), "--grid", "a=1", "--out", str(tmp_path / "out"))
        assert sentence in refused(answer)


def test_draws_have_the_types_of_the_notebook_and_come_again_with_their_seed():
    from labkit.sweeps.parameters import combinations, random_values

    declared = {"width": int, "rate": float, "model": str}
    chosen = random_values(["width=int(2,9)", "rate=log(1e-4,1e-1)", "model=cnn,mlp"])
    runs = combinations({"width": [1, 2]}, {"rate": chosen["rate"], "model": chosen["model"]}, 5, 0, declared)
    assert len(runs) == 10 and {run["width"] for run in runs} == {1, 2}
    assert runs == combinations({"width": [1, 2]}, {"rate": chosen["rate"], "model": chosen["model"]}, 5, 0, declared)
    runs = combinations({}, chosen, 40, 1, declared)
    assert all(type(run["width"]) is int and 2 <= run["width"] <= 9 for run in runs)
    assert {run["width"] for run in runs} == set(range(2, 10)), "both ends belong to it"
    assert all(type(run["rate"]) is float and 1e-4 <= run["rate"] <= 1e-1 for run in runs)
    assert sum(run["rate"] < 10**-2.5 for run in runs) in range(8, 33), "as many below the middle power as above"


def test_another_sweep_in_the_same_folder_is_refused(tmp_path):
    from labkit.sweeps import plan

    notebook, out = write_notebook(tmp_path), tmp_path / "out"
    plan.begin(notebook, out, [{"width": 1}])
    answer = refused(labkit("sweep", str(notebook), "--grid", "width=1,2", "--out", str(out)))
    assert "holds a sweep with other parameters" in answer
    changed = write_notebook(tmp_path, (("parameters", "width: int = 1"), ("", "width + 1")))
    assert "has changed since" in refused(labkit("sweep", str(changed), "--grid", "width=1", "--out", str(out)))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine", encoding="utf-8")
    answer = refused(labkit("sweep", str(notebook), "--grid", "width=1", "--out", str(tmp_path / "full")))
    assert "is not empty and holds no sweep" in answer


def test_runs_have_different_gpus_while_there_are_enough(monkeypatch, tmp_path):
    monkeypatch.setattr(running.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    with running.own_gpu() as first, running.own_gpu() as second, running.own_gpu() as third:
        given = [one["CUDA_VISIBLE_DEVICES"] for one in (first, second, third)]
    assert given == ["3", "5", "3"], "the third shares"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    with running.own_gpu() as alone:
        assert alone == {}, "nothing to choose"


def test_a_process_that_dies_is_a_failed_run(tmp_path):
    from labkit.sweeps import plan

    cells = ("parameters", "width: int = 1"), ("", "import os\nos._exit(3)")
    sweep = plan.begin(write_notebook(tmp_path, cells), tmp_path / "out", [{"width": 1}])
    assert running.make(sweep.folder, "run-001") == "run-001"
    result = sweep.recorded("run-001").result
    assert result["status"] == "failed" and "Kernel died" in result["error"], result
    assert sweep.waiting() == [] and sys.executable
