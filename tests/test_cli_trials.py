"""`labkit trial` as a user meets it: what it prints and how it ends; once in a process of its own."""

import json

import pytest

from tests.command_line import labkit, labkit_process, refused

QUICK = ["--data", "shapes", "--model", "mlp", "--device", "cpu"]
PNG = b"\x89PNG"


@pytest.mark.parametrize("command", [[], ["overfit"], ["learning-rate"], ["profile"], ["memory"]])
def test_every_help_has_examples_and_the_settings_of_a_training(command):
    shown = labkit("trial", *command, "--help")
    assert shown.returncode == 0 and "Examples:\n" in shown.stdout
    if command:
        assert "--batch-size INTEGER" in shown.stdout and "--json" in shown.stdout and "--out" in shown.stdout
        assert "--epochs" not in shown.stdout and "--run-dir" not in shown.stdout


def test_learning_by_heart(tmp_path):
    out = tmp_path / "losses.png"
    shown = labkit_process("trial", "overfit", *QUICK, "--samples", "8", "--out", str(out), folder=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("passed: 8 samples, ") and shown.stdout.endswith(f"written: {out}\n")
    assert out.read_bytes().startswith(PNG) and [*tmp_path.iterdir()] == [out], "nothing else is kept"


def test_what_cannot_be_learned_by_heart_ends_with_status_1(tmp_path):
    arguments = ["--samples", "200", "--updates", "1", "--json"]
    shown = labkit("trial", "overfit", *QUICK, *arguments, folder=tmp_path)
    outcome = json.loads(shown.stdout)
    assert shown.returncode == 1 and outcome["passed"] is False and len(outcome["losses"]) == 1
    assert outcome["advice"].startswith("The loss")


def test_a_learning_rate_to_begin_with(tmp_path):
    arguments = ["--updates", "30", "--lowest", "1e-5", "--optimizer", "sgd", "--out", "rates.png", "--json"]
    shown = labkit("trial", "learning-rate", *QUICK, *arguments, folder=tmp_path)
    outcome = json.loads(shown.stdout)
    assert shown.returncode == 0 and outcome["rates"][0] == 1e-5
    assert 0 < len(outcome["rates"]) == len(outcome["losses"]) <= 30 and "suggestion" in outcome
    assert outcome["picture"] == "rates.png" and (tmp_path / "rates.png").read_bytes().startswith(PNG)


def test_where_an_update_spends_its_time(tmp_path):
    shown = labkit("trial", "profile", *QUICK, "--updates", "3", "--batch-size", "16", folder=tmp_path)
    assert shown.returncode == 0 and "with a batch of 16 on CPU" in shown.stdout
    assert [line.split()[0] for line in shown.stdout.splitlines()[2:6]] == ["data", "forward", "backward", "step"]


def test_what_an_update_needs_in_memory(tmp_path):
    answers = []
    for size in ("32", "64"):
        shown = labkit("trial", "memory", *QUICK, "--batch-size", size, "--json", folder=tmp_path)
        answers.append(json.loads(shown.stdout))
    small, large = answers
    assert small["total"] + 32 * small["per_sample"] == pytest.approx(large["total"])
    assert small["total"] == sum(row["bytes"] for row in small["rows"]) and small["largest_batch"]["batch_size"] > 64
    as_text = labkit("trial", "memory", *QUICK, "--out", "memory.png", folder=tmp_path).stdout
    assert "kept for backward" in as_text and "largest batch: " in as_text and as_text.endswith("written: memory.png\n")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["overfit", "--samples", "0"], 2, "--samples"),
        (["profile", "--epochs", "3"], 2, "--epochs"),
        (["overfit", "--data", "digitz"], 1, "digits"),
        (["memory", "--batch-size", "0"], 1, "batch_size=0"),
        (["learning-rate", "--lowest", "2"], 1, "must be below highest"),
        (["learning-rate", "--highest", "nan"], 1, "highest"),
        (["profile", "--out", "times.pdf"], 1, "does not end in .png"),
        (["profile", *QUICK, "--updates", "1", "--out", "none/times.png"], 1, "cannot be written: No such file"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path, arguments, status, said):
    assert said in refused(labkit("trial", *arguments, folder=tmp_path), status)
