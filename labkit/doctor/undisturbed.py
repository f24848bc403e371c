"""Run a program's pieces and leave no trace: what cannot be copied with them is put back afterwards.

Copies take care of the model, the optimizer, loaders and functions (see `copying`). Classes are not copied, since a
copy would be another type; so what their methods share is kept here: class attributes, default arguments, and the
globals that methods use.
"""

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FunctionType, ModuleType

import torch

from labkit.doctor.copying import is_users, names_outside, reachable, variables
from labkit.doctor.program import Program
from labkit.keeping import Kept


@contextmanager
def undisturbed(program: Program) -> Iterator[None]:
    """Put back all random numbers and all that classes share; inside, gradients are on, whatever was switched off."""
    kept, rebind = Kept(), []
    for kind in users_classes(program):
        rebind += [functools.partial(setattr, kind, name, value) for name, value in _attributes(kind, kept)]
        for method in methods(kind):
            rebind += _variables(method, kept)
    for tensor, gradient in list(kept.gradients):  # a copy of the program needs them: they are kept by value
        tensor.grad = gradient
        kept.hold(gradient)
    try:
        with warnings.catch_warnings(), torch.inference_mode(False), torch.enable_grad(), _uncompiled():
            warnings.simplefilter("ignore")
            yield
    finally:
        for put_back in rebind:
            put_back()
        kept.put_back()


def _uncompiled() -> AbstractContextManager:
    """Run compiled models and functions as they were written: compiled code knows nothing of hooks on its layers."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def users_classes(program: Program) -> list[type]:
    """Return the classes that the user wrote, of everything that the program consists of."""
    kinds = dict.fromkeys(kind for thing in reachable(program.pieces()) for kind in type(thing).__mro__)
    return [kind for kind in kinds if any(map(is_users, methods(kind)))]


def methods(kind: type) -> list[FunctionType]:
    """Return the functions of a class body; what static and class methods and properties are made of counts, too."""
    inside = [
        getattr(value, "__func__", None) or getattr(value, "fget", None) or value for value in vars(kind).values()
    ]
    return [value for value in inside if isinstance(value, FunctionType)]


def _attributes(kind: type, kept: Kept) -> Iterator[tuple[str, object]]:
    """Yield the class attributes that an assignment can put back, and keep what is inside them."""
    for name, value in list(vars(kind).items()):
        if not name.startswith("__") and not hasattr(type(value), "__get__"):
            kept.hold(value)
            yield name, value


def _variables(method: FunctionType, kept: Kept) -> list[Callable[[], object]]:
    """Keep what is inside the variables of a method; return what binds its globals and its closure as they are now."""
    for _, value in variables(method):
        if not isinstance(value, type | ModuleType):
            kept.hold(value)
    known = names_outside(method.__code__) & method.__globals__.keys()
    rebind: list = [functools.partial(method.__globals__.__setitem__, name, method.__globals__[name]) for name in known]
    for cell in method.__closure__ or ():
        try:
            rebind.append(functools.partial(setattr, cell, "cell_contents", cell.cell_contents))
        except ValueError:  # a variable without a value
            continue
    return rebind
