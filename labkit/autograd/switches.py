"""A training of one neuron with switches to break it. The code that is shown runs; its errors are torch's own."""

import math
import traceback
from dataclasses import dataclass
from typing import Any

import torch

from labkit.errors import ConfigError
from labkit.randomness import frozen_randomness

FILE = "<one neuron>"
UPDATES = 4

#: What each switch does, in one sentence.
SWITCHES = {
    "skip_zero_grad": "`zero_grad` is left out",
    "detach_hidden": "`hidden` is cut off from its graph",
    "no_grad_hidden": "`hidden` is computed without recording",
    "edit_in_place": "`hidden` is changed in place after tanh has saved it",
    "backward_twice": "`backward` is called a second time",
    "retain_graph": "the first `backward` keeps the graph",
}


@dataclass(frozen=True)
class Outcome:
    """What a run of the program did.

    code: its lines. changed: the numbers of the lines, from 0, that a switch put in, changed or turned off. rows: for
    each update the loss, both gradients when the optimizer steps, and both weights afterwards; a gradient that is None
    stays None. error: torch's own text, "" when nothing went wrong; error_line: the number of the line that raised.
    """

    code: tuple[str, ...]
    changed: tuple[int, ...]
    rows: tuple[dict[str, Any], ...]
    error: str = ""
    error_line: int | None = None


def run(**switches: bool) -> Outcome:
    """Run the program with some switches on and return what happened; nothing else is touched.

    Raises ConfigError for a switch that does not exist or is not True or False, or for two that cannot be on together.
    """
    lines, changed = program(**switches)
    rows: list[dict[str, Any]] = []
    namespace = {"torch": torch, "note": lambda *values: rows.append(_row(len(rows) + 1, *values))}
    error, error_line = "", None
    with frozen_randomness(), torch.inference_mode(False), torch.enable_grad(), torch.device("cpu"):
        try:
            exec(compile("\n".join([*lines, "    note(loss, weight, readout)"]), FILE, "exec"), namespace)
        except RuntimeError as raised:
            error = str(raised).strip()
            frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if frame.filename == FILE]
            error_line = frames[-1].lineno - 1
    return Outcome(tuple(lines), changed, tuple(rows), error, error_line)


def program(**switches: bool) -> tuple[list[str], tuple[int, ...]]:
    """Return the lines of the program and the numbers of those that a switch changed."""
    if unknown := set(switches) - set(SWITCHES):
        raise ConfigError(f"There is no switch {min(unknown)!r}; the switches are {', '.join(SWITCHES)}.")
    for name, value in switches.items():
        if not isinstance(value, bool):  # "no" would count as true
            raise ConfigError(f"{name} must be True or False; it is {value!r}.")
    on = {name for name, value in switches.items() if value}
    if {"detach_hidden", "no_grad_hidden"} <= on:
        raise ConfigError("Choose one of detach_hidden and no_grad_hidden: both cut the graph at the same place.")
    lines: list[tuple[str, bool]] = [
        ("weight = torch.tensor(0.5, requires_grad=True)", False),
        ("readout = torch.tensor(-1.0, requires_grad=True)", False),
        ("optimizer = torch.optim.SGD([weight, readout], lr=0.1)", False),
        (f"for update in range({UPDATES}):", False),
    ]
    if "no_grad_hidden" in on:
        lines += [("    with torch.no_grad():", True), ("        hidden = torch.tanh(weight * 2)", True)]
    else:
        lines += [("    hidden = torch.tanh(weight * 2)", False)]
    if "detach_hidden" in on:
        lines += [("    hidden = hidden.detach()", True)]
    if "edit_in_place" in on:
        lines += [("    hidden += 1", True)]
    lines += [("    loss = (readout * hidden - 1) ** 2", False)]
    lines += (
        [("    # optimizer.zero_grad()", True)] if "skip_zero_grad" in on else [("    optimizer.zero_grad()", False)]
    )
    keep = "retain_graph" in on
    lines += [(f"    loss.backward({'retain_graph=True' if keep else ''})", keep)]
    if "backward_twice" in on:
        lines += [("    loss.backward()", True)]
    lines += [("    optimizer.step()", False)]
    changed = tuple(number for number, (_, is_changed) in enumerate(lines) if is_changed)
    return [line for line, _ in lines], changed


def _row(update: int, loss: torch.Tensor, weight: torch.Tensor, readout: torch.Tensor) -> dict[str, Any]:
    return {
        "update": update,
        "loss": loss.item(),
        "weight.grad": None if weight.grad is None else weight.grad.item(),
        "readout.grad": None if readout.grad is None else readout.grad.item(),
        "weight": weight.item(),
        "readout": readout.item(),
    }


def by_hand(weight: float, readout: float) -> tuple[float, float]:
    """Return both gradients as the chain rule gives them on paper: 2 (r h - 1) times r (1 - h^2) 2, and times h."""
    hidden = math.tanh(weight * 2)
    upstream = 2 * (readout * hidden - 1)
    return upstream * readout * (1 - hidden**2) * 2, upstream * hidden
