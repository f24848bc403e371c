"""Histograms of what leaves each layer of a model, on one batch of the validation data."""

from typing import Any

import torch
import torch.nn as nn
from torch import Tensor

from labkit.doctor.clinic.observation import Histogram
from labkit.doctor.copying import copied
from labkit.randomness import frozen_randomness

BINS = 24
PASSING = (nn.Flatten, nn.Unflatten, nn.Identity, nn.Dropout, nn.Dropout2d, nn.MaxPool2d, nn.AvgPool2d)  # change little


def histograms(names: dict[str, Any]) -> dict[str, Histogram]:
    """Return layer -> Histogram, in the order in which data go through them. The model itself is not touched.

    Of a layer and the activation that follows it, only the activation is kept: it is what the next layer reads.
    """
    part = copied({piece: names[piece] for piece in ("model", "val_loader")})
    outputs: list[tuple[str, nn.Module, Tensor]] = []

    def listen(name: str):
        def note(module: nn.Module, inputs: Any, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            if isinstance(value, Tensor) and value.is_floating_point():
                outputs.append((f"{name} {type(module).__name__}".strip(), module, value.detach()))

        return note

    for name, module in part["model"].named_modules():
        if not any(module.children()) or isinstance(module, nn.MultiheadAttention):
            module.register_forward_hook(listen(name))
    part["model"].eval()
    with frozen_randomness(), torch.no_grad():
        inputs, _ = next(iter(part["val_loader"]))
        part["model"](inputs)
    shown = [each for each in outputs if not isinstance(each[1], PASSING)]
    kept = [each for each, after in zip(shown, [*shown[1:], None], strict=True) if not _is_followed(each, after)]
    return {name: histogram(value) for name, _, value in kept}


def _is_followed(layer: tuple, after: tuple | None) -> bool:
    """Say whether a layer's output goes into a norm or an activation of the same shape."""
    if after is None or layer[2].shape != after[2].shape:
        return False
    is_norm = isinstance(after[1], nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm)
    return is_norm or not list(after[1].parameters())


def histogram(values: Tensor) -> Histogram:
    """Count the values of a layer, float (B, …): units are what remains when the batch is taken away."""
    flat = values.double().flatten(1)
    is_finite = flat.isfinite()
    finite = flat[is_finite]
    if not len(finite):
        return Histogram(0.0, 1.0, (0,) * BINS, float("nan"), float("nan"), 0.0, 0.0)
    low, high = finite.min().item(), finite.max().item()
    counts = torch.histc(finite, BINS, low, high if high > low else low + 1)
    return Histogram(
        low=low,
        high=high if high > low else low + 1,
        counts=tuple(int(count) for count in counts),
        mean=finite.mean().item(),
        std=finite.std(unbiased=False).item(),
        silent=(flat == 0).all(dim=0).double().mean().item(),
        finite=is_finite.double().mean().item(),
    )
