"""The packages the course needs: missing, of another version, installed twice, hidden by a file of the learner."""

import importlib.metadata
import re
import sys
from pathlib import Path

from labkit.environment.report import Line

INSTALL = "python start.py (or: pip install -r requirements.txt)"
# A file with one of these names, beside a notebook, is imported instead of the package.
HIDEABLE = ("torch", "torchvision", "numpy", "matplotlib", "PIL", "sklearn", "IPython", "ipywidgets", "labkit")


def probe_packages(course: Path | None) -> dict:
    """Return the packages that the course requires: {"name": {"required": …, "installed": version or None}}.

    The list is that of the installed labkit; without one, that of `requirements.txt` in the folder of the course.
    """
    packages = {}
    for text in _requirements(course):
        requirement, _, condition = text.partition(";")
        name = re.match(r"[\w.-]+", requirement).group()
        if _applies(condition.strip()):
            packages[name] = {"required": requirement.strip(), "installed": installed(name)}
    return packages


def _requirements(course: Path | None) -> list[str]:
    try:
        return importlib.metadata.requires("labkit") or []
    except importlib.metadata.PackageNotFoundError:
        listed = course / "requirements.txt" if course else None
    if listed is None or not listed.is_file():
        return []
    lines = (line.partition("#")[0].strip() for line in listed.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("-")]


def _applies(condition: str) -> bool:
    """Evaluate a condition such as `python_version < "3.11"`; what belongs to an extra does not apply."""
    if not condition or "extra" in condition:
        return not condition
    try:
        from packaging.markers import Marker
    except ImportError:  # then nearly everything is missing, and this package is among it
        return True
    return Marker(condition).evaluate()


def installed(name: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def judge_packages(packages: dict) -> list[Line]:
    """Name the packages that are missing, and those of a version that was not tested."""
    if not packages:
        return [Line("note", "packages", "the list of the packages needed was not found", f"Run {INSTALL}")]
    missing = [name for name, package in packages.items() if package["installed"] is None]
    if missing:
        return [Line("problem", "packages", f"not installed: {', '.join(missing)}", f"Run {INSTALL}")]
    others = [
        f"{name} is {package['installed']}, wanted {package['required'].removeprefix(name)}"
        for name, package in packages.items()
        if not allows(package["required"], package["installed"])
    ]
    if others:
        return [Line("note", "packages", "; ".join(others), f"If something fails, run {INSTALL}")]
    return [Line("ok", "packages", f"all {len(packages)} that the course needs, in versions that fit")]


def allows(requirement: str, version: str) -> bool:
    """Return whether a version fits a requirement such as `torch>=2.9`."""
    from packaging.requirements import Requirement

    return Requirement(requirement).specifier.contains(version, prereleases=True)


def probe_copies() -> dict:
    """Return the installs that this Python sees: {"torch": [[version, folder], …], "torchvision": …}."""
    copies: dict[str, list] = {"torch": [], "torchvision": []}
    for name, installs in copies.items():
        for found in importlib.metadata.distributions(name=name):
            copy = [found.version, str(found.locate_file("").resolve())]
            if copy not in installs:
                installs.append(copy)
    return copies


def judge_copies(copies: dict, torch: dict) -> list[Line]:
    """Warn of a package installed twice: parts of both get mixed. Where torch fails as well, it is a problem."""
    lines = []
    for name, installs in copies.items():
        if len(installs) > 1:
            places = "; ".join(f"{version} in {folder}" for version, folder in installs)
            action = f"Run `pip uninstall {name}` until it finds none, then {INSTALL}"
            mark = "problem" if "error" in torch else "note"
            lines.append(Line(mark, f"two {name}", f"{name} is installed {len(installs)} times: {places}", action))
    return lines


def probe_shadows(folders: list[Path]) -> dict:
    """Return the files in these folders that hide a package or a module of Python: {"name": path}."""
    shadows = {}
    for folder in folders:
        for path in [*sorted(folder.glob("*.py")), *sorted(folder.glob("*/__init__.py"))]:
            hiding = path.parent if path.name == "__init__.py" else path
            itself = hiding == Path(__file__).resolve().parents[1]  # labkit in the folder of the course
            if hiding.stem in (*HIDEABLE, *sys.stdlib_module_names) and not itself:
                shadows[hiding.stem] = str(hiding)
    return shadows


def judge_shadows(shadows: dict) -> list[Line]:
    """Say what to rename: hiding a package stops the course, hiding a module of Python may."""
    return [
        Line(
            "problem" if name in HIDEABLE else "note",
            "file name",
            f"{path} is imported instead of the real {name}",
            "Give it another name, and delete the folder __pycache__ beside it.",
        )
        for name, path in shadows.items()
    ]
