"""The doctor on the corpus: it leaves no trace, and says of nothing healthy that a fault is proven.

`python -m benchmarks.doctor` counts how often it names the fault, and with three seeds.
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
    """Return (program, build, whether it is ill) of all programs and twins; a third is part of a usual run."""
    builds = [
        (program, build, ill)
        for program in corpus()
        for build, ill in ((program.build, program.fault != "none"), (program.healthy, False))
        if build is not None
    ]
    return [
        pytest.param(
            *each,
            id=each[0].name if each[1] is each[0].build else f"{each[0].name}-mended",
            marks=[pytest.mark.exhaustive] * (place % 3 != 0),
        )
        for place, each in enumerate(builds)
    ]


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
def test_the_doctor_leaves_no_trace_and_raises_no_false_alarm(
    program: Program, build: Callable[[], dict], ill: bool
) -> None:
    seed(0)
    pieces = build()
    before = fingerprint(pieces)
    report = examine(**pieces)
    assert fingerprint(pieces) == before
    if not ill:
        assert not report.failed, str(report)
