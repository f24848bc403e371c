"""start.py: its errors by really running it, its parts one by one, and the lab that it serves."""

import ast
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

import start

ROOT = Path(__file__).resolve().parents[1]
NO_PACKAGES = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_INDEX_URL": "http://127.0.0.1:9"}
needs_signals = pytest.mark.skipif(os.name == "nt", reason="Windows has no process groups to send a Ctrl-C to")


def copy_project(folder: Path) -> Path:
    """Copy what an install needs into a folder with a name that is hard on programs."""
    project = folder / "Kurs für alle"
    project.mkdir()
    for name in ("start.py", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, project)
    return project


def run_start(project: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess:
    """Run start.py from another folder than its own, with no package index in reach."""
    command = [sys.executable, project / "start.py", *map(str, arguments)]
    variables = {**os.environ, **NO_PACKAGES, "PYTHONUTF8": "1", **environment}
    return subprocess.run(command, cwd=project.parent, env=variables, capture_output=True, text=True, encoding="utf-8")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A copy of the project at which the functions of start.py look, instead of at the one under test."""
    project = copy_project(tmp_path)
    monkeypatch.setattr(start, "ROOT", project)
    for name in ("VENV", "PROGRAMS", "PYTHON", "LOG", "STAMP"):
        monkeypatch.setattr(start, name, project / getattr(start, name).relative_to(ROOT))
    return project


# What is missing or in the way


def test_an_old_python_can_read_the_file_and_is_told():
    text = (ROOT / "start.py").read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 6))
    pretend = "import runpy, sys; sys.version_info = (3, 8, 10); runpy.run_path(sys.argv[1], run_name='__main__')"
    told = subprocess.run([sys.executable, "-c", pretend, ROOT / "start.py"], capture_output=True, text=True)
    assert told.returncode == 1
    assert told.stderr.startswith("This course needs Python 3.10 or newer, but ") and " is 3.8." in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_a_python_without_venv(tmp_path, module):
    project = copy_project(tmp_path)
    hiding = tmp_path / "hiding"
    hiding.mkdir()
    line = f"raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')\n"
    (hiding / f"{module}.py").write_text(line, encoding="utf-8")
    told = run_start(project, PYTHONPATH=str(hiding))
    assert told.returncode == 1
    assert f"lacks its module {module}," in told.stderr and "python3-venv" in told.stderr
    assert told.stderr.count("\n") == 1
    assert not (project / ".venv").exists()


def test_a_port_in_use_is_refused_before_anything_is_installed(tmp_path):
    project = copy_project(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = run_start(project, "--port", port)
    assert told.returncode == 1
    free = int(re.fullmatch(rf"Port {port} cannot be used: .+ is free: --port (\d+)\n", told.stderr).group(1))
    start.check_port(free)
    assert not (project / ".venv").exists()


def test_a_port_that_was_freed_a_moment_ago_can_be_used():
    with socket.socket() as server, socket.socket() as client:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        client.connect(("127.0.0.1", port))
        server.accept()[0].close()  # the side that closes first keeps the port waiting
    start.check_port(port)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--prot=8899"], "unrecognized arguments: --prot=8899"),
        (["lab", "notebooks"], "unrecognized arguments: notebooks"),
        (["--prot", "8899"], "unrecognized arguments: --prot\n"),
        (["tset"], "there is no command tset"),
        (["--port", "99999"], "--port must be between 1 and 65535"),
        (["--port", "0"], "--port must be between 1 and 65535"),
        (["--offline", "no such folder"], "no such folder: there is no such folder"),
    ],
)
def test_a_command_line_that_means_nothing(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as stopped:
        start.read_command_line(arguments)
    assert stopped.value.code == 2 and complaint in capsys.readouterr().err


def test_what_start_does_not_know_goes_to_pytest_in_order():
    options, rest = start.read_command_line(
        ["test", "tests/data", "-x", "--cpu", "-k", "digits and not slow", "-p", "no:x"]
    )
    assert (options.command, options.cpu) == ("test", True)
    assert rest == ["tests/data", "-x", "-k", "digits and not slow", "-p", "no:x"]


# What a failed install means

PIP_SAYS = {
    "disk full": (
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
        "The disk is full: ",
    ),
    "no network": (
        "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'NewConnectionError('…: Failed to "
        "establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/torch/\n"
        "ERROR: Could not find a version that satisfies the requirement torch==2.14.1 (from versions: none)\n"
        "ERROR: No matching distribution found for torch==2.14.1\n",
        "The packages cannot be downloaded: ",
    ),
    "nothing for this Python": (
        "ERROR: Could not find a version that satisfies the requirement torch==2.14.1 (from versions: 2.20.0)\n"
        "ERROR: No matching distribution found for torch==2.14.1\n",
        "There is no package torch==2.14.1 for Python ",
    ),
    "anything else": (
        "Collecting six\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n\n",
        "The set-up ended with: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
    ),
    "nothing": ("", "The set-up ended with: no message"),
}


@pytest.mark.parametrize("case", PIP_SAYS)
def test_explain(case):
    text, beginning = PIP_SAYS[case]
    sentence = start.explain(text)
    assert sentence.startswith(beginning) and "\n" not in sentence


def test_explain_names_the_wheel_that_an_offline_folder_lacks():
    text = "ERROR: No matching distribution found for jupyterlab==4.6.6\n"
    assert start.explain(text, Path("wheels")).startswith("wheels has no wheel of jupyterlab==4.6.6 for Python 3.")


def test_a_folder_that_cannot_be_written_gives_a_sentence(project, monkeypatch, capsys):
    (project / ".venv.lock").mkdir()
    assert start.main(["test"]) == 1
    assert capsys.readouterr().err.startswith("The set-up ended with: [Errno ")


# Installed or not


def test_an_install_counts_while_its_lists_and_its_place_are_the_same(project):
    start.PYTHON.parent.mkdir(parents=True)
    start.PYTHON.touch()
    assert not start.is_installed()
    start.STAMP.write_text(start.wanted(), encoding="utf-8")
    assert start.is_installed()
    with open(project / "requirements.txt", "a", encoding="utf-8") as file:
        file.write("six==1.17.0\n")
    assert not start.is_installed()
    start.STAMP.write_text(start.wanted(), encoding="utf-8")
    start.PYTHON.unlink()
    assert not start.is_installed()


@pytest.mark.parametrize("damage", [b"", b"\xcc\xff", b"\n\n", bytes(50)])
def test_a_damaged_stamp_counts_as_none(project, damage):
    start.PYTHON.parent.mkdir(parents=True)
    start.PYTHON.touch()
    start.STAMP.write_bytes(damage)
    assert not start.is_installed() and not start.is_usable()


def test_a_file_in_the_place_of_the_environment_is_named(project, capsys):
    (project / ".venv").write_text("in the way", encoding="utf-8")
    assert start.main(["test"]) == 1
    said = capsys.readouterr().err
    assert ".venv is no folder. Move it away or delete it" in said and len(said.splitlines()) == 1
    assert (project / ".venv").read_text(encoding="utf-8") == "in the way"


def test_cpu_wheels_out_of_reach_are_said_in_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(start, "CPU_WHEELS", "http://127.0.0.1:9/whl/cpu")
    assert not start.cpu_wheels_reachable()
    assert "cannot be reached" in capsys.readouterr().out


@pytest.mark.slow
def test_cpu_wheels_that_never_answer_do_not_hang(monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setattr(start, "CPU_WHEELS", f"http://127.0.0.1:{silent.getsockname()[1]}")
        began = time.monotonic()
        assert not start.cpu_wheels_reachable()
        assert time.monotonic() - began < 15


INSTALLING = """
import sys, start
start.ROOT = start.Path(sys.argv[1])
with start.alone():
    print("alone", flush=True)
    input()
"""


def test_two_starts_do_not_install_at_the_same_time(project):
    command = [sys.executable, "-c", INSTALLING, project]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with start.alone():
        other = subprocess.Popen(command, env=variables, **pipes)
        assert other.stdout.readline() == "Another start.py is installing here; waiting for it.\n"
    with other:
        assert other.stdout.readline() == "alone\n"
        with open(project / ".venv.lock", "w", encoding="utf-8") as file:
            assert not start.lock(file)
        other.kill()  # a lock must not outlive its holder, however that ends
    with open(project / ".venv.lock", "w", encoding="utf-8") as file:
        assert start.lock(file)


@pytest.mark.slow
def test_a_half_made_environment_is_made_anew_and_errors_of_pip_become_sentences(project, tmp_path):
    (project / ".venv" / "lib").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    assert not start.is_usable()
    told = run_start(project, "--offline", tmp_path / "empty")
    assert told.returncode == 1
    assert "The .venv here is incomplete or was moved; making it anew." in told.stdout
    assert told.stderr.startswith(f"{tmp_path / 'empty'} has no wheel of torch==")
    assert str(project / ".venv" / "install.log") in told.stderr and told.stderr.count("\n") == 1
    assert start.is_usable() and not start.is_installed()

    told = run_start(project)
    assert told.returncode == 1 and "making it anew" not in told.stdout
    assert told.stderr.startswith("The packages cannot be downloaded: ") and told.stderr.count("\n") == 1

    start.STAMP.write_text(f"{project.parent}\n", encoding="utf-8")
    assert not start.is_usable(), "an environment that was moved finds its programs no more"
    start.STAMP.unlink()
    (internals,) = start.VENV.rglob("site-packages/pip/_internal/cli")
    shutil.rmtree(internals)
    assert not start.is_usable(), "a pip that an interrupted copy left incomplete"


@needs_signals
@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopping_an_install_leaves_nothing_running(tmp_path, number, status):
    project = copy_project(tmp_path)
    # Where tests run in the background, a shell may have switched Ctrl-C off; here it is switched on again.
    listening = (
        "import signal, runpy, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    )
    command = [sys.executable, "-c", listening, project / "start.py"]
    variables = {**os.environ, **NO_PACKAGES}
    with open(tmp_path / "out", "w+", encoding="utf-8") as out:
        process = subprocess.Popen(command, env=variables, stdout=out, stderr=out, start_new_session=True)
        wait_for(lambda: (project / ".venv" / "install.log").exists(), 60)
        time.sleep(1)  # pip is now trying to reach the index, which takes it more than five seconds
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        assert process.wait(30) == status
        out.seek(0)
        assert "Traceback" not in out.read()
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def wait_for(condition, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds} s"
        time.sleep(0.1)


# Running


def test_the_exit_status_of_a_program_is_passed_on(project):
    assert start.run([sys.executable, "-c", "import sys; sys.exit(3)"]) == 3


def test_programs_of_the_environment_come_first(project):
    shown = project / "shown.json"
    program = "import json, os, sys; json.dump([os.environ['PATH'], os.environ['VIRTUAL_ENV']], open(sys.argv[1], 'w'))"
    start.run([sys.executable, "-c", program, shown])
    path, environment = json.loads(shown.read_text(encoding="utf-8"))
    assert path.split(os.pathsep)[0] == str(start.PROGRAMS) and environment == str(start.VENV)


@pytest.mark.slow
def test_the_lab_is_served_with_a_token_to_this_computer_alone(tmp_path, monkeypatch):
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_WORKSPACES_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("JUPYTER_TOKEN", raising=False)
    monkeypatch.setattr(start, "VENV", tmp_path / ".venv")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / ".venv" / "etc" / "jupyter"))
    start.turn_off_news()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = start.lab_command(sys.executable, Namespace(port=port, no_browser=True))
    log = tmp_path / "lab.log"
    with open(log, "wb") as output, start.started(command, stdout=output, stderr=subprocess.STDOUT):
        address = re.compile(rf"http://127.0.0.1:{port}(/\S+)\?token=(\w+)")
        wait_for(lambda: address.search(log.read_text(encoding="utf-8")), 60)
        page, token = address.search(log.read_text(encoding="utf-8")).groups()
        assert page == "/lab/tree/notebooks/00_start_here.ipynb" and len(token) >= 40
        status, text = get(port, f"{page}?token={token}")
        assert status == 200
        assert re.search(r'"disabledExtensions": \[[^]]*apputils-extension:announcements"', text)  # asks for no news
        notebook = "/api/contents/notebooks/00_start_here.ipynb"
        assert get(port, f"{notebook}?token={token}")[0] == 200
        assert get(port, notebook)[0] == 403
        assert get(port, f"{notebook}?token=guessed")[0] == 403
        assert get(port, page)[0] == 302  # to the login page
        for other in other_addresses():
            with socket.socket() as caller:
                caller.settimeout(3)
                assert caller.connect_ex((other, port)) != 0, f"the lab answers at {other}"


def get(port: int, path: str) -> tuple[int, str]:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8")


def other_addresses() -> set[str]:
    """Addresses of this computer other than the one that the lab listens on."""
    addresses = {"127.0.0.2"}
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        route.connect(("192.0.2.1", 9))  # sends nothing; the system only picks the address that it would send from
        addresses.add(route.getsockname()[0])
    return addresses - {"127.0.0.1", "0.0.0.0"}
