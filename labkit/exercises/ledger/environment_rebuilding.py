"""Measurements for the topic "Environment": an environment of its own, thrown away and made anew."""

import os
import subprocess
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from shutil import rmtree

from packaging.requirements import Requirement

from labkit.exercises.claims import claim, judged


def make_environment(folder: Path) -> None:
    """Make an empty environment in `folder`, as `python -m venv` does, without pip: that takes a moment only."""
    venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt").create(folder)


def answer_of(environment: Path, program: str) -> str:
    """Run a line of Python in an environment, apart from everything else, and return what it prints."""
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    command = [str(python), "-I", "-X", "utf8", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    return done.stdout.strip()


def packages_folder(environment: Path) -> Path:
    """Return the folder into which packages of this environment are installed."""
    return Path(answer_of(environment, "import sysconfig; print(sysconfig.get_path('purelib'))"))


@contextmanager
def project_folder() -> Iterator[Path]:
    """Make a folder for a project, and take it away at the end."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder).resolve()


CAN_IMPORT = "import importlib.util; print(importlib.util.find_spec('{}') is not None)"


@claim(
    "C025",
    true="The new environment did not see the torch of this one, and this one did not see what was put into the new. "
    "So two projects can need different versions, and an experiment spoils nothing else.",
    false="One place for everything looks simpler, until two projects need two versions, or the system's own programs "
    "need a third. An environment is made in a moment and shares no package with the others.",
    depends="In a container or on a machine for one program the separation is there already. On a computer with more "
    "than one project an environment makes it, in both directions, as measured.",
)
def environments_share_no_packages() -> dict[str, bool]:
    """Make an environment, put a package into it, and look from both sides."""
    with project_folder() as folder:
        environment = folder / ".venv"
        make_environment(environment)
        (packages_folder(environment) / "only_in_there.py").write_text("", encoding="utf-8")
        seen_inside = answer_of(environment, CAN_IMPORT.format("only_in_there"))
        torch_inside = answer_of(environment, CAN_IMPORT.format("torch"))
    try:
        seen_from_here = bool(__import__("only_in_there"))
    except ImportError:
        seen_from_here = False
    return {
        "a new environment does not see the torch that is installed here": torch_inside == "False",
        "what is installed in it can be imported there": seen_inside == "True",
        "and not from here": not seen_from_here,
    }


judged(
    "C035",
    "The commands belong to conda, which this course does not need and cannot expect to find.",
    true="Yes: the first lists the environments, the second the packages of one, with their versions. Ask them before "
    "you reinstall anything; often the wrong environment was simply active.",
    false="You may have no conda, and then the commands are not found. Where it is installed they do just this; "
    "elsewhere `pip list` says what the active environment holds.",
    depends="They work wherever conda is installed. Without it, `pip list` does the same for the active environment, "
    "and `importlib.metadata.version('torch')` for one package in a notebook.",
)


@claim(
    "C036",
    true="The environment was deleted whole. The project beside it lost nothing, and the next one, made by the same "
    "call, held the same files and ran the same Python. What cannot be lost need not be repaired.",
    false="You may keep things in it: code, data, or packages that nobody wrote down. Move those out, and it is worth "
    "nothing: the one that was deleted here was replaced in a moment.",
    depends="It depends on your order: code and data inside go with it. Kept outside, as here, nothing was lost, and "
    "the new environment was like the old one.",
)
def an_environment_is_deleted_and_made_anew() -> dict[str, bool]:
    """Make an environment beside a project, delete it, make it anew and compare."""

    def contents(environment: Path) -> list[str]:
        return sorted(str(path.relative_to(environment)) for path in environment.rglob("*"))

    with project_folder() as folder:
        environment, program = folder / ".venv", folder / "train.py"
        program.write_text("print('training')", encoding="utf-8")
        make_environment(environment)
        before, python_before = contents(environment), answer_of(environment, "import sys; print(sys.version)")
        rmtree(environment)
        left = [path.name for path in folder.iterdir()]
        make_environment(environment)
        return {
            "deleting it leaves the project beside it as it was": left == ["train.py"]
            and program.read_text(encoding="utf-8") == "print('training')",
            "made anew, it holds the same files": contents(environment) == before,
            "and runs the same Python": answer_of(environment, "import sys; print(sys.version)") == python_before != "",
        }


def pinned_lines() -> list[str]:
    """Return one line `name==version` for each package that is installed here, sorted: what pip freeze writes."""
    names = {package.metadata["Name"] for package in metadata.distributions()} - {None}
    return sorted(f"{name}=={metadata.version(name)}" for name in names)


@claim(
    "C037",
    true="A file of pinned lines names every package here with one version, so whoever reads it later asks for just "
    "these. What it does not name is Python itself and the CUDA build: write those down as well.",
    false="You may have seen a requirements file that brought something else months later: its lines had names "
    "without versions. With versions, each line of the file below asks for what is installed here, and for nothing "
    "newer.",
    depends="It depends on the versions being in it, and that is what pinning means. The lines measured here were "
    "pinned, and each of them was met by just the version that is installed.",
)
def pinned_lines_name_what_is_installed() -> dict[str, bool]:
    """Write the pinned list of this environment to a file, read it back, and compare it with what is installed."""
    with project_folder() as folder:
        file = folder / "requirements.txt"
        file.write_text("\n".join(pinned_lines()), encoding="utf-8")
        wanted = [Requirement(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {
        "read back as an installer reads it, each line is met by what is installed here": all(
            each.specifier.contains(metadata.version(each.name), prereleases=True) for each in wanted
        ),
        "and not by a newer version": not any(each.specifier.contains("9999.0") for each in wanted),
        "torch and NumPy are among them": {"torch", "numpy"} <= {each.name.lower() for each in wanted},
    }
