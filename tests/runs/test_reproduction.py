"""A run that is repeated: the same bit for bit, or the first difference is named."""

import json
import math
import re

import pytest
import torch

from labkit.errors import CheckpointError, ConfigError
from labkit.runs import checkpoint
from labkit.runs.reproduction import compare_runs, settings_for_again
from labkit.training import Config, project, rerun_project
from tests.runs.small_runs import small_run
from tests.training.helpers import small_model

DIGITS = Config(epochs=1, model="mlp", batch_size=128, device="cpu", dropout=0.1, name="first")


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Return the folders of a run and of its repetition."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # outside of any repository
        return small_run(folder, "a", average=0.5).folder, small_run(folder, "b", average=0.5).folder


def edited(folder, name: str, edit) -> None:
    """Change what a checkpoint holds, and sign it again."""
    content = checkpoint.read(folder / name)
    edit(content)
    checkpoint.save(folder / name, content)


def copied(folder, to):
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def test_the_same_run_twice_is_equal(twins):
    outcome = compare_runs(*twins)
    assert outcome.is_equal and outcome.to_dict() == {
        "equal": True,
        "epochs": 2,
        "history": "",
        "weights": "",
        "surroundings": (),
    }
    assert str(outcome).count("bit for bit") == 2 and "With others the last digits may differ" in str(outcome)


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        ("last.pt", lambda state: state["model"]["0.weight"][0, 0, 0].add_(1e-7), "last.pt .*model 0.weight"),
        ("last.pt", lambda state: state["average"]["values"]["0.bias"][0].mul_(-1), "last.pt .*average values 0.bias"),
        ("last.pt", lambda state: state["model"].pop("0.bias"), "last.pt differs first in model$"),
        ("last.pt", lambda state: state.update(average=None), "last.pt differs first in average$"),
        ("best.pt", lambda best: best["weights"].update({"0.bias": torch.zeros(4).double()}), "best.pt .*0.bias"),
        ("best.pt", lambda best: best.update(epoch=7), "best.pt differs first in epoch"),
    ],
)
def test_one_bit_in_the_weights_is_found(twins, tmp_path, name, edit, said):
    changed = copied(twins[1], tmp_path / "b")
    edited(changed, name, edit)
    outcome = compare_runs(twins[0], changed)
    assert not outcome.is_equal and not outcome.history
    assert re.search(said, outcome.weights), outcome.weights


def test_weights_that_are_nan_in_both_are_equal_and_zeros_of_different_sign_are_not(twins, tmp_path):
    for name, value in (("nan", math.nan), ("zero", 0.0), ("minus", -0.0)):
        edited(copied(twins[0], tmp_path / name), "last.pt", lambda state, v=value: state["model"]["0.bias"].fill_(v))
    edited(copied(tmp_path / "nan", tmp_path / "again"), "last.pt", lambda state: None)
    assert compare_runs(tmp_path / "nan", tmp_path / "again").is_equal
    assert not compare_runs(tmp_path / "zero", tmp_path / "minus").is_equal


def test_a_difference_in_the_history_is_named(twins, tmp_path):
    changed = copied(twins[1], tmp_path / "b")
    rows = [json.loads(line) for line in (changed / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    (changed / "history.jsonl").write_text(json.dumps(rows[0]) + "\n", encoding="utf-8")
    assert compare_runs(twins[0], changed).history == "2 epochs then, 1 now"
    rows[1]["val_loss"] = math.nextafter(rows[1]["val_loss"], 1.0)
    (changed / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert compare_runs(twins[0], changed).history.startswith("differs first in epoch 2: val_loss ")


def test_other_surroundings_are_named(twins, tmp_path):
    changed = copied(twins[0], tmp_path / "a")
    facts = json.loads((changed / "run.json").read_text(encoding="utf-8"))
    facts["versions"]["torch"], facts["device_name"] = "0.1", "an \x1b[31mabacus"
    (changed / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    outcome = compare_runs(changed, twins[1])
    assert outcome.is_equal
    assert f"versions torch: 0.1 then, {torch.__version__} now" in outcome.surroundings
    assert "it changed nothing" in str(outcome) and "\x1b" not in str(outcome)
    edited(changed, "last.pt", lambda state: state["model"]["0.bias"].add_(1.0))
    assert "that can change results" in str(compare_runs(changed, twins[1]))


def test_a_run_that_has_no_end_or_is_damaged_is_not_repeated(twins, tmp_path):
    unfinished = copied(twins[0], tmp_path / "unfinished")
    (unfinished / "result.json").unlink()
    with pytest.raises(CheckpointError, match="unfinished after 2 epochs. To end it: labkit train --resume"):
        settings_for_again(unfinished)
    damaged = copied(twins[0], tmp_path / "damaged")
    (damaged / "best.pt").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"best.pt in .* is cut off"):
        settings_for_again(damaged)
    (damaged / "run.json").write_bytes(b"{")
    with pytest.raises(CheckpointError, match="cannot be repeated: run.json is cut off or damaged."):
        settings_for_again(damaged)


def test_the_new_run_stands_beside_the_old_one_whatever_the_record_says(twins, tmp_path):
    moved = copied(twins[0], tmp_path / "moved")
    facts = json.loads((moved / "run.json").read_text(encoding="utf-8"))
    facts["config"] |= {"name": "../../elsewhere", "run_dir": "/nowhere"}
    (moved / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    names = []
    for _ in range(3):
        settings = settings_for_again(moved)
        assert settings["run_dir"] == str(tmp_path.resolve())
        names.append(settings["name"])
        (tmp_path / settings["name"]).mkdir()
    assert names == ["moved-again", "moved-again-2", "moved-again-3"]


def test_digits_in_another_number_of_threads(tmp_path):
    """The record knows in how many threads it was made, and the repetition uses as many."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    first = project(DIGITS.replace(run_dir=str(tmp_path))).run
    torch.set_num_threads(1)
    again = rerun_project(first.folder).run
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
    assert again.folder == (tmp_path / "first-again").resolve()
    assert compare_runs(first.folder, again.folder).is_equal


def test_a_run_on_other_pictures_or_with_unknown_settings_is_refused(tmp_path):
    run = small_run(tmp_path, "mine", model=small_model())  # its pictures are not those that its settings name
    with pytest.raises(CheckpointError, match="trained on other pictures than data='digits' gives now"):
        rerun_project(run.folder)
    facts = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    facts["config"]["epoch"] = 3
    (run.folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    with pytest.raises(ConfigError, match="no setting named 'epoch'. Did you mean 'epochs'"):
        rerun_project(run.folder)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
