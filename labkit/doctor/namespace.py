"""Find the pieces of a training program by their names: in a script, or in a notebook."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labkit.errors import LabkitError

#: What people call the pieces, besides the names that `examine` has for them.
ALSO_CALLED = {
    "model": ("net", "network", "my_model"),
    "loss_fn": ("criterion", "loss_function", "loss_func", "loss"),
    "optimizer": ("optim", "opt", "optimiser"),
    "train_loader": ("trainloader", "train_dataloader", "train_dl", "training_loader", "loader", "dataloader"),
    "val_loader": ("valloader", "val_dataloader", "val_dl", "valid_loader", "validation_loader", "test_loader"),
    "scheduler": ("lr_scheduler", "sched"),
    "train_step": ("training_step", "step"),
    "evaluate": ("evaluation", "validate"),
}
NEEDED = ("model", "loss_fn", "optimizer", "train_loader")


def pieces_named(names: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the pieces among the variables of a script or a notebook, under the names that `examine` has for them.

    Raises LabkitError, in one sentence, when one that is needed is not there.
    """
    found = {}
    for piece, others in ALSO_CALLED.items():
        name = next((name for name in (piece, *others) if name in names and _can_be(piece, names[name])), None)
        if name is not None:
            found[piece] = names[name]
    missing = [piece for piece in NEEDED if piece not in found]
    if missing:
        raise LabkitError(
            f"{where} has no variable {' and no '.join(missing)}. Give the pieces these names, or a function that "
            "returns them in a dict: {'model': ..., 'loss_fn': ..., 'optimizer': ..., 'train_loader': ...}."
        )
    return found


def pieces_of_file(file: str) -> dict[str, Any]:
    """Return the pieces that FILE.py, or FILE.py:function, gives.

    The file is imported, so what stands under `if __name__ == "__main__"` does not run. The function is called without
    arguments and returns a dict of pieces, or a tuple in the order of `examine`. Without one, `pieces` or `build` is
    called if it is there, and otherwise the variables of the file are taken. Raises LabkitError when there is no such
    file or function, and lets through what the file itself raises.
    """
    path, function = _split(file)
    module = imported(Path(path))
    if not function:
        function = next((name for name in ("pieces", "build") if callable(getattr(module, name, None))), "")
    if not function:
        return pieces_named(vars(module), path)
    if not callable(getattr(module, function, None)):
        known = ", ".join(name for name, value in vars(module).items() if callable(value) and not name.startswith("_"))
        raise LabkitError(f"{path} has no function {function!r}. It has: {known or 'none'}.")
    return as_pieces(getattr(module, function)(), f"{function}() of {path}")


def path_of(file: str) -> str:
    """Return the full path of the script in FILE.py or FILE.py:function, as tracebacks name it."""
    return str(Path(_split(file)[0]).resolve())


def _split(file: str) -> tuple[str, str]:
    path, colon, function = file.rpartition(".py:")  # a path may begin with "C:"
    return (f"{path}.py", function) if colon else (file, "")


def as_pieces(given: Any, where: str) -> dict[str, Any]:
    """Return what a function returned, a dict or a tuple in the order of `examine`, as a dict. Raises LabkitError."""
    if isinstance(given, tuple):
        given = dict(zip(ALSO_CALLED, given, strict=False))
    if not isinstance(given, Mapping):
        raise LabkitError(
            f"{where} must return a dict of pieces, or (model, loss_fn, optimizer, train_loader, ...), and it returns "
            f"{type(given).__name__}."
        )
    missing = [piece for piece in NEEDED if piece not in given]
    if missing:
        raise LabkitError(f"{where} returns no {' and no '.join(missing)}; the doctor needs {', '.join(NEEDED)}.")
    return dict(given)


def imported(path: Path) -> Any:
    """Import a file as a module of its own name, as a script beside it would. Raises LabkitError if it is not there."""
    if not path.is_file():
        raise LabkitError(f"There is no script {path}. Give the path of a .py file.")
    sys.path.insert(0, str(path.resolve().parent))
    name = f"{path.stem} (examined)" if path.stem in sys.modules else path.stem  # a script may be called json.py
    specification = importlib.util.spec_from_file_location(name, path.resolve())
    if specification is None:
        raise LabkitError(f"{path} is not a Python script: its name must end in .py.")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # also for what it sends to worker processes
    specification.loader.exec_module(module)
    return module


def _can_be(piece: str, value: Any) -> bool:
    """Say whether a variable can be this piece: people also call a number `loss`, and a count `step`."""
    if piece == "model":
        return hasattr(value, "parameters")
    if piece == "optimizer":
        return hasattr(value, "param_groups")
    if piece.endswith("loader"):
        return hasattr(value, "__iter__")
    return hasattr(value, "step") if piece == "scheduler" else callable(value) and not hasattr(value, "param_groups")
