"""Execute a script of the clinic in two parts: what builds the pieces, and the loop that trains them."""

import ast
import linecache
from types import CodeType
from typing import Any

import torch

from labkit.doctor.clinic.case import Case
from labkit.randomness import frozen_randomness

PIECES = ("model", "loss_fn", "optimizer", "train_loader", "val_loader", "scheduler", "train_step", "evaluate")


def report(train_loss: float, train_score: float, val_score: float) -> None:
    """Print what an epoch came to. A script calls it; in the clinic the observer listens in its place."""
    print(f"loss {train_loss:.3f}, score on training data {train_score:.3f}, on validation data {val_score:.3f}")


def compiled(case: Case, cured: bool = False) -> tuple[CodeType, CodeType]:
    """Return the code that builds and the code that trains.

    Both know the lines of the one source: tracebacks and `inspect.getsource` show them.
    """
    source, file = case.source(cured), file_name(case, cured)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    tree = ast.parse(source, file)
    begin = next(number for number, node in enumerate(tree.body) if _is_training(node))
    parts = (tree.body[:begin], tree.body[begin:])
    return tuple(compile(ast.Module(part, []), file, "exec", dont_inherit=True) for part in parts)


def _is_training(node: ast.stmt) -> bool:
    """Say whether a statement is the loop over the epochs."""
    return isinstance(node, ast.For) and ast.unparse(node.target) == "epoch"


def file_name(case: Case, cured: bool = False) -> str:
    """Return the name under which a traceback shows the script."""
    return f"<clinic: {case.name}{', cured' if cured else ''}>"


def pieces(case: Case, cured: bool = False, seed: int = 0) -> dict[str, Any]:
    """Return what the script builds, as `labkit.doctor.examine(**pieces(case))` takes it; nothing is trained yet."""
    with frozen_randomness(seed), torch.device("cpu"):
        names = built(compiled(case, cured)[0])
    return {piece: names[piece] for piece in PIECES if piece in names}


def built(code: CodeType) -> dict[str, Any]:
    """Execute the first part of a script and return all its names."""
    names: dict[str, Any] = {"__name__": "clinic"}
    exec(code, names)
    return names
