"""Say what a layer takes, why it refused what came in, and what to change."""

import math
import re
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn as nn
from torch import Tensor

from labkit.models.arithmetic import Window

_NORMS = (nn.modules.batchnorm._NormBase,)
_CONVOLUTIONS = (nn.modules.conv._ConvNd,)
_POOLS = (nn.modules.pooling._MaxPoolNd, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)

#: What can be wrong with the input as a whole: a change, and what to say if the model works with it.
_CHANGES: tuple[tuple[Callable[[Tensor], Tensor], str], ...] = (
    (lambda x: x.unsqueeze(0), "The batch dimension is missing: `model(inputs.unsqueeze(0))` works."),
    (lambda x: x.permute(0, 3, 1, 2), "The channels come last: `model(inputs.permute(0, 3, 1, 2))` works."),
    (lambda x: x.float(), "The numbers have the wrong dtype: `model(inputs.float())` works."),
    (lambda x: x.long(), "Indices must be whole numbers: `model(inputs.long())` works."),
)


def fix_for_inputs(run: Callable[[Tensor], object], inputs: Tensor) -> str:
    """Return what to change about the inputs of the model, "" if none of the usual changes makes it run.

    run: calls the model. Each change is tried, so that what is said has been seen to work.
    """
    for change, sentence in _CHANGES:
        try:
            changed = change(inputs)
            if changed.shape != inputs.shape or changed.dtype != inputs.dtype:
                run(changed)
                return sentence
        except Exception:  # whatever it is, this change does not help
            continue
    return ""


def fix_for_layer(layer: nn.Module, inputs: object) -> str:
    """Return what a layer takes and gives, and what to change, "" where nothing is known.

    inputs: what came in, a tuple of arguments.
    """
    if not (isinstance(inputs, tuple) and len(inputs) > 0 and isinstance(inputs[0], Tensor)):
        return ""
    x = inputs[0]
    if isinstance(layer, nn.Linear):
        return _linear(layer, x)
    if isinstance(layer, nn.Embedding):
        return _embedding(layer, x)
    if isinstance(layer, _CONVOLUTIONS):
        return _convolution(layer, x)
    if isinstance(layer, _POOLS):
        return _too_small(layer, x) or _dimensions(layer, x)
    if isinstance(layer, _NORMS):
        return _norm(layer, x)
    return ""


def fix_for_forward(message: str) -> str:
    """Return what to change in a forward of one's own, from the words of the error, "" where nothing is known."""
    if "Sizes of tensors must match except in dimension" in message:
        return (
            "`torch.cat` needs equal sizes in every dimension but the one it joins: change padding or stride so that "
            "both branches keep the same height and width, or crop the larger one."
        )
    if re.search(r"size of tensor a \(\d+\) must match the size of tensor b", message):
        return (
            "Both sides of a sum need the same shape. On a shortcut, a 1×1 convolution with the same stride changes "
            "channels and size: `nn.Conv2d(channels_in, channels_out, kernel_size=1, stride=stride)`."
        )
    if "is invalid for input of size" in message:
        return "The numbers do not fit into that shape. `x.flatten(1)` always keeps the batch and flattens the rest."
    if "shapes cannot be multiplied" in message:
        return "In `a @ b` the last size of a must be the last but one of b."
    return ""


def own_line(error: BaseException) -> str:
    """Return the line of the learner's program that led to an error, "" where its text is not known."""
    apart = (str(Path(torch.__file__).parent), str(Path(__file__).parent / "inspect.py"))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(apart)]
    return (frames[-1].line or "").strip() if frames else ""


def _linear(layer: nn.Linear, x: Tensor) -> str:
    takes = f"It takes …×{layer.in_features} and gives …×{layer.out_features}. "
    numbers = math.prod(x.shape[1:])
    if x.shape[-1] == layer.in_features:
        return ""
    if x.ndim > 2 and numbers == layer.in_features:
        return takes + f"Put `nn.Flatten()` before it: a sample has {numbers} numbers."
    if x.ndim > 2:
        return takes + f"Put `nn.Flatten()` before it and make it `nn.Linear({numbers}, {layer.out_features})`."
    return takes + f"Make it `nn.Linear({x.shape[-1]}, {layer.out_features})`."


def _embedding(layer: nn.Embedding, x: Tensor) -> str:
    if x.is_floating_point():
        return "It takes indices, whole numbers: give `shape_trace` a tensor of them instead of a shape."
    low, high = int(x.min()), int(x.max())
    takes = f"It takes indices from 0 to {layer.num_embeddings - 1} and gives …×{layer.embedding_dim}. "
    if low < 0:
        return takes + f"The input has {low}; negative indices count from nowhere here."
    return takes + f"The input has {high}: make it `nn.Embedding({high + 1}, {layer.embedding_dim})`, or renumber."


def _convolution(layer: nn.modules.conv._ConvNd, x: Tensor) -> str:
    name, dimensions = type(layer).__name__, len(layer.kernel_size)
    if x.ndim != dimensions + 2 and (x.ndim != dimensions + 1 or x.shape[0] != layer.in_channels):
        return _dimensions(layer, x)
    channels = x.shape[-dimensions - 1]
    if channels != layer.in_channels:
        takes = f"It takes {layer.in_channels} channels and gives {layer.out_channels}; {channels} came in. "
        return takes + f"Make it `{name}({channels}, {layer.out_channels}, …)`."
    if layer.transposed or isinstance(layer.padding, str):
        return ""
    return _too_small(layer, x)


def _too_small(layer: nn.Module, x: Tensor) -> str:
    """Compare the window with the picture (…, *sides), padding included."""
    count = _side_count(layer)
    if count == 0 or x.ndim not in (count + 1, count + 2):
        return ""
    sides = x.shape[-count:]
    numbers = (layer.kernel_size, 1, layer.padding, getattr(layer, "dilation", 1))  # how far it strides does not count
    for_each_side = zip(*(one if isinstance(one, tuple | list) else [one] * len(sides) for one in numbers), strict=True)
    windows = [Window(*settings) for settings in for_each_side]
    for side, window in zip(sides, windows, strict=True):
        if not window.fits(side):
            spans = "×".join(str(one.span) for one in windows)
            return (
                f"Its window of {spans} is larger than the picture of {'×'.join(map(str, sides))}. Take a smaller "
                f"kernel, `padding={window.kernel_size // 2}`, one pooling less before it, or larger pictures."
            )
    return ""


def _norm(layer: nn.modules.batchnorm._NormBase, x: Tensor) -> str:
    if x.ndim > 1 and x.shape[1] != layer.num_features:
        better = f"{type(layer).__name__}({x.shape[1]})"
        return f"It takes and gives {layer.num_features} channels, and {x.shape[1]} came in: make it `{better}`."
    return _dimensions(layer, x)


def _dimensions(layer: nn.Module, x: Tensor) -> str:
    """Say how many dimensions a layer wants, "" if the input has as many."""
    count = _side_count(layer)
    wanted = ("batch", "channels", *("depth", "height", "width")[3 - count :])
    if count == 0 or x.ndim == len(wanted):
        return ""
    return f"It takes {len(wanted)} dimensions ({', '.join(wanted)}), and {x.ndim} came in."


def _side_count(layer: nn.Module) -> int:
    """Return how many sides the pictures of a layer have, 0 if unknown: Conv2d, or what derives from it, has 2."""
    names = (kind.__name__ for kind in type(layer).__mro__)
    return next((int(name[-2]) for name in names if re.search(r"[123]d$", name)), 0)
