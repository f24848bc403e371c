"""From `a=1,2` and `b=log(1e-4,1e-1)` to the parameters of each run, all checked before the first one starts."""

import ast
import re
from collections.abc import Iterable, Mapping

from scipy import stats
from sklearn.model_selection import ParameterGrid, ParameterSampler

from labkit.course.chosen import checked
from labkit.errors import ConfigError

DISTRIBUTION = re.compile(r"(log|uniform|int)\((.+),(.+)\)")
DIGITS = 4  # of a number that was drawn: more say nothing, and are hard to read


def combinations(
    grid: Mapping[str, list], random: Mapping[str, object], trials: int, seed: int, declared: Mapping[str, type]
) -> list[dict]:
    """Return the parameters of each run: every point of the grid, each with every one of `trials` draws.

    random: name -> a list to choose from, or a distribution of SciPy. Raises ConfigError for a name that the notebook
    does not declare, and for a value of another type.
    """
    known = {name: _first(choices) for name, choices in (*grid.items(), *random.items())}
    checked({name: value for name, value in known.items() if name not in declared}, declared)  # names first
    points = list(ParameterGrid(dict(grid)))
    draws = list(ParameterSampler(dict(random), trials, random_state=seed)) if random else [{}]
    plain = [{name: _plain(value, declared[name]) for name, value in (point | draw).items()} for point in points
             for draw in draws]  # fmt: skip
    return [checked(values, declared) for values in plain]


def grid_values(texts: Iterable[str]) -> dict[str, list]:
    """Read texts such as "batch_size=16,32". Raises ConfigError for others."""
    return {name: [_value(part) for part in _parts(name, text)] for name, text in _named(texts, "a=1,2").items()}


def random_values(texts: Iterable[str]) -> dict[str, object]:
    """Read texts such as "learning_rate=log(1e-4,1e-1)", "dropout=uniform(0,0.5)", "width=int(8,64)", "model=cnn,mlp".

    Raises ConfigError for others.
    """
    return {name: _choices(name, text) for name, text in _named(texts, "a=log(1e-4,1e-1)").items()}


def _choices(name: str, text: str) -> object:
    found = DISTRIBUTION.fullmatch(text.replace(" ", ""))
    if not found:
        if "(" in text:
            raise ConfigError(
                f"{name}={text} is not understood. Write log(LOW,HIGH), uniform(LOW,HIGH), int(LOW,HIGH), or values "
                "with commas between them."
            )
        return [_value(part) for part in _parts(name, text)]
    kind, low, high = found[1], _value(found[2]), _value(found[3])
    is_right = all(type(end) is int or (type(end) is float and kind != "int") for end in (low, high))
    if not is_right or not low < high or (kind == "log" and low <= 0):
        above = " above 0" if kind == "log" else ""
        whole = "whole numbers" if kind == "int" else "numbers"
        raise ConfigError(f"{name}={text}: {kind} needs two {whole}{above}, the smaller one first.")
    if kind == "log":
        return stats.loguniform(low, high)
    return stats.uniform(low, high - low) if kind == "uniform" else stats.randint(low, high + 1)


def _named(texts: Iterable[str], example: str) -> dict[str, str]:
    named = {}
    for text in texts:
        name, sign, values = text.partition("=")
        name = name.strip()
        if not sign or not name.isidentifier() or not values.strip():
            raise ConfigError(f"{text!r} is not understood. Write a name and its values, such as {example}.")
        if name in named:
            raise ConfigError(f"The parameter {name!r} is given twice. Put all its values into one.")
        named[name] = values.strip()
    return named


def _parts(name: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if "" in parts or len(set(parts)) < len(parts):
        raise ConfigError(f"{name}={text} has a value that is empty or comes twice.")
    return parts


def _value(text: str) -> object:
    """Return the number or truth value that a text is, else the text."""
    try:
        read = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return read if isinstance(read, int | float | bool) else text


def _first(choices: object) -> object:
    return choices[0] if isinstance(choices, list) else None


def _plain(value: object, kind: type) -> object:
    """Return a value as plain Python: NumPy draws numbers of its own types."""
    if not hasattr(value, "dtype"):
        return value
    drawn = float(f"{float(value):.{DIGITS}g}")
    return round(drawn) if kind is int or value.dtype.kind == "i" else drawn
