"""Find the lines at which a GPU would have to be waited for. They are found on any device, by what is called."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode

from labkit.table import Table

# What gives Python a number, or a tensor whose size depends on numbers: both must be known before the program goes on.
_NUMBERS = {"item", "tolist", "numpy", "cpu", "is_nonzero", "equal", "allclose"}
_DUNDER = {"__bool__", "__float__", "__int__", "__index__", "__array__", "__repr__", "__format__", "__contains__"}
_SIZES = {"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount"}
_TORCH = str(Path(torch.__file__).parent)


class Waits(TorchFunctionMode):
    """A block that notes every call which waits for the device, and the line of the program that made it.

    `with Waits() as waits: step()`; then `waits.total` is their number and `waits.table()` says where they stand.
    So a program can be looked at without a GPU. Only `.to(device)` needs one: on a CPU nobody can tell its direction.
    What is called inside of torch's C++ is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[tuple[str, int, str]] = Counter()  # (file, line, call) -> how often

    @property
    def total(self) -> int:
        """How many calls waited."""
        return self.found.total()

    def __torch_function__(self, function: Callable, types: object, args: tuple = (), kwargs: dict | None = None):
        """Note the call if it waits, and make it. What a call does inside is not noted a second time."""
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if times := waits(name, args, kwargs):
            file, line = _line_of(sys._getframe(1))
            self.found[file, line, name.strip("_")] += times
        return function(*args, **kwargs)

    def table(self) -> Table:
        """Return a row for each line that waits: file, line, call, how often."""
        rows = [
            {"file": Path(file).name, "line": line, "call": call, "times": times}
            for (file, line, call), times in sorted(self.found.items())
        ]
        return Table(rows, f"{self.total} calls wait for the device.")


def waits(name: str, args: tuple, kwargs: dict) -> int:
    """Return how often a call of torch, known by its name and arguments, has to wait for the device."""
    if name in _NUMBERS or name in _DUNDER or name in _SIZES:
        return True
    if name in ("tensor", "as_tensor"):
        return _tensors_in(args[0] if args else kwargs.get("data"))  # each of them is read
    if name == "where":
        return len(args) + len(kwargs) == 1  # where(mask) gives places, as many as there are
    if name == "__getitem__":
        return any(_is_mask(part) for part in (args[1] if isinstance(args[1], tuple) else (args[1],)))
    if name == "repeat_interleave":
        return isinstance(args[1] if len(args) > 1 else None, torch.Tensor) and "output_size" not in kwargs
    if name == "to" and args[0].device.type != "cpu":
        return any(str(one) == "cpu" for one in (*args[1:], kwargs.get("device")) if not isinstance(one, torch.Tensor))
    return False


def _tensors_in(data: object) -> int:
    parts = data if isinstance(data, list | tuple) else ()
    return sum(isinstance(one, torch.Tensor) or _tensors_in(one) for one in parts)


def _is_mask(index: object) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def _line_of(frame) -> tuple[str, int]:
    """Return file and line of the nearest caller that is not torch."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_TORCH, __file__)):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
