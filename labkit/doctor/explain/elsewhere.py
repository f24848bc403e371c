"""Errors that come as text: from a worker process of the DataLoader, another process, a compiled module."""

import re
from collections.abc import Iterator, Sequence
from types import FunctionType

import torch.nn as nn
from torch import Tensor

from labkit.doctor.explain.frames import Place, Raised

_FRAME = re.compile(
    r'^ *File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)'
    r"(\n(?P<before> +)(?P<text>\S.*)\n(?P<marks> *[~^]+) *$)?",
    re.MULTILINE,
)
_ERROR = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(: (?P<text>.*))?", re.MULTILINE | re.DOTALL)  # not indented
_CAUGHT = re.compile(
    r"(Caught (?P<type>[\w.]+) in (?P<where>[^\n]+)\.\nOriginal |.*?Process (?P<number>\d+) terminated[^\n]*\n)"
    r"Traceback \(most recent call last\):\n",
    re.DOTALL,
)
_COMPILED = re.compile(r"got (?P<type>\w+)\((?P<quote>['\"])(?P<text>.*?)(?P=quote)\).*from user code:\n", re.DOTALL)
_FAKE_SIZE = re.compile(r"FakeTensor\(\.\.\., size=\(([^()]*)\)")
_SYMBOL = re.compile(r"\bs\d+\b")  # how a graph calls a size that it has met with several values


def from_elsewhere(here: Raised) -> Raised | None:
    """Return the error that was met elsewhere and came here as text, None if this one is from here."""
    if match := _CAUGHT.search(here.text):
        text = here.text[match.end() :]
        found = _ERROR.search(text, max((frame.end() for frame in _FRAME.finditer(text)), default=0))
        if found:
            where = match["where"] or f"process {match['number']}"
            places = tuple(_places(text, list(_data_sets(here.places))))
            return Raised(found["type"].rpartition(".")[2], (found["text"] or "").strip(), places, where, here.places)
    if match := _COMPILED.search(here.text):
        modules = [module for _, model in models_of(here.places) for module in model.modules()]
        places = tuple(_places(here.text[match.end() :], modules))
        sizes = _sizes_of_symbols(here)
        text = _SYMBOL.sub(lambda symbol: sizes.get(symbol[0], symbol[0]), match["text"])
        return Raised(match["type"], text, places, "a compiled module", here.places)
    return None


def _sizes_of_symbols(here: Raised) -> dict[str, str]:
    """Return the numbers behind s50, s69, …: those of the user's tensors that have such a shape."""
    tensors = [
        value
        for place in reversed(here.places)
        if place.is_of_user
        for value in place.variables.values()
        if isinstance(value, Tensor)
    ]
    sizes: dict[str, str] = {}
    for shape in (match[1].split(", ") for match in _FAKE_SIZE.finditer(here.text) if _SYMBOL.search(match[1])):
        for tensor in tensors:
            real = list(map(str, tensor.shape))
            if len(real) == len(shape) and all(
                size == one if size.isdecimal() else sizes.get(size, one) == one
                for size, one in zip(shape, real, strict=True)
            ):
                sizes.update((size, one) for size, one in zip(shape, real, strict=True) if not size.isdecimal())
                break
    return sizes


def models_of(places: Sequence[Place]) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that the user's variables hold, the outermost function first, and then every `self`."""
    own = [place for place in places if place.is_of_user]
    for place in own:
        for name, value in [*place.variables.items(), *place.global_variables.items()]:
            if _is_ready(value) and name != "self" and not name.startswith("_"):
                yield name, value
    for place in own:
        if _is_ready(place.variables.get("self")):
            yield "self", place.variables["self"]


def _is_ready(value: object) -> bool:
    """Say whether something is a module that has been initialised."""
    return isinstance(value, nn.Module) and "_modules" in vars(value)


def _places(text: str, owners: Sequence[object]) -> Iterator[Place]:
    """Yield the places that the text of a traceback names, each with `self` where one of the owners has the code."""
    for match in _FRAME.finditer(text):
        place = Place(match["file"], int(match["line"]), match["function"])
        line = place.lines[place.line - 1] if place.line <= len(place.lines) else ""
        mine = {id(owner): owner for owner in owners if _has_code(owner, place)}
        known = {"self": next(iter(mine.values()))} if len(mine) == 1 else {}
        is_raise = line.strip().startswith(("raise ", "assert "))
        yield Place(place.file, place.line, place.function, None, _marked(match, line), is_raise, known)


def _marked(match: re.Match, line: str) -> tuple[int, int, int, int] | None:
    """Return the position of what is marked by ^^^ under a line; None if nothing is."""
    if not match["marks"] or match["text"].strip() != line.strip():
        return None
    indent = len(line) - len(line.lstrip()) - len(match["before"])
    first, last = (len(match["marks"]) - len(match["marks"].lstrip())) + indent, len(match["marks"]) + indent
    number = int(match["line"])
    return number, number, len(line[:first].encode()), len(line[:last].encode())


def _has_code(owner: object, place: Place) -> bool:
    function = next((vars(kind)[place.function] for kind in type(owner).__mro__ if place.function in vars(kind)), None)
    return isinstance(function, FunctionType) and function.__code__.co_filename == place.file


def _data_sets(places: Sequence[Place]) -> Iterator[object]:
    """Yield the data set of the loader that met the error, and the ones inside it."""
    for place in reversed(places):
        data_set = getattr(place.variables.get("self"), "_dataset", None)
        while data_set is not None:
            yield data_set
            data_set = vars(data_set).get("dataset") if hasattr(data_set, "__dict__") else None
