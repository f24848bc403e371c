"""`labkit runs` and `labkit rerun` as a user meets them: what they print and how they end."""

import json
import shutil

import pytest

from tests.command_line import labkit, labkit_process, refused
from tests.runs.small_runs import small_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    small_run(folder / "runs", "a")
    small_run(folder / "runs", "b", learning_rate=0.01)
    (folder / "runs" / "half").mkdir()
    (folder / "runs" / "half" / "run.json").write_text('{"config"', encoding="utf-8")
    return folder


def test_the_list_as_table_and_as_data(folder):
    shown = labkit("runs", folder=folder)
    assert shown.returncode == 0 and shown.stderr == ""
    lines = shown.stdout.splitlines()
    assert lines[0] == "3 runs in runs" and [line.split()[:2] for line in lines[2:]] == [
        ["a", "finished"],
        ["b", "finished"],
        ["half", "damaged"],
    ]
    assert lines[-1].endswith("run.json is cut off or damaged.")
    for arguments in (["runs", "--json"], ["runs", "runs", "--json"], ["runs", "list", "--json"]):
        rows = json.loads(labkit(*arguments, folder=folder).stdout)
        assert [row["epochs"] for row in rows] == [2, 2, 0]


def test_the_list_needs_no_torch(folder, tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('not here')", encoding="utf-8")
    shutil.copytree(folder / "runs", tmp_path / "runs")
    assert labkit_process("runs", folder=tmp_path).stdout.startswith("3 runs in runs")


def test_names_that_steer_the_terminal_do_not(folder, tmp_path):
    try:
        shutil.copytree(folder / "runs" / "a", tmp_path / "runs" / "red\x1b[31m\nline")
    except OSError:
        return  # no such names here
    shown = labkit("runs", folder=tmp_path).stdout
    assert "\x1b" not in shown and len(shown.splitlines()) == 3


def test_two_runs_side_by_side(folder):
    shown = labkit("runs", "compare", "a", "runs/b", folder=folder)
    assert "learning_rate  0.02  0.01" in shown.stdout and "best val accuracy" in shown.stdout
    data = json.loads(labkit("runs", "compare", "a", "b", "--in", "runs", "--json", folder=folder).stdout)
    assert {"what": "learning_rate", "a": 0.02, "b": 0.01} in data["differences"]


def test_the_curves_are_drawn_into_a_file(folder, tmp_path):
    out = tmp_path / "curves.png"
    shown = labkit("runs", "plot", "a", "b", "half", "--out", str(out), folder=folder)
    assert shown.returncode == 0 and "a: 2 epochs, lowest validation loss" in shown.stdout
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["runs", "nowhere"], "no runs to list in nowhere"),
        (["runs", "compare", "a"], "two or more"),
        (["runs", "compare", "a", "a"], "named twice"),
        (["runs", "compare", "a", "../runs"], "no run '../runs'"),
        (["runs", "plot", "a", "--out", "runs/a/last.pt"], "does not end in .png"),
        (["runs", "plot", "a", "--out", "none/curves.png"], "cannot be written: No such file"),
        (["runs", "plot", "half", "--out", "curves.png"], "no epoch to draw"),
        (["rerun", "nothing"], "no run 'nothing'"),
        (["rerun", "half"], "run.json is cut off or damaged"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(folder, arguments, said):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert said in refused(labkit(*arguments, folder=folder))
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", [["runs"], ["runs", "list"], ["runs", "compare"], ["runs", "plot"], ["rerun"]])
def test_every_help_has_examples(command):
    finished = labkit(*command, "--help")
    assert finished.returncode == 0 and "Examples:\n" in finished.stdout


@pytest.mark.slow
def test_a_recorded_run_of_the_digits_comes_out_the_same_again(tmp_path):
    """On the CPU: history and weights, bit for bit; a record that says something else is found out."""
    settings = ["--epochs", "2", "--device", "cpu", "--average", "0.9", "--flip", "--cutout", "3", "--num-workers", "1"]
    assert labkit_process("train", *settings, "--name", "first", folder=tmp_path).returncode == 0
    again = labkit_process("rerun", "first", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "history: the same, bit for bit, in all 2 epochs" in again.stdout
    assert "weights: the same, bit for bit (last.pt and best.pt)" in again.stdout

    first, second = tmp_path / "runs" / "first", tmp_path / "runs" / "first-again"
    histories = [
        [json.loads(line) | {"seconds": 0} for line in (folder / "history.jsonl").read_text("utf-8").splitlines()]
        for folder in (first, second)
    ]
    assert histories[0] == histories[1] and len(histories[0]) == 2

    lines = (first / "history.jsonl").read_text("utf-8").splitlines()
    row = json.loads(lines[1])
    changed = json.dumps(row | {"train_loss": row["train_loss"] + 1e-9})
    (first / "history.jsonl").write_text(f"{lines[0]}\n{changed}\n", encoding="utf-8")
    third = labkit_process("rerun", "runs/first", "--json", folder=tmp_path)
    outcome = json.loads(third.stdout)
    assert third.returncode == 1 and outcome["equal"] is False and outcome["weights"] == ""
    assert outcome["history"].startswith("differs first in epoch 2: train_loss")
    assert outcome["run_dir"].endswith("first-again-2")
