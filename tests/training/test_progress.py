import os
import subprocess
import sys

import pytest

from labkit.training.progress import Progress

ROW = {
    "epoch": 1,
    "train_loss": 0.5,
    "train_accuracy": 0.25,
    "val_loss": 0.75,
    "val_accuracy": 0.5,
    "learning_rate": 0.001,
    "seconds": 1.26,
}


def test_a_row_an_epoch_under_one_heading_and_the_best_is_marked(capsys):
    progress = Progress(epochs=2, updates_per_epoch=8)
    progress.row(ROW, best=True)
    progress.row(ROW | {"epoch": 2}, best=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[-1].strip() == "seconds" and "running acc." in lines[0]
    assert lines[1].split() == ["1", "0.5000", "25.00%", "0.7500*", "50.00%", "1.0e-03", "1.3"]
    assert lines[2].split() == ["2", "0.5000", "25.00%", "0.7500", "50.00%", "1.0e-03", "1.3"]
    assert len({len(line) for line in lines}) == 1, "columns stand under each other"


def test_without_validation_there_are_no_such_columns(capsys):
    Progress(1, 8).row(ROW | {"val_loss": None, "val_accuracy": None}, best=False)
    assert "val" not in capsys.readouterr().out


def test_nobody_watching_means_no_line_that_rewrites_itself(capsys, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    Progress(1, 8).line(1, 3, 0.5)
    assert capsys.readouterr().out == ""


def test_in_a_lab_the_line_rewrites_itself_and_goes_before_the_row(capsys, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "notebook.ipynb")
    progress = Progress(1, 8)
    progress.line(1, 3, 0.5)
    progress.line(1, 4, 0.4)  # sooner than half a second later: left out
    progress.row(ROW, best=False)
    out = capsys.readouterr().out
    assert "\repoch 1/1  update 3/8  loss 0.5000" in out and "update 4" not in out
    assert out.index("loss 0.5000") < out.index("\r   ") < out.index("running acc.")


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are a POSIX matter")
def test_in_a_terminal_it_rewrites_itself():
    import pty

    leader, follower = pty.openpty()
    program = "from labkit.training.progress import Progress; Progress(1, 8).line(1, 3, 0.5)"
    environment = {name: value for name, value in os.environ.items() if name != "JPY_SESSION_NAME"}
    subprocess.run([sys.executable, "-c", program], stdout=follower, env=environment, check=True)
    os.close(follower)
    assert b"update 3/8" in os.read(leader, 1000)
    os.close(leader)
