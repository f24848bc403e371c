"""labkit: the ideas of the course as readable code, one small module an idea.

`import labkit` is instant: it loads no torch and touches no network. The parts load on first use,
so `labkit.data.digits()` works after a plain `import labkit`.
"""

import importlib

__version__ = "0.1.0"

PARTS = (
    "autograd",
    "course",
    "data",
    "devices",
    "distributed",
    "doctor",
    "environment",
    "errors",
    "exercises",
    "keeping",
    "measuring",
    "models",
    "randomness",
    "runs",
    "show",
    "sweeps",
    "speed",
    "tensors",
    "training",
    "trials",
)


def __getattr__(name: str):
    """Import the part of labkit that was asked for (`labkit.data`, `labkit.training`, …)."""
    if name in PARTS:
        return importlib.import_module(f"labkit.{name}")
    raise AttributeError(f"labkit has no part named {name!r}; its parts are {', '.join(PARTS)}")


def __dir__() -> list[str]:
    return sorted([*PARTS, "__version__"])


def load_ipython_extension(shell) -> None:
    """Do what `%load_ext labkit` asks for: see `labkit.course.magics`."""
    importlib.import_module("labkit.course.magics").load(shell)


def unload_ipython_extension(shell) -> None:
    """Undo it, for `%unload_ext labkit`."""
    importlib.import_module("labkit.course.magics").unload(shell)
