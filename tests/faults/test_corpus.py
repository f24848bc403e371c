"""The corpus proves itself: every fault does its damage, every twin and every healthy program learns."""

import math
from collections.abc import Callable

import pytest
import torch

from tests.faults.program import Program, accuracy, corpus, seed, train

PROGRAMS = corpus()
FAULTY = [program for program in PROGRAMS if program.fault != "none"]
HEALTHY = [program for program in PROGRAMS if program.fault == "none"]
REQUIRED = {"model", "loss_fn", "optimizer", "train_loader", "val_loader"}
SEEDS = 3

pytestmark = pytest.mark.filterwarnings("ignore")  # some faults are announced by a warning


def seeded(programs: list[Program]) -> list:
    """Return every program with every seed; one seed of each, by turns, is part of a usual run."""
    return [
        pytest.param(
            program,
            number,
            id=f"{program.name}-{number}",
            marks=[pytest.mark.slow] + [pytest.mark.exhaustive] * (number != place % SEEDS),
        )
        for place, program in enumerate(programs)
        for number in range(SEEDS)
    ]


def built(build: Callable[[], dict], number: int = 0) -> dict:
    seed(number)
    return build()


def value(program: Program, trained: dict, score: float) -> float:
    return score if program.measure is None else float(program.measure(trained))


def outcome(program: Program, build: Callable[[], dict], number: int) -> float:
    """Train a fresh build; return what is measured, where NaN counts as minus infinity."""
    parts = built(build, number)
    _, score = train(parts, program.epochs)
    result = value(program, parts, score)
    return -math.inf if math.isnan(result) else result


def takes_a_step(build: Callable[[], dict]) -> None:
    parts = built(build)
    assert set(parts) >= REQUIRED
    parts["model"].train()
    batch = next(iter(parts["train_loader"]))
    if (step := parts.get("train_step")) is not None:
        float(step(parts["model"], batch, parts["loss_fn"], parts["optimizer"]))
    else:
        x, y = batch
        assert parts["loss_fn"](parts["model"](x), y).shape == ()


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_keeps_the_contract(program: Program) -> None:
    if program.effect != "raises":
        takes_a_step(program.build)
    if program.healthy is not None:
        takes_a_step(program.healthy)


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_a_program_is_built_afresh(program: Program) -> None:
    first, second = built(program.build), built(program.build)
    assert first["model"] is not second["model"] and first["optimizer"] is not second["optimizer"]
    for name, parameter in first["model"].state_dict().items():
        other = second["model"].state_dict()[name]
        assert torch.equal(parameter, other), f"{name} differs between two builds with one seed"
        assert parameter.data_ptr() != other.data_ptr() or not parameter.numel(), f"{name} is shared by two builds"


@pytest.mark.parametrize(("program", "number"), seeded(FAULTY))
def test_a_fault_does_its_damage(program: Program, number: int) -> None:
    healthy = outcome(program, program.healthy, number)
    assert math.isfinite(healthy)
    if program.effect == "raises":
        with pytest.raises(Exception):  # noqa: B017 - the program decides which
            outcome(program, program.build, number)
    else:
        faulty = outcome(program, program.build, number)
        assert healthy - faulty >= program.gap, f"the twin reaches {healthy:.4f}, the program {faulty:.4f}"


@pytest.mark.parametrize(("program", "number"), seeded(HEALTHY))
def test_a_healthy_program_learns(program: Program, number: int) -> None:
    parts = built(program.build, number)
    before = value(program, parts, _score(parts))
    losses, score = train(parts, program.epochs)
    after = value(program, parts, score)
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < 0.9 * losses[0] or after > before + 0.1, f"losses {losses}, measured {before} and {after}"


def _score(parts: dict) -> float:
    if parts["val_loader"] is None:
        return math.nan
    return float((parts.get("evaluate") or accuracy)(parts["model"], parts["val_loader"]))
