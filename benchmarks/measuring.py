"""What every benchmark needs: take turns, take medians, print a table and one JSON line."""

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping

import torch

from labkit.table import Table


def median_seconds(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Run each contestant once in every round, in turn, and return its median time in seconds.

    Taking turns lets a busy moment of the machine fall on all of them. One round before the first is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for counted in [False] + [True] * rounds:
        for name, run in contestants.items():
            begin = time.perf_counter()
            run()
            if counted:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def report(table: Table, ratios: Mapping[str, float | Mapping[str, float]], as_json: bool) -> None:
    """Print the table and, last, the ratios (or groups of them) as one JSON line if it is asked for."""
    print(table)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}")
    if as_json:
        print(json.dumps(_rounded(ratios)))


def _rounded(ratios: Mapping[str, float | Mapping[str, float]]) -> dict:
    return {name: _rounded(one) if isinstance(one, Mapping) else round(one, 3) for name, one in ratios.items()}
