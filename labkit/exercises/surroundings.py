"""Run code of the learner, or a measurement, from a known state of torch, and let nothing that it sets last."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from labkit.randomness import frozen_randomness


@contextmanager
def undisturbed(seed: int = 0) -> Iterator[None]:
    """Give a block the same start each time, and put back all that it may set for the whole process.

    At the start: float32, the CPU, a recorded graph, random numbers from `seed`, and no warnings. Put back besides
    these: threads, deterministic algorithms, the search for anomalies, and how numbers are printed.
    """
    before = [read() for read, _ in _SETTINGS]
    try:
        torch.set_default_dtype(torch.float32)
        _set_device(torch.device("cpu"))
        with (
            _on_the_cpu(),
            frozen_randomness(seed),
            torch.inference_mode(False),
            torch.enable_grad(),
            warnings.catch_warnings(),
            np.errstate(),
            np.printoptions(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for value, (read, write) in zip(before, _SETTINGS, strict=True):
            if read() != value:
                write(value)


def _on_the_cpu() -> AbstractContextManager:
    """Return a context in which tensors are made on the CPU, also inside `with torch.device("cuda"):`."""
    return nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu")


def _set_device(device: torch.device) -> None:
    if device != torch.get_default_device():
        torch.set_default_device(None if device.type == "cpu" else device)  # None: as if nobody had ever set it


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(state: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(state[0], warn_only=state[1])


def _set_print_options(options: dict[str, Any]) -> None:
    torch.set_printoptions(**options)


def _print_options() -> dict[str, Any]:
    return dict(vars(torch._tensor_str.PRINT_OPTS))  # torch has no public way to ask for them


#: What is set for the whole process, as functions that read and write it.
_SETTINGS: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_default_device, _set_device),
    (torch.get_num_threads, torch.set_num_threads),
    (_deterministic, _set_deterministic),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (_print_options, _set_print_options),
]
