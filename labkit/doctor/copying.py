"""Copy a whole training program, with what its functions remember: closures, defaults and the globals they use.

`copy.deepcopy` takes functions as they are, so a copied step would go on moving the original's scaler, average or
hidden state. Here every function of the user gets a twin whose variables are copies too.
"""

import copy
import functools
import random
import sysconfig
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import DataLoader

#: More than this many bytes of samples are not copied but shared; the doctor only reads them.
LARGEST_COPY = 256 * 2**20
LONGEST_LIST = 10_000  # a longer list of plain values (file names, labels) is shared
#: `random.random` and `numpy.random.normal` are methods of these; whoever remembers one means the global generator.
GLOBAL_GENERATORS = (random.random.__self__, numpy.random.random.__self__, torch.default_generator)
_PLAIN = (str, bytes, int, float, complex, bool, type(None), Path)
_LIBRARIES = tuple(str(Path(sysconfig.get_paths()[name]).resolve()) for name in ("stdlib", "purelib", "platlib"))


def copied(pieces: dict[str, Any]) -> dict[str, Any]:
    """Return deep copies of things that belong together, and still do: the copied optimizer moves the copied model.

    Gradients are copied with their parameters. Tensors in the middle of a graph lose the graph. What is very large,
    or cannot be copied (an open file, a running generator), is shared.
    """
    memo: dict[int, Any] = {id(generator): generator for generator in GLOBAL_GENERATORS}
    things = list(reachable(pieces))
    _share_large_data(things, memo)
    functions = [thing for thing in things if isinstance(thing, FunctionType)]
    twins = _twins(functions, memo)
    for thing in things:
        if isinstance(thing, Tensor) and not thing.is_leaf and id(thing) not in memo:
            memo[id(thing)] = thing.detach().clone().requires_grad_(thing.requires_grad)
        elif isinstance(thing, DataLoader) and thing._iterator is not None:
            memo[id(thing._iterator)] = None  # workers that are running stay with the original
        elif not _can_be_copied(thing):
            memo.setdefault(id(thing), thing)
    result = copy.deepcopy(pieces, memo)
    for fill in twins:
        fill()
    _copy_what_deepcopy_leaves_out(things, memo)
    return result


def reachable(root: Any) -> Iterator[Any]:
    """Yield everything that attributes, containers and the user's functions lead to, each thing once."""
    seen: set[int] = set()
    waiting = deque([root])
    while waiting:
        thing = waiting.popleft()
        if id(thing) in seen or isinstance(thing, (*_PLAIN, type, ModuleType)):
            continue
        seen.add(id(thing))
        yield thing
        waiting.extend(_parts(thing))


def _parts(thing: Any) -> list[Any]:
    if isinstance(thing, Tensor | numpy.ndarray):
        return [thing.grad] if isinstance(thing, Tensor) and thing.is_leaf and thing.grad is not None else []
    if isinstance(thing, dict):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return [] if _is_long_and_plain(thing) else list(thing)
    if isinstance(thing, FunctionType):
        return [part for _, part in variables(thing)] if is_users(thing) else []
    if isinstance(thing, MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    return list(vars(thing).values()) if hasattr(thing, "__dict__") else []


def is_users(function: FunctionType) -> bool:
    """Say whether a function was written by the user and not by Python, torch or another installed library.

    The fixes of the doctor count as the user's: they are part of the program that they have mended.
    """
    inside = getattr(function, "__wrapped__", None)  # `@torch.no_grad()` makes a function of torch around the user's
    if isinstance(inside, FunctionType):
        return is_users(inside)
    file = function.__code__.co_filename
    module = function.__module__ or ""
    if module.startswith("labkit.doctor.rules.") and module.endswith("mends"):
        return True
    if module.split(".")[0] in ("labkit", "torch"):
        return False
    return file.startswith("<") or not str(Path(file).resolve()).startswith(_LIBRARIES)


def variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function remembers: its closure, its defaults, and the globals that its code names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    yield from (
        ("", default) for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    )
    for name in names_outside(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def names_outside(code: CodeType) -> set[str]:
    """Return the names that a function's code, and the functions inside it, look up outside."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*map(names_outside, inner))


def _twins(functions: list[FunctionType], memo: dict[int, Any]) -> list:
    """Give every function of the user a twin, still without contents; return what fills them in, after the copying."""
    cells: dict[int, CellType] = {}
    namespaces: dict[int, dict[str, Any]] = {}
    fills = []
    for function in filter(is_users, functions):
        originals = function.__closure__ or ()
        for cell in originals:
            cells.setdefault(id(cell), CellType())
        space = namespaces.setdefault(id(function.__globals__), dict(function.__globals__))
        closure = tuple(cells[id(cell)] for cell in originals)
        twin = FunctionType(function.__code__, space, function.__name__, function.__defaults__, closure)
        functools.update_wrapper(twin, function)
        twin.__kwdefaults__ = function.__kwdefaults__
        vars(twin).pop("__wrapped__", None)
        memo[id(function)] = twin
        fills.append(functools.partial(_fill, function, twin, memo))
    return fills


def _fill(function: FunctionType, twin: FunctionType, memo: dict[int, Any]) -> None:
    for original, cell in zip(function.__closure__ or (), twin.__closure__ or (), strict=True):
        try:
            cell.cell_contents = copy.deepcopy(original.cell_contents, memo)
        except ValueError:  # the variable has no value yet
            continue
    twin.__defaults__ = copy.deepcopy(function.__defaults__, memo)
    twin.__kwdefaults__ = copy.deepcopy(function.__kwdefaults__, memo)
    for name in names_outside(function.__code__) & function.__globals__.keys():
        value = function.__globals__[name]
        if not isinstance(value, (*_PLAIN, type, ModuleType)):
            twin.__globals__[name] = copy.deepcopy(value, memo)


def _share_large_data(things: list[Any], memo: dict[int, Any]) -> None:
    learned = {id(thing) for thing in things if isinstance(thing, torch.nn.Parameter)}
    large = [thing for thing in things if isinstance(thing, Tensor | numpy.ndarray) and id(thing) not in learned]
    if sum(thing.nbytes for thing in large) > LARGEST_COPY:
        memo.update({id(thing): thing for thing in large if thing.nbytes > LARGEST_COPY // 16})
    memo.update({id(thing): thing for thing in things if _is_long_and_plain(thing)})


def _is_long_and_plain(thing: Any) -> bool:
    if not isinstance(thing, list | tuple) or len(thing) <= LONGEST_LIST:
        return False
    first = thing[0]
    return isinstance(first, _PLAIN) or (isinstance(first, tuple) and all(isinstance(part, _PLAIN) for part in first))


def _can_be_copied(thing: Any) -> bool:
    """Say whether deepcopy knows how; it only asks for the protocol, so that nothing large is copied to find out."""
    if isinstance(thing, (Tensor, FunctionType, MethodType, functools.partial, *(dict, list, tuple, set, frozenset))):
        return True
    if hasattr(type(thing), "__deepcopy__"):
        return True
    try:
        thing.__reduce_ex__(4)
    except Exception:  # open files, running generators, locks, database handles: whatever they raise
        return False
    return True


def _copy_what_deepcopy_leaves_out(things: list[Any], memo: dict[int, Any]) -> None:
    """Gradients and attributes, which nn.Parameter drops when it is copied; hooks and attributes of an optimizer."""
    for thing in things:
        twin = memo.get(id(thing))
        if twin is None or twin is thing:
            continue
        if isinstance(thing, Tensor):
            if thing.is_leaf and thing.grad is not None:
                twin.grad = copy.deepcopy(thing.grad, memo)
            for name in vars(thing).keys() - vars(twin).keys():
                vars(twin)[name] = copy.deepcopy(vars(thing)[name], memo)
        elif isinstance(thing, Optimizer):
            for name, value in vars(thing).items():
                new = name not in vars(twin) and not isinstance(value, FunctionType | MethodType)
                if new or name.endswith("_hooks"):
                    vars(twin)[name] = copy.deepcopy(value, memo)
