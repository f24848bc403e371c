"""Compare gradients with what the loss does: along a path of outputs, and along the gradient of the weights."""

import math
import warnings
from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn as nn
from torch import Tensor

from labkit import randomness
from labkit.doctor.copying import copied
from labkit.doctor.nested import mapped
from labkit.doctor.probe.model_trace import CUTS, STEPS, traced
from labkit.doctor.program import Program
from labkit.doctor.records import Recording

DECISIONS = {"gt", "lt", "ge", "le", "argmax", *STEPS}


def hard_operations(program: Program, recording: Recording) -> tuple[float, list[str]]:
    """Return which share of the loss's change is in no gradient, and which operations of loss_fn have none.

    The change of loss_fn along a path of outputs is compared with the sum of its gradients along it. The share is 0.0
    without decisions in loss_fn, and where it detaches something, as that may be on purpose.
    """
    calls = recording.updates[0].losses
    if len(calls) != 1 or not isinstance(calls[0].outputs, Tensor) or not calls[0].outputs.is_floating_point():
        return 0.0, []
    loss_fn = copied({"loss_fn": program.loss_fn})["loss_fn"]
    outputs, targets = double(calls[0].outputs.detach()), mapped(calls[0].targets, double)
    with randomness.frozen_randomness(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with traced(nn.Identity(), CUTS | STEPS) as trace:
                loss_fn(outputs.clone().requires_grad_(), targets)
            hard = {o.name for o in trace.operations if o.needs and (o.name in STEPS or not o.gives)}
            if not DECISIONS & hard or {"detach", "data"} & hard:
                return 0.0, []
            return _unexplained(lambda point: loss_fn(point, targets), outputs), sorted(DECISIONS & hard)
        except Exception:  # a loss that wants other types, or has no graph at all
            return 0.0, []


def _unexplained(loss: Callable[[Tensor], Tensor], outputs: Tensor, points: int = 41) -> float:
    """Return the share of the changes of a function along a straight path that the trapezoids of its slope miss."""
    way = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    way = way * (outputs.std(correction=0) + 0.1)
    values, slopes = [], []
    for place in torch.linspace(-2, 2, points, dtype=torch.float64):
        point = (outputs + place * way).requires_grad_()
        value = loss(point)
        (gradient,) = torch.autograd.grad(value, point)
        values.append(value.item())
        slopes.append((gradient * way).sum().item())
    width = 4 / (points - 1)
    changes = [later - earlier for earlier, later in pairwise(values)]
    explained = [(earlier + later) / 2 * width for earlier, later in pairwise(slopes)]
    missed = sum(abs(change - part) for change, part in zip(changes, explained, strict=True))
    return missed / max(sum(map(abs, changes)), 1e-12)


def double(tensor: Tensor) -> Tensor:
    """Return a tensor in double precision if it holds floating-point numbers, else as it is."""
    return tensor.double() if tensor.is_floating_point() else tensor


def slopes_along_the_gradient(program: Program, recording: Recording) -> tuple[float, float] | None:
    """Return the slope of the loss along its gradient, by autograd and by two values of the loss, in evaluation mode.

    None where it cannot be computed in double precision.
    """
    update = recording.updates[0]
    if len(update.losses) != 1 or not update.forwards:
        return None
    parts = copied({"model": program.model, "loss_fn": program.loss_fn})
    model = parts["model"].double().eval()
    inputs = mapped(update.forwards[0].inputs, double)
    targets = mapped(update.losses[0].targets, double)

    def loss() -> Tensor:
        with randomness.frozen_randomness(0):
            return parts["loss_fn"](model(*mapped(inputs, Tensor.clone)), targets)

    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        gradients = torch.autograd.grad(loss(), parameters, allow_unused=True, materialize_grads=True)
        length = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
        values = []
        with torch.no_grad():
            for step in (1e-5, -2e-5):
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter += step / max(length, 1e-30) * gradient
                values.append(loss().item())
    except Exception:  # layers or losses for one precision only
        return None
    return length, (values[0] - values[1]) / 2e-5
