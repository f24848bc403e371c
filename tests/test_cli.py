"""The command line as a user meets it: what it prints and how it ends, with some commands in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from labkit import cli
from tests.command_line import COMMAND, ROOT, labkit, labkit_process, refused

# Help, and mistakes in typing


def test_help_is_instant_and_loads_neither_torch_nor_numpy():
    code = (
        "import sys; sys.argv = ['labkit', '--help']; from labkit.cli import main\ntry: main()\nexcept SystemExit: pass"
    )
    code += "\nprint(sorted({'torch', 'numpy', 'matplotlib', 'jupyter_client', 'nbformat'} & set(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert finished.stdout.splitlines()[-1] == "[]"
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        assert labkit_process("--help").returncode == 0
        seconds.append(time.perf_counter() - begin)
    assert min(seconds) < 1.0


@pytest.mark.parametrize("command", [[], ["check"], ["data"], ["train"], ["build"], ["solve"]])
def test_every_help_has_examples_that_are_not_wrapped(command):
    finished = labkit(*command, "--help")
    assert finished.returncode == 0 and "Examples:\n" in finished.stdout
    assert any(line.startswith("    labkit " + " ".join(command)) for line in finished.stdout.splitlines())


def test_train_has_an_option_for_every_setting_with_help_and_default():
    from dataclasses import fields

    from labkit.training import Config

    text = " ".join(labkit("train", "--help", COLUMNS="200").stdout.split())
    for field in fields(Config):
        assert f"--{field.name.replace('_', '-')}" in text
        assert field.metadata["help"] in text
    assert "--batch-size INTEGER" in text and "--flip / --no-flip" in text and "[mlp|lenet|cnn]" in text
    assert f"[default: {Config().batch_size}]" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chek"], "check"),
        (["train", "--epoch", "3"], "--epochs"),
        (["train", "--epochs", "three"], "integer"),
        (["train", "--model", "cnm"], "cnn"),
        (["train", "--resume", "runs/x", "--seed", "1"], "leave out --seed"),
        (["build", "--chek"], "--check"),
        (["solve", "all"], "--out"),
        (["solve", "--out", "solved"], "CHAPTER...|all"),
    ],
)
def test_mistakes_in_typing_are_named(arguments, said):
    assert said in refused(labkit(*arguments), status=2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--epochs", "0"], "epochs=0"),
        (["train", "--learning-rate", "nan"], "learning_rate"),
        (["train", "--data", "digitz"], "digits"),
        (["train", "--resume", "no/such/run"], "no run folder"),
        (["data", "no_such_folder"], "no_such_folder"),
        (["build", "77"], "no chapter '77'"),
        (["solve", "77", "--out", "solved"], "no chapter '77'"),
        (["solve", "all", "--out", ""], "--out names no folder"),
        (["solve", "all", "--out", " "], "--out names no folder"),
    ],
)
def test_values_that_cannot_be_used_are_one_sentence_and_status_1(arguments, said, tmp_path):
    assert said in refused(labkit(*arguments, folder=ROOT if "77" in arguments else tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_place_of_an_error_is_shown_only_when_asked_for():
    assert "Traceback" in labkit_process("build", "77", LABKIT_DEBUG="1").stderr


def test_without_torch_the_way_out_is_named(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('DLL load failed')", encoding="utf-8")
    said = refused(labkit_process("train", folder=tmp_path))
    assert "DLL load failed" in said and "labkit check" in said


def test_version():
    import labkit as package

    assert labkit_process("--version").stdout == f"labkit {package.__version__}\n"


# check, data


def test_check_as_lines_and_as_json(monkeypatch, capsys):
    from labkit import environment

    report = environment.Report([environment.Line("problem", "torch", "not installed", "Install it")])
    monkeypatch.setattr(environment, "check", lambda: report)
    for arguments in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", ["labkit", "check", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 1
    lines, _, answer = capsys.readouterr().out.partition("{")
    assert "problem  torch" in lines and json.loads("{" + answer)["ready"] is False


def test_data_lists_what_is_there():
    text = labkit("data").stdout
    assert all(name in text for name in ("digits", "shapes", "cifar10", "mnist", "fashion_mnist"))
    rows = {row["name"]: row for row in json.loads(labkit_process("data", "--json").stdout)}
    assert rows["digits"]["on this disk"].startswith("yes")


def test_data_describes_a_data_set():
    text = labkit("data", "digits").stdout
    assert "pictures of 1" in text and "deviation" in text and "fingerprint of test" in text
    facts = json.loads(labkit("data", "digits", "--json").stdout)
    assert facts["image_shape"] == [1, 8, 8] and len(facts["classes"]) == 10
    assert sum(part["pictures"] for part in facts["parts"].values()) == 1797
    assert all(sum(part["counts"]) == part["pictures"] for part in facts["parts"].values())
    assert len(facts["parts"]["train"]["fingerprint"]) == 64


def test_data_describes_a_folder_and_says_what_it_could_not_read(tmp_path):
    from PIL import Image

    for name, shade in (("dark", 10), ("light", 240)):
        (tmp_path / "mine" / name).mkdir(parents=True)
        for number in range(12):
            Image.new("RGB", (8, 8), (shade + number, shade, shade)).save(tmp_path / "mine" / name / f"{number}.png")
    (tmp_path / "mine" / "dark" / "broken.png").write_bytes(b"no picture")
    finished = labkit("data", "mine", folder=tmp_path)
    assert finished.returncode == 0 and "dark" in finished.stdout and "broken.png" in finished.stdout
    assert "Traceback" not in finished.stderr and "pictures.py" not in finished.stderr


# train, build


def test_train_prints_a_table_and_one_json_line_last(tmp_path):
    finished = labkit_process("train", "--epochs", "2", "--run-dir", "here", "--seed", "3", "--json", folder=tmp_path)
    assert finished.returncode == 0, finished.stderr
    (line,) = finished.stdout.splitlines()
    result = json.loads(line)
    assert {"test_accuracy", "seconds", "epochs", "parameters", "run_dir"} <= set(result)
    assert result["epochs"] == 2 and result["test_accuracy"] > 0.5
    assert "val loss" in finished.stderr and "test accuracy" in finished.stderr
    assert f"record: {result['run_dir']}\n" in finished.stderr
    folder = tmp_path / result["run_dir"]
    assert json.loads((folder / "run.json").read_text(encoding="utf-8"))["config"]["seed"] == 3


def test_train_without_a_record_says_so(tmp_path):
    finished = labkit("train", "--epochs", "1", "--run-dir", "", folder=tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1] == "record: none, since --run-dir is empty"
    assert not list(tmp_path.iterdir())


def test_a_run_that_ctrl_c_stopped_goes_on_with_resume(tmp_path):
    if os.name == "nt":
        pytest.skip("Windows sends Ctrl-C to consoles, not to processes")
    command = [*COMMAND, "train", "--epochs", "200", "--name", "long", "--device", "cpu"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while "val loss" not in process.stdout.readline():
        assert process.poll() is None, process.stderr.read()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "labkit train --resume runs" in said and "Traceback" not in said
    history = (tmp_path / "runs" / "long" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert 1 <= len(history) < 200


def test_ctrl_c_outside_of_training_is_a_sentence(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    from labkit import environment

    monkeypatch.setattr(environment, "check", interrupted)
    monkeypatch.setattr(sys, "argv", ["labkit", "check"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130 and capsys.readouterr().err.strip() == "labkit: stopped by Ctrl-C."


def test_an_error_that_nobody_expected_is_a_sentence_too(monkeypatch, capsys):
    def broken():
        raise RuntimeError("odd")

    from labkit import environment

    monkeypatch.setattr(environment, "check", broken)
    monkeypatch.setattr(sys, "argv", ["labkit", "check"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1 and "RuntimeError: odd" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    if os.name == "nt":
        pytest.skip("uses a POSIX pipe")
    line = f"'{sys.executable}' -m labkit data --json | head -c 1"
    finished = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert finished.stderr == ""


HEAD = '# %% [markdown]\n# # Small\n\n# %% tags=["parameters"]\nfast: bool = True  # a short run\n\n'


@pytest.fixture
def source(tmp_path) -> Path:
    """The text of the only chapter of a course, which prints 6."""
    path = tmp_path / "notebooks" / "source" / "01_small.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"{HEAD}# %%\nprint(2 * 3)\n", encoding="utf-8")
    return path


@pytest.mark.slow
def test_build_stores_and_checks_and_shows_what_failed(tmp_path, source):
    assert labkit_process("build", folder=tmp_path).stdout.split()[-1] == "stored"
    checked = labkit_process("build", "01", "--check", folder=source.parent)
    assert checked.returncode == 0 and checked.stdout.split()[-1] == "unchanged"
    source.write_text(f"{HEAD}# %%\nprint(2 * 4)\n", encoding="utf-8")
    assert "Cell 3 (`print(2 * 3)`) has another text" in refused(labkit_process("build", "--check", folder=tmp_path))
    source.write_text(f"{HEAD}# %%\nprint(2 / 0)\n", encoding="utf-8")
    finished = labkit_process("build", folder=tmp_path)
    said = finished.stderr  # with the traceback of the cell, which is the author's
    assert finished.returncode == 1 and "labkit/course" not in said
    assert "cell 3 failed with ZeroDivisionError" in said and "print(2 / 0)" in said


@pytest.mark.slow
def test_solve_writes_editions_and_never_over_what_was_changed(tmp_path, source):
    first = labkit_process("solve", "all", "--out", "solved", folder=tmp_path)
    notebook = tmp_path / "solved" / "01_small.ipynb"
    assert first.returncode == 0 and first.stdout.split()[-1] == str(notebook.relative_to(tmp_path))
    assert sorted(path.name for path in notebook.parent.iterdir()) == ["01_small.ipynb", "nbgrader_config.py"]
    assert "For teachers" in notebook.read_text(encoding="utf-8")
    assert labkit_process("solve", "01", "--out", "solved", folder=tmp_path).returncode == 0
    notebook.write_text(notebook.read_text(encoding="utf-8").replace("print(2 * 3)", "print(5)"), encoding="utf-8")
    assert "was changed since labkit wrote it" in refused(
        labkit_process("solve", "all", "--out", "solved", folder=tmp_path)
    )
    assert labkit_process("build", folder=tmp_path).returncode == 0
    said = refused(labkit_process("solve", "all", "--out", "notebooks", folder=tmp_path))
    assert "where the course keeps its own notebooks. Choose another folder" in said
    somebodys = tmp_path / "mine" / "01_small.ipynb"
    somebodys.parent.mkdir()
    somebodys.write_bytes((tmp_path / "notebooks" / "01_small.ipynb").read_bytes())
    said = refused(labkit_process("solve", "all", "--out", "mine", folder=tmp_path))
    assert "no instructor edition that labkit wrote" in said


@pytest.mark.slow
@pytest.mark.parametrize("command", [["build"], ["solve", "all", "--out", "notebooks/solved"]])
def test_ctrl_c_while_a_chapter_runs_leaves_whole_files_and_no_kernel(command, tmp_path, source):
    if os.name == "nt":
        pytest.skip("Windows sends Ctrl-C to consoles, not to processes")
    assert labkit_process(*command, folder=tmp_path).returncode == 0
    before = {path: path.read_bytes() for path in (tmp_path / "notebooks").rglob("*") if path.is_file()}
    body = "import os\nimport time\nfrom pathlib import Path\n\n"
    body += f"Path({str(tmp_path / 'kernel')!r}).write_text(str(os.getpid()))\ntime.sleep(60)\n"
    source.write_text(f"{HEAD}# %%\n{body}", encoding="utf-8")
    before[source] = source.read_bytes()
    process = subprocess.Popen(
        [*COMMAND, *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Where tests run in the background, a shell may have switched Ctrl-C off; here it is switched on again.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (kernel := tmp_path / "kernel").exists() or not kernel.read_text():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=30)
    assert process.returncode == 130 and said.strip() == "labkit: stopped by Ctrl-C."
    assert printed.split() == ["01_small", "stopped"]
    assert {path: path.read_bytes() for path in (tmp_path / "notebooks").rglob("*") if path.is_file()} == before
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(int(kernel.read_text()), 0)
            time.sleep(0.1)
