"""The package itself: light to import, and every part reachable from it."""

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import labkit
from labkit import errors

#: From the lowest floor to the highest: a part imports from floors below its own, never from its own or from above.
FLOORS = (
    {"errors", "durable", "table"},
    {"devices", "randomness"},
    {"distributed"},
    {"autograd", "keeping", "models", "tensors"},
    {"data"},
    {"measuring"},
    {"doctor"},
    {"runs"},
    {"training"},
    {"trials"},
    {"speed"},
    {"exercises"},
    {"course", "show"},
    {"sweeps"},
    {"environment"},
    {"cli"},
)
NOT_PARTS = {"__main__", "cli", "durable", "table"}  # entrances and what only labkit itself uses


def loaded_after(program: str) -> set[str]:
    """Return the names of the modules that a fresh Python has loaded after a program."""
    program += "\nimport sys; print(*sys.modules, sep='\\n')"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


def test_import_labkit_loads_nothing_heavy() -> None:
    new = loaded_after("import labkit, labkit.errors, labkit.table") - loaded_after("")
    assert {"labkit", "labkit.errors", "labkit.table"} <= new
    assert not {name.partition(".")[0] for name in new} & {"torch", "numpy", "torchvision", "matplotlib", "IPython"}


def test_a_part_loads_on_first_use_after_a_plain_import() -> None:
    program = "import labkit\ngenerator = labkit.randomness.generator(0, 'test')\nassert labkit.models.build"
    assert {"torch", "labkit.randomness", "labkit.models.cnn"} <= loaded_after(program)


@pytest.mark.parametrize("part", labkit.PARTS)
def test_every_part_is_there(part: str) -> None:
    assert getattr(labkit, part).__name__ == f"labkit.{part}"


def test_every_module_is_a_part() -> None:
    modules = {module.name for module in pkgutil.iter_modules(labkit.__path__)}
    assert modules - NOT_PARTS == set(labkit.PARTS)
    assert set(labkit.PARTS) < set(dir(labkit))


def test_imports_run_one_way() -> None:
    floor = {part: number for number, parts in enumerate(FLOORS) for part in parts}
    assert set(floor) == {*labkit.PARTS, *NOT_PARTS} - {"__main__"}
    root, upwards = Path(labkit.__file__).parent, []
    for module in root.rglob("*.py"):
        part = module.relative_to(root).parts[0].removesuffix(".py")
        for other in imported_parts(module) - {part} if part in floor else ():
            if floor[other] >= floor[part]:
                upwards.append(f"{module.relative_to(root)} imports labkit.{other}")
    assert not upwards


def imported_parts(module: Path) -> set[str]:
    """Return the parts of labkit that a module names in its imports, wherever they stand in it."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "labkit":
            found |= {name.name for name in node.names} - {"__version__"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("labkit."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {name.name.split(".")[1] for name in node.names if name.name.startswith("labkit.")}
    return found


def test_a_wrong_name_is_answered_with_the_right_ones() -> None:
    with pytest.raises(AttributeError, match=r"no part named 'modles'.*models"):
        _ = labkit.modles
    assert not hasattr(labkit, "modles")


def test_every_error_can_be_caught_as_a_labkit_error_and_as_a_value_error() -> None:
    found = [value for name, value in vars(errors).items() if name.endswith("Error")]
    assert len(found) == 7
    assert all(issubclass(error, errors.LabkitError) and issubclass(error, ValueError) for error in found)
