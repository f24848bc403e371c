"""Set up the course and open it in JupyterLab, or run its tests. It needs Python 3.10 or newer and nothing else.

Everything goes into the folder .venv beside this file; delete that folder and it is as if you had never started.
A second start finds everything in place and opens at once. Older Pythons can read this file too, to say so.
"""

import argparse
import contextlib
import errno
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PROGRAMS = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = PROGRAMS / ("python.exe" if os.name == "nt" else "python")
LOG = VENV / "install.log"
STAMP = VENV / "installed.txt"  # written last: it says that an install went through, where, and of what
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
EXAMPLES = """examples:
  python start.py                       open the course in the browser
  python start.py --no-browser --port 8899
  python start.py --cpu                 a smaller PyTorch, for a computer without an NVIDIA GPU
  python start.py --offline wheels      install from a folder, filled where there is a network with:
                                        pip download -r requirements.txt -d wheels
  python start.py test                  run all tests and all notebooks
  python start.py test tests/data -x    what follows goes to pytest
"""


class Problem(Exception):
    """What went wrong and what to do, in a sentence or two for the person at the keyboard."""


def main(arguments=None) -> int:
    """Do what the command line says and return the exit status."""
    try:
        check_python(sys.version_info)
        sys.stdout.reconfigure(errors="replace", line_buffering=True)  # some consoles cannot show every path
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        options, for_pytest = read_command_line(arguments)
        if options.port:
            check_port(options.port)
        set_up(options)
        if options.command == "test":
            return run([PYTHON, "-m", "pytest", "--nbval", "-m", "not exhaustive", *for_pytest])
        print("Opening JupyterLab until you press Ctrl-C. Its address, with the token, stands below.")
        return run(lab_command(PYTHON, options))
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from here.")
        return 130
    except Problem as problem:
        print(problem, file=sys.stderr)
    except OSError as error:
        print(explain(str(error)), file=sys.stderr)
    return 1


def check_python(version) -> None:
    """Raise Problem if `version` (major, minor, …) of the Python that runs this is too old."""
    if tuple(version[:2]) < (3, 10):
        raise Problem(
            f"This course needs Python 3.10 or newer, but {sys.executable} is {version[0]}.{version[1]}. Install "
            "one from https://www.python.org/downloads/ and start with it, for example: python3.12 start.py"
        )


def read_command_line(arguments=None):
    """Return the options, and the list of what else there is for pytest."""
    parser = argparse.ArgumentParser(
        prog="start.py",
        description="Set up the course in .venv, then open it in JupyterLab or run its tests.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("command", nargs="?", metavar="{lab,test}", default="lab", help="default: lab")
    parser.add_argument("--no-browser", action="store_true", help="serve the lab and print its address")
    parser.add_argument("--port", type=int, help="port of the lab (default: 8888 or the next free one)")
    parser.add_argument("--cpu", action="store_true", help="install PyTorch's CPU build: 0.8 GB, not 5.5")
    parser.add_argument("--offline", metavar="DIR", type=Path, help="install from the wheels in DIR")
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command != "test":  # asked first: the value of a misspelt option was taken for the command
        parser.error("unrecognized arguments: " + " ".join(rest))
    if options.command not in ("lab", "test"):
        parser.error(f"there is no command {options.command}; it is lab, test, or nothing at all")
    if options.port is not None and not 0 < options.port < 65536:
        parser.error("--port must be between 1 and 65535")
    if options.offline and not options.offline.is_dir():
        parser.error(f"--offline {options.offline}: there is no such folder")
    return options, rest


def check_port(port: int) -> None:
    """Raise Problem, naming a free port, if the lab could not listen on `port`."""
    with socket.socket() as probe, socket.socket() as other:
        try:
            if os.name != "nt":  # as the server does: a port that was let go a moment ago is free
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            other.bind(("127.0.0.1", 0))
            free = other.getsockname()[1]
            raise Problem(f"Port {port} cannot be used: {error.strerror}. {free} is free: --port {free}") from error


def lab_command(python, options) -> list:
    """Return the command that serves the course to this computer alone; JupyterLab makes and prints the token."""
    command = [
        *(python, "-m", "jupyterlab", "--Application.log_level=WARN", "--ServerApp.answer_yes=True"),
        *(f"--ServerApp.root_dir={ROOT}", "--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb"),
        *("--ServerApp.ip=127.0.0.1", "--KernelManager.transport_encryption=auto"),  # others may use this computer
    ]
    if options.port:
        command += [f"--ServerApp.port={options.port}", "--ServerApp.port_retries=0"]
    if options.no_browser:
        command += ["--no-browser"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        print("You are root, as whom JupyterLab starts only with --allow-root: adding it.")
        command += ["--allow-root"]
    return command


# Setting up


def set_up(options) -> None:
    """See that .venv holds everything, installing what is missing, and print what `labkit check` finds."""
    if not is_installed():
        with alone():
            if not is_installed():  # another start.py may have done it while this one waited
                install(options)
    if run([PYTHON, "-m", "labkit", "check"]) != 0:
        print("The lines above say what to do about it; going on all the same.")


def wanted() -> str:
    """Return what STAMP says after an install: where, by which Python, and a hash of the lists of packages."""
    lists = (ROOT / "requirements.txt").read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    return f"{VENV}\n{sys.version_info[0]}.{sys.version_info[1]} {hashlib.sha256(lists).hexdigest()}\n"


def is_installed() -> bool:
    """Say whether an install of what is wanted now went through, here."""
    return PYTHON.exists() and stamp() == wanted()


def stamp() -> str:
    """Return what STAMP says; nothing where there is none, and something odd where it was damaged."""
    return STAMP.read_text(encoding="utf-8", errors="replace") if STAMP.exists() else ""


@contextlib.contextmanager
def alone():
    """Wait until no other start.py installs here. The system frees the lock when its holder ends, however it ends."""
    with open(ROOT / ".venv.lock", "w", encoding="utf-8") as file:
        waiting = False
        while not lock(file):
            if not waiting:
                print("Another start.py is installing here; waiting for it.")
            waiting = True
            time.sleep(0.5)
        yield


def lock(file) -> bool:
    """Take the lock on an open file if it is free, and say whether that worked."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def install(options) -> None:
    """Make or repair .venv, and install the pinned packages and labkit itself into it."""
    began = time.monotonic()
    if not is_usable():
        print("The .venv here is incomplete or was moved; making it anew." if VENV.exists() else "Making .venv.")
        make_environment()
    STAMP.unlink(missing_ok=True)
    pip = [PYTHON, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    source = ["--no-index", "--find-links", options.offline.resolve()] if options.offline else []
    if options.cpu and not options.offline and cpu_wheels_reachable():
        source = ["--extra-index-url", CPU_WHEELS]
    print(f"Installing the packages: up to 6 GB, some minutes the first time. What pip says goes to {LOG}")
    with open(LOG, "w", encoding="utf-8") as log:
        for what in (["-r", "requirements.txt", *source], ["--no-deps", "--no-build-isolation", "-e", "."]):
            status = run_with_progress([*pip, *what], log)
            if status < 0:
                raise Problem(f"pip was ended from outside (signal {-status}). Start again: what is there is kept.")
            if status > 0:
                text = LOG.read_text(encoding="utf-8", errors="replace")
                raise Problem(f"{explain(text, options.offline)} All that pip said is in {LOG}")
    turn_off_news()
    STAMP.write_text(wanted(), encoding="utf-8")
    print(f"Installed in {time.monotonic() - began:.0f} s.")


def is_usable() -> bool:
    """Say whether .venv was made at this place and has a Python that is new enough and a pip that works."""
    if stamp() and stamp().splitlines()[0] != str(VENV):
        return False
    attempts = (["-c", "import sys; sys.exit(sys.version_info < (3, 10))"], ["-m", "pip", "--version"])
    try:
        return all(subprocess.run([PYTHON, *attempt], capture_output=True).returncode == 0 for attempt in attempts)
    except OSError:
        return False


def make_environment() -> None:
    """Make an empty .venv with pip in it, in place of what is there."""
    try:
        import ensurepip  # noqa: F401  (Debian and Ubuntu keep it in a package of its own)
        import venv  # noqa: F401
    except ImportError as error:
        raise Problem(
            f"This Python lacks its module {error.name or 'venv'}, which makes environments. On Debian and Ubuntu "
            "`sudo apt install python3-venv` brings it; then start again."
        ) from error
    if os.path.lexists(VENV) and not VENV.is_dir():
        raise Problem(f"{VENV} is no folder. Move it away or delete it; then start again.")
    empty = [sys.executable, "-m", "venv", "--clear", "--without-pip", VENV]
    for step in (empty, [PYTHON, "-m", "ensurepip", "--default-pip"]):
        made = subprocess.run(step, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if made.returncode != 0:
            raise Problem(".venv could not be made. " + explain(made.stdout.decode("utf-8", "replace")))


def cpu_wheels_reachable() -> bool:
    """Say whether PyTorch's own index answers; where it does not, pip would try for minutes."""
    try:
        urllib.request.urlopen(CPU_WHEELS + "/torch/", timeout=5).close()
    except OSError:
        print("PyTorch's own CPU wheels cannot be reached; installing the usual ones, which may be larger.")
        return False
    return True


def turn_off_news() -> None:
    """Keep the JupyterLab in .venv from offering news and from looking for updates on the internet."""
    config = VENV / "etc" / "jupyter" / "labconfig" / "page_config.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    switched_off = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    config.write_text(json.dumps(switched_off), encoding="utf-8")


def explain(text: str, offline=None) -> str:
    """Return what the output of a failed install, or the text of an error, means to the person at the keyboard."""
    here = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    missing = re.search(r"(?:No matching distribution found for|Cannot install) (\S+)", text)
    if "No space left on device" in text or os.strerror(errno.ENOSPC) in text or "WinError 112" in text:
        free = [f"{shutil.disk_usage(place).free / 1e9:.1f} GB in {place}" for place in (ROOT, tempfile.gettempdir())]
        return f"The disk is full: {' and '.join(free)} are free. Make room, up to 6 GB in both, and start again."
    if offline and missing:
        return f"{offline} has no wheel of {missing.group(1)} for {here}."
    if re.search(r"connection broken|Max retries exceeded|NewConnectionError|Read timed out", text):
        return (
            "The packages cannot be downloaded: the package index does not answer. Check the network and start "
            "again (what is there is kept), or install from a folder of wheels with --offline DIR."
        )
    if missing:
        return f"There is no package {missing.group(1)} for {here}. Another Python, from 3.10 on, may do."
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no message"]
    telling = ([line for line in lines if "error" in line.lower()] or lines)[-1]
    return f"The set-up ended with: {telling[:300]}"


# Running programs


@contextlib.contextmanager
def started(command, **settings):
    """Start a program in ROOT with .venv first on its path, and see that it does not outlive this one."""
    path = os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")])
    environment = dict(os.environ, PATH=path, VIRTUAL_ENV=str(VENV), PYTHONIOENCODING="utf-8")
    process = subprocess.Popen([str(part) for part in command], cwd=ROOT, env=environment, **settings)
    try:
        yield process
    except KeyboardInterrupt:  # Ctrl-C reached the program too: give it time to tidy up
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.wait(15)
        raise
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def run(command) -> int:
    """Run a program in the foreground and return its exit status."""
    with started(command) as process:
        return process.wait()


def run_with_progress(command, log) -> int:
    """Run pip with its output going to `log`, show its last step in one line, and return its exit status."""
    terminal, began, shown = sys.stdout.isatty(), time.monotonic(), time.monotonic()
    width = shutil.get_terminal_size().columns - 1
    with started(command, stdout=log, stderr=subprocess.STDOUT) as process:
        while process.poll() is None:
            time.sleep(0.2)
            now = time.monotonic()
            if terminal or now - shown > 30:
                text = LOG.read_text(encoding="utf-8", errors="replace")
                steps = re.findall(r"(?m)^ *((?:Collecting|Downloading) \S+|Installing collected packages)", text)
                line = f"{now - began:4.0f} s  {steps[-1] if steps else 'Starting'}"
                print(f"\r{line[:width]:{width}}" if terminal else line, end="" if terminal else "\n", flush=True)
                shown = now
    print("\r" + " " * width if terminal else "", end="\r" if terminal else "")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
