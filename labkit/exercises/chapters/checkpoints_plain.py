"""Chapter 06, sixth part: what the safe loader refuses, as plain data."""

import io
from typing import Any

import numpy as np
import torch

from labkit.errors import error_of
from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise


def run_plain(answer: Any, content: dict) -> Any:
    """Make a content plain: its values, their types, and whether a file of it loads with `weights_only=True`."""
    families.need_function(answer)
    result = answer(content)
    if result is ...:
        return ...
    file = io.BytesIO()
    torch.save(result, file)
    file.seek(0)
    refused = error_of(lambda: torch.load(file, weights_only=True))
    return {
        "types": _types(result),
        "content": result,
        "it loads with `weights_only=True`": refused == "no error",
    }


def _types(value: Any) -> Any:
    """Return the same nest with the name of a type in the place of each value; lists and tuples are told apart."""
    if isinstance(value, dict):
        return {name: _types(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return {"kind": type(value).__name__} | {f"[{place}]": _types(one) for place, one in enumerate(value)}
    return f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")


def _made_plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, dict):
        return {name: _made_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_made_plain(one) for one in value)
    return value


def _one_level(content: dict) -> dict:
    flat = {name: one for name, one in content.items() if not isinstance(one, dict | list | tuple)}
    return content | {name: _made_plain(one) for name, one in flat.items()}


def _no_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _no_lists(one) for name, one in value.items()}
    return value if isinstance(value, list | tuple) else _made_plain(value)


def _no_arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _no_arrays(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_no_arrays(one) for one in value)
    return value if isinstance(value, np.ndarray) else _made_plain(value)


def _all_to(convert: Any, kinds: Any = np.generic) -> Any:
    """Return an answer that treats NumPy's single numbers in its own way."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(plain(one) for one in value)
        return convert(value) if isinstance(value, kinds) else _made_plain(value)

    return plain


def _lists_for_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _lists_for_tuples(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_lists_for_tuples(one) for one in value]
    return _made_plain(value)


def _cases(generator: torch.Generator) -> list[tuple]:
    numbers = torch.rand(6, generator=generator, dtype=torch.float64).numpy()
    history = [{"loss": np.float64(numbers[0]), "right": np.int64(7)}, {"loss": np.float32(0.5), "right": 3}]
    return [
        ({"loss": np.float64(numbers[1]), "epoch": np.int64(4), "name": "first"},),
        ({"history": history, "mean": numbers[:3].astype("float32"), "done": np.bool_(True)},),
        ({"weights": torch.ones(2), "range": (np.float64(0.25), None), "more": {"order": np.arange(4)}},),
    ]


PLAIN = Exercise(
    name="plain",
    prompt="NumPy numbers get into a checkpoint unnoticed, as a mean for instance, and then `weights_only=True` "
    "refuses the whole file. Return the same nest of dicts, lists and tuples with each NumPy number (`np.generic`) as "
    "Python's own of its kind (`int`, `float`, `bool`), each NumPy array as a tensor, and all else as it is.",
    stub='''def plain(content):
    """Return the content with nothing of NumPy in it: dict, list, tuple, number, array or anything else."""
    return ...  # your turn''',
    solved='''def plain(content):
    """Return the content with nothing of NumPy in it: dict, list, tuple, number, array or anything else."""
    if isinstance(content, np.generic):
        return content.item()
    if isinstance(content, np.ndarray):
        return torch.from_numpy(content)
    if isinstance(content, dict):
        return {name: plain(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return type(content)(plain(value) for value in content)
    return content''',
    hints=(
        "A nest of unknown depth: the function calls itself for what is inside.",
        "Every NumPy number is an `np.generic`, and `item()` gives Python's own number of that kind.",
        "Five cases: number, array, dict, list or tuple (`type(content)(…)` builds the same), and all else.",
    ),
    cases=_cases,
    run=run_plain,
    praise="Such a file loads everywhere, and can run no code.",
    misconceptions=(
        Misconception(
            "only the first level",
            _one_level,
            "The numbers inside of lists and dicts are still NumPy's: the history of losses is where they hide. One of "
            "them, and the file is refused.",
        ),
        Misconception(
            "not inside of lists",
            _no_lists,
            "You walk into dicts, and not into lists and tuples. A history is a list.",
        ),
        Misconception(
            "arrays stay",
            _no_arrays,
            "An array is refused like a number: it is rebuilt by a function of NumPy's, which the safe loader does "
            "not call. `torch.from_numpy` makes a tensor of it.",
        ),
        Misconception(
            "everything is a float",
            _all_to(float),
            "An epoch of 4.0 and a flag of 1.0: whoever counts with them is surprised. `item()` keeps the kind.",
        ),
        Misconception(
            "text instead of numbers",
            _all_to(str),
            "Text loads, and is no number any more: '0.5' is not less than 0.6.",
        ),
        Misconception(
            "tensors instead of numbers",
            _all_to(torch.as_tensor),
            "A tensor loads as well, but a loss was asked for as a number: it is compared, printed, and put into JSON.",
        ),
        Misconception(
            "tuples become lists",
            _lists_for_tuples,
            "A tuple comes back as a list. Python's `random.setstate`, for one, insists on a tuple.",
        ),
    ),
)
