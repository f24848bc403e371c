"""What torch says of itself. Only the process that `pytorch.py` starts for it loads this module."""

import importlib
import warnings
from collections.abc import Callable

import torch


def collect() -> dict:
    """Return plain facts on torch, torchvision, the GPU and the data sets.

    What can fail alone is asked alone: "NAME" holds the answer, or "NAME_error" one line on why there is none.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answers = {
            "version": torch.__version__,
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
            "mps_built": torch.backends.mps.is_built(),
            "mps_available": torch.backends.mps.is_available(),
            "cuda_available": torch.cuda.is_available(),  # warns when the driver is too old
            "threads": torch.get_num_threads(),
        }
        for question in (numpy, gpus, compute, torchvision, data_sets):
            answers |= _attempt(question)
    about_cuda = [str(warning.message) for warning in caught if "CUDA" in str(warning.message)]
    return answers | {"warnings": [text.strip().splitlines()[0] for text in about_cuda]}


def _attempt(question: Callable[[], object]) -> dict:
    try:
        return {question.__name__: question()}
    except Exception as error:
        return {f"{question.__name__}_error": f"{type(error).__name__}: {error}".strip().splitlines()[0]}


def numpy() -> list:
    """Cross from torch to NumPy: fails when the two were built for different major versions."""
    return torch.zeros(1).numpy().tolist()


def gpus() -> list[dict]:
    """Return name and bytes of memory of each GPU that PyTorch sees through CUDA or ROCm."""
    found = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [{"name": gpu.name, "memory": gpu.total_memory} for gpu in found]


def compute() -> float:
    """Compute something on the best device: a GPU can be seen, and yet be too old or too new for this build."""
    device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    return (torch.ones(2, device=device) + 1).sum().item()


def torchvision() -> str:
    """Return its version, after calling one of its compiled operators: they fail when made for another torch."""
    module = importlib.import_module("torchvision")
    boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
    module.ops.nms(boxes, torch.ones(1), 0.5)
    return module.__version__


def data_sets() -> dict[str, bool]:
    """Return which data sets are on this disk."""
    sources = importlib.import_module("labkit.data.sources")
    return {name: sources.cached(name) is not None for name in sources.SOURCES}
