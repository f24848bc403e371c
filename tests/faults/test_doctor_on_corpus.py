"""The doctor on the whole corpus: it leaves no trace, names the fault first, and is silent where there is none.

`python -m benchmarks.doctor` counts the same with three seeds.
"""

from collections.abc import Callable

import numpy
import pytest
import torch

from labkit import randomness
from labkit.doctor import examine
from labkit.doctor.copying import reachable
from tests.faults.program import Program, corpus, seed

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def looked_at() -> list:
    """Return (program, build) of every program and of every healthy twin."""
    found = []
    for program in corpus():
        found.append(pytest.param(program, program.build, True, id=program.name))
        if program.healthy is not None:
            found.append(pytest.param(program, program.healthy, False, id=f"{program.name}-mended"))
    return found


def fingerprint(pieces: dict) -> list:
    """Return the bits of every tensor and array that the pieces lead to, and modes, counters and random numbers."""
    seen: list = [str(randomness.rng_state())]
    for thing in reachable(pieces):
        if isinstance(thing, torch.Tensor) and thing.layout == torch.strided:
            gradient = None if not thing.is_leaf or thing.grad is None else bits(thing.grad)
            seen.append((id(thing), thing.requires_grad, bits(thing), gradient))
        elif isinstance(thing, numpy.ndarray) and thing.dtype != object:
            seen.append((id(thing), thing.tobytes()))
        elif isinstance(thing, torch.Generator):
            seen.append((id(thing), bits(thing.get_state())))
        elif isinstance(thing, torch.nn.Module):
            seen.append((id(thing), thing.training, len(thing._forward_hooks), len(thing._forward_pre_hooks)))
        elif isinstance(thing, torch.optim.Optimizer):
            rates = [{name: value for name, value in group.items() if name != "params"} for group in thing.param_groups]
            seen.append((id(thing), repr(rates), len(thing.state)))
        elif hasattr(thing, "__dict__") and not callable(thing):
            plain = {name: value for name, value in vars(thing).items() if isinstance(value, int | float | str | bool)}
            seen.append((id(thing), repr(plain)))
    return seen


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize(("program", "build", "ill"), looked_at())
def test_the_doctor_is_right_and_leaves_no_trace(program: Program, build: Callable[[], dict], ill: bool) -> None:
    seed(0)
    pieces = build()
    before = fingerprint(pieces)
    report = examine(**pieces)
    assert fingerprint(pieces) == before
    if not ill or program.fault == "none":
        assert not report.failed, str(report)
