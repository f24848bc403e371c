"""A run that was cut and resumed must end as the uncut one: bit for bit, wherever it was cut."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.nn as nn

from labkit.data.loading import loader
from labkit.errors import CheckpointError
from labkit.runs import checkpoint
from labkit.training import Config, fit, resume
from tests.training.helpers import assert_identical, small_loaders, small_model, stripes, without_times

fit_module = importlib.import_module("labkit.training.fit")

# Dropout, augmentation (see small_loaders), accumulation with a partial last window, clipping, a schedule, an average
# of the weights: all on.
CONFIG = Config(
    epochs=2,
    batch_size=8,
    accumulate=3,
    device="cpu",
    learning_rate=0.02,
    clip_norm=1.0,
    log_every=2,
    patience=5,
    average=0.9,
    class_weights="balanced",
    keep_best=2,
    name="run",
)
UPDATES = 6  # 8 batches an epoch make 3 windows


def cut_after(monkeypatch, updates: int) -> None:
    """Let a real Ctrl-C arrive in the middle of one update."""
    real_update, made = fit_module.update, []

    def update(*arguments):
        outcome = real_update(*arguments)
        made.append(outcome)
        if len(made) == updates:
            signal.raise_signal(signal.SIGINT)
        return outcome

    monkeypatch.setattr(fit_module, "update", update)


def outcome_of(run, model) -> dict:
    """Return everything that must be equal: weights, buffers, optimizer, history, best weights, all generators."""
    state = checkpoint.load(run.folder / "last.pt")
    return without_times({"in_memory": dict(model.state_dict()), "history": run.history} | state)


def uncut(folder: Path, config: Config, num_workers: int = 0) -> dict:
    model = small_model()
    return outcome_of(fit(model, *small_loaders(num_workers=num_workers), config.replace(run_dir=str(folder))), model)


@pytest.mark.parametrize("amp", ["off", "fp16"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_cut_after_every_single_update(tmp_path, monkeypatch, amp, optimizer):
    config = CONFIG.replace(amp=amp, optimizer=optimizer, schedule="plateau" if optimizer == "sgd" else "one_cycle")
    expected = uncut(tmp_path / "uncut", config)
    for updates in range(1, UPDATES):
        with monkeypatch.context() as patch:
            cut_after(patch, updates)
            first = fit(small_model(), *small_loaders(), config.replace(run_dir=str(tmp_path / f"cut{updates}")))
        assert first.status == "interrupted" and first.updates == updates
        torch.manual_seed(99)  # whatever happened between: the checkpoint brings its own random numbers
        model = small_model(seed=5)
        second = resume(model, *small_loaders(), first.folder)
        assert second.status == "finished" and second.updates == UPDATES
        assert_identical(outcome_of(second, model), expected)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_worker_processes_change_nothing(tmp_path, monkeypatch, num_workers):
    expected = uncut(tmp_path / "uncut", CONFIG)
    assert_identical(uncut(tmp_path / "workers", CONFIG, num_workers), expected)
    with monkeypatch.context() as patch:
        cut_after(patch, 2)
        first = fit(
            small_model(), *small_loaders(num_workers=num_workers), CONFIG.replace(run_dir=str(tmp_path / "cut"))
        )
    model = small_model(seed=5)
    second = resume(model, *small_loaders(num_workers=2 - num_workers), first.folder)
    assert_identical(outcome_of(second, model), expected)


def test_cut_many_times_also_during_the_validation(tmp_path, monkeypatch):
    expected = uncut(tmp_path / "uncut", CONFIG)
    config, model = CONFIG.replace(run_dir=str(tmp_path / "cut")), small_model()
    with monkeypatch.context() as patch:
        cut_after(patch, 3)  # the last update of the first epoch: its validation is left out
        run = fit(model, *small_loaders(), config)
    assert run.history == []
    for _ in range(3):
        with monkeypatch.context() as patch:
            cut_after(patch, 1)
            run = resume(model, *small_loaders(), run.folder)
    assert run.updates == UPDATES and len(run.history) == 1, "cut once more before the last validation"
    run = resume(model, *small_loaders(), run.folder)
    assert_identical(outcome_of(run, model), expected)


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    model = small_model()
    run = fit(model, *small_loaders(), CONFIG.replace(run_dir=str(tmp_path)))
    again = resume(small_model(seed=7), *small_loaders(), run.folder)
    assert again.status == "finished" and again.history == run.history and again.updates == run.updates
    lines = (run.folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == run.history


def test_an_early_stop_is_not_undone_by_a_resume(tmp_path):
    config = CONFIG.replace(epochs=60, learning_rate=0.5, schedule="constant", patience=2, run_dir=str(tmp_path))
    model = small_model()
    run = fit(model, *small_loaders(), config)
    assert run.status == "stopped early"
    other = small_model(seed=3)
    again = resume(other, *small_loaders(), run.folder)
    assert again.status == "stopped early" and len(again.history) == len(run.history)
    assert_identical(dict(other.state_dict()), dict(model.state_dict()))


def finished(folder: Path):
    return fit(small_model(), *small_loaders(), CONFIG.replace(run_dir=str(folder)))


def test_another_model_is_refused_and_the_difference_named(tmp_path):
    run = finished(tmp_path)
    wider = nn.Sequential(nn.Conv2d(1, 5, 3, padding=1), nn.Flatten(), nn.Linear(320, 3))
    with pytest.raises(
        CheckpointError, match=r"of another model .*'0.weight' is \(4, 1, 3, 3\) there and \(5, 1, 3, 3\) here"
    ):
        resume(wider, *small_loaders(), run.folder)
    with pytest.raises(CheckpointError, match="the checkpoint has no"):
        resume(nn.Sequential(small_model(), nn.Linear(3, 3)), *small_loaders(), run.folder)


def test_other_data_or_batches_are_refused(tmp_path):
    run = finished(tmp_path)
    other = loader(stripes(60, seed=1), 8, shuffle=True)
    with pytest.raises(CheckpointError, match="other data"):
        resume(small_model(), other, small_loaders()[1], run.folder)
    with pytest.raises(CheckpointError, match="as many batches, with other pictures or labels"):
        resume(small_model(), other, small_loaders()[1], run.folder)
    with pytest.raises(CheckpointError, match="8 batches then, 4 now"):
        resume(small_model(), *small_loaders(batch_size=16), run.folder)


def rewritten(folder: Path, change) -> None:
    """Change the content of a run's checkpoints and give them a right checksum again."""
    state = checkpoint.load(folder / "last.pt")
    change(state)
    for name in ("last.pt", "last.previous.pt"):
        checkpoint.save(folder / name, state)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda state: state.pop("config"), "has no 'config'"),
        (lambda state: state.pop("optimizer"), "has no 'optimizer'"),
        (lambda state: state.update(rng={}), "does not hold what a run needs"),
        (lambda state: state["model"].update({"0.weight": "x"}), "'0.weight' is no tensor there"),
        (lambda state: state.update(position={}), "does not hold what a run needs"),
        (lambda state: state["config"].update(epochs=50), "run.json in .* says epochs=2, and last.pt 50"),
    ],
    ids=["no settings", "no optimizer", "no generators", "no tensor", "no position", "other settings"],
)
def test_a_checkpoint_that_is_not_of_this_run_is_refused(tmp_path, change, sentence):
    run = finished(tmp_path)
    rewritten(run.folder, change)
    with pytest.raises(CheckpointError, match=sentence):
        resume(small_model(), *small_loaders(), run.folder)


def test_the_best_weights_are_no_checkpoint_of_a_run(tmp_path):
    run = finished(tmp_path)
    for name in ("last.pt", "last.previous.pt"):
        shutil.copy(run.folder / "best.pt", run.folder / name)
    with pytest.raises(CheckpointError, match="last.pt in .* has no 'model', so no run can go on from it. best.pt"):
        resume(small_model(), *small_loaders(), run.folder)


@pytest.mark.parametrize("damage", [None, "", "{", "[]", '{"config": 3}'])
def test_run_json_may_be_gone_or_damaged(tmp_path, damage):
    run = finished(tmp_path)
    (run.folder / "run.json").unlink()
    if damage is not None:
        (run.folder / "run.json").write_text(damage, encoding="utf-8")
    assert resume(small_model(), *small_loaders(), run.folder).history == run.history


def test_no_run_there_is_said(tmp_path):
    with pytest.raises(CheckpointError, match=r"There is no last.pt in .*nowhere"):
        resume(small_model(), *small_loaders(), tmp_path / "nowhere")


def test_a_damaged_newest_checkpoint_costs_an_epoch_but_not_the_result(tmp_path, capsys):
    expected = uncut(tmp_path / "uncut", CONFIG)
    run = finished(tmp_path / "damaged")
    newest = run.folder / "last.pt"
    newest.write_bytes(newest.read_bytes()[:-200])
    model = small_model(seed=4)
    again = resume(model, *small_loaders(), run.folder)
    assert "Going on from last.previous.pt" in capsys.readouterr().out
    assert_identical(outcome_of(again, model), expected)


CHILD = """
import sys
from labkit.training import Config, fit, resume
from tests.training.helpers import small_loaders, small_model
from tests.training.test_resume import CONFIG
from pathlib import Path
folder = Path(sys.argv[1])
if __name__ == "__main__":
    if (folder / "run" / "last.pt").exists() or (folder / "run" / "last.previous.pt").exists():
        run = resume(small_model(5), *small_loaders(), folder / "run")
    else:
        config = CONFIG.replace(epochs=40, patience=0, save_every=1, run_dir=str(folder))
        run = fit(small_model(), *small_loaders(), config)
    print(run.status)
"""


def age_of(newest: Path) -> int:
    """Return when the newest checkpoint was written; 0 in the instant between its two renames, or before the first."""
    try:
        return newest.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def kill_after_next_checkpoint(child: subprocess.Popen, newest: Path, delay: float) -> bool:
    """Kill a child a little after it has written a checkpoint; False when it ended by itself before."""
    before = age_of(newest)
    while child.poll() is None and age_of(newest) in (0, before):
        time.sleep(0.001)
    time.sleep(delay)
    child.kill()
    child.communicate()
    return child.returncode != 0


@pytest.mark.slow
def test_killed_at_any_moment_and_resumed_until_finished(tmp_path):
    """SIGKILL (TerminateProcess on Windows) cannot be caught: only what is on the disk counts."""
    expected = uncut(tmp_path / "uncut", CONFIG.replace(epochs=40, patience=0, save_every=1))
    folder = tmp_path / "killed"
    folder.mkdir()
    script = tmp_path / "child.py"
    script.write_text(CHILD, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}

    def start() -> subprocess.Popen:
        return subprocess.Popen([sys.executable, script, folder], env=environment, stdout=subprocess.PIPE, text=True)

    kills = [kill_after_next_checkpoint(start(), folder / "run" / "last.pt", 0.004 * attempt) for attempt in range(6)]
    assert all(kills), "each kill must hit a run in progress"
    output, _ = start().communicate(timeout=300)
    assert output.strip().endswith("finished")
    state = checkpoint.load(folder / "run" / "last.pt")
    trained = without_times({key: value for key, value in state.items() if key != "config"})
    assert_identical(trained, {key: expected[key] for key in trained})
    assert not list((folder / "run").glob("*.tmp"))


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 600 kB; only an administrator on Linux can make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a small disk to fill can only be mounted by an administrator on Linux")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_up_costs_no_result(small_disk, tmp_path):
    """The sentence comes, the checkpoint before is good, and with room again the run ends as if nothing had been."""

    def wide() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 200), nn.ReLU(), nn.Dropout(0.2), nn.Linear(200, 3))

    whole = fit(wide(), *small_loaders(), CONFIG.replace(epochs=4, run_dir=str(tmp_path / "whole")))
    with pytest.raises(CheckpointError, match="No space left on device.*Checkpoints saved before are unharmed"):
        fit(wide(), *small_loaders(), CONFIG.replace(epochs=4, run_dir=str(small_disk)))
    assert not list((small_disk / "run").glob("*.tmp"))
    subprocess.run(["mount", "-o", "remount,size=5m", str(small_disk)], check=True)
    model = wide()
    again = resume(model, *small_loaders(), small_disk / "run")
    expected = checkpoint.load(whole.folder / "best.pt")["weights"]  # of the last epoch: the loss fell in each
    assert_identical(dict(model.state_dict()), dict(expected))
    assert without_times(again.history) == without_times(whole.history)
