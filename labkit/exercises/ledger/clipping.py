"""Measurements for the topic "Gradient clipping": what it bounds, and what it cannot bring back."""

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


def weights_with(*gradients: float) -> list[nn.Parameter]:
    """Return a weight of 0 for each number, with the number as its gradient."""
    weights = [nn.Parameter(torch.zeros(1)) for _ in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = torch.tensor([gradient])
    return weights


def gradients_of(weights: list[nn.Parameter]) -> Tensor:
    """Return the gradients in one row."""
    return torch.cat([weight.grad for weight in weights])


def way_of_a_step(*, clips_before: bool, clips_after: bool, scaler: torch.amp.GradScaler, unscales: bool) -> float:
    """Make a step at rate 1 for the gradients 30 and 40 and return how far it went."""
    weights = weights_with(0.0, 0.0)
    optimizer = torch.optim.SGD(weights, lr=1.0)
    scaler.scale(30 * weights[0] + 40 * weights[1]).backward()
    if unscales:
        scaler.unscale_(optimizer)
    if clips_before:
        nn.utils.clip_grad_norm_(weights, max_norm=1.0)
    scaler.step(optimizer)
    if clips_after:
        nn.utils.clip_grad_norm_(weights, max_norm=1.0)
    return torch.cat(weights).norm().item()


@claim(
    "C253",
    true="Yes. The gradients 30 and 40 became 0.6 and 0.8: same direction, norm 1. The call returns the 50 of before, "
    "a number worth a place in the record.",
    false="You may fear that it bends the direction. It scales all gradients by one factor. Put after `step()`, "
    "though, it changed nothing: the step had been made.",
    depends="With a scaler one line comes before, `scaler.unscale_(optimizer)`, or else the enlarged gradients are "
    "clipped and the step is far too small. The place stays the same.",
)
def between_backward_and_step() -> dict[str, bool]:
    """Clip two gradients; then make a step with clipping before it, after it, and with a scaler."""
    weights = weights_with(30.0, 40.0)
    returned = nn.utils.clip_grad_norm_(weights, max_norm=1.0).item()
    off = {"scaler": torch.amp.GradScaler("cpu", enabled=False), "unscales": False}
    way = way_of_a_step(clips_before=True, clips_after=False, **off)
    too_late = way_of_a_step(clips_before=False, clips_after=True, **off)

    def scaled_way(unscales: bool) -> float:
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        return way_of_a_step(clips_before=True, clips_after=False, scaler=scaler, unscales=unscales)

    return {
        "all gradients are scaled together, to norm 1": torch.allclose(gradients_of(weights), torch.tensor([0.6, 0.8])),
        "the call returns the norm before": returned == 50,
        "between `backward()` and `step()` it bounds the step": abs(way - 1) < 1e-3,
        "after `step()` it is too late": too_late == 50,
        "with a scaler it is right after `unscale_`, and not without": abs(scaled_way(True) - 1) < 1e-3
        and scaled_way(False) < 0.01,
    }


@claim(
    "C254",
    true="It bounds what is large and finite. A NaN is neither: one NaN among the gradients made the common norm NaN, "
    "and through it *every* gradient. Clipping spread it.",
    false="The first half is right: a gradient of a million was brought to norm 1. It is the NaN that it cannot "
    "prevent.",
    depends="Right: it helps before the accident, not after. `error_if_nonfinite=True` stops at the first NaN, "
    "before any weight is spoiled.",
)
def it_bounds_and_does_not_heal() -> dict[str, bool]:
    """Clip a huge gradient, then one that is NaN, then one that is infinite."""
    huge, broken, endless = weights_with(1e6, 1.0), weights_with(float("nan"), 1.0), weights_with(float("inf"), 1.0)
    for weights in (huge, broken, endless):
        nn.utils.clip_grad_norm_(weights, max_norm=1.0)
    stopped = error_of(
        lambda: nn.utils.clip_grad_norm_(weights_with(float("nan")), max_norm=1.0, error_if_nonfinite=True)
    )
    return {
        "a huge gradient is bounded": abs(gradients_of(huge).norm().item() - 1) < 1e-3,
        "a gradient that is NaN leaves the others as they are": gradients_of(broken)[1].item() == 1,
        "an infinite gradient is bounded": bool(gradients_of(endless).isfinite().all()),
        "`error_if_nonfinite=True` stops at a NaN": stopped != "",
    }
