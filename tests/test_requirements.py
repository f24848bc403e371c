"""The three lists of packages agree: requirements.txt (pins), pyproject.toml (ranges), environment.yml (conda)."""

import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import start

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it along on Python 3.10

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]


def ranges() -> dict[str, Requirement]:
    """What pyproject.toml asks for in order to use labkit, to test it and to build it, by name."""
    lines = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"] + PYPROJECT["build-system"]["requires"]
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def pins(python: str) -> list[Requirement]:
    """The lines of requirements.txt that count for one version of Python."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return [each for each in requirements if not each.marker or each.marker.evaluate({"python_version": python})]


@pytest.mark.parametrize("python", PYTHONS)
def test_every_range_has_one_pin_and_every_pin_has_a_range(python):
    assert sorted(pin.name for pin in pins(python)) == sorted(ranges())


@pytest.mark.parametrize("python", PYTHONS)
def test_every_pin_is_exact_and_in_its_range(python):
    for pin in pins(python):
        (specifier,) = pin.specifier
        assert specifier.operator == "==" and "*" not in specifier.version, f"{pin} is no exact pin"
        assert ranges()[pin.name].specifier.contains(specifier.version), f"{pin} is outside of {ranges()[pin.name]}"


def test_the_lab_stands_on_what_it_promises():
    promised = {"torch", "torchvision", "jupyterlab", "matplotlib", "ipywidgets", "nbval", "papermill"}
    assert promised <= {Requirement(line).name for line in PROJECT["dependencies"]}
    assert str(ranges()["torch"].specifier) == ">=2.9"
    assert set(PROJECT["optional-dependencies"]) == {"test", "bench", "grading", "cluster"}
    assert "nbgrader" not in ranges()  # learners do without


def test_conda_installs_the_same_pins_into_a_python_that_is_allowed():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, pip, from_pip = environment["dependencies"]
    name, version = python.split("=")
    assert name == "python" and version in SpecifierSet(PROJECT["requires-python"])
    assert pip == "pip" and from_pip == {"pip": ["-r requirements.txt", "-e ."]}
    assert environment["name"] == PROJECT["name"]


def test_start_asks_for_the_same_python():
    allowed = SpecifierSet(PROJECT["requires-python"])
    for version in [(3, 9), (3, 10), (3, 14)]:
        if "{}.{}".format(*version) in allowed:
            start.check_python(version)
        else:
            with pytest.raises(start.Problem):
                start.check_python(version)
