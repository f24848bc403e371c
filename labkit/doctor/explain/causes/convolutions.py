"""What convolutions and pooling layers want: channels, dimensions, a picture that is large enough."""

import math
import re

import torch.nn as nn

from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import instead, named, numbers, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.history import loops_at
from labkit.doctor.explain.situation import Situation

_LAST_TO_FIRST = {1: "transpose(1, 2)", 2: "permute(0, 3, 1, 2)", 3: "permute(0, 4, 1, 2, 3)"}


@explains(
    "conv-channels",
    "RuntimeError",
    r"Given (?:groups|transposed)=\d+, weight of size \[([\d, ]+)\], expected input\[([\d, ]+)\] to have "
    r"(\d+) channels, "
    r"but got (\d+) channels",
)
def channels(match: re.Match, situation: Situation) -> Reason:
    """Explain another number of channels: channels last, no channels, another kind of picture, another layer before."""
    weight, seen, wanted, got = numbers(match[1]), numbers(match[2]), int(match[3]), int(match[4])
    sides = len(weight) - 2
    sizes = tuple(situation.input.shape) if situation.input is not None else seen
    name = situation.subject
    it = simple(name or "x")
    causes = []
    if len(sizes) == sides + 1:  # no batch, or no channels
        causes += _without_a_dimension(it, sizes, wanted, sides)
    elif sizes[-1] == wanted:
        causes.append(Cause("The channels come last, and PyTorch wants them first.", f"{it}.{_LAST_TO_FIRST[sides]}"))
    elif (got, wanted) == (1, 3):
        causes.append(
            Cause("The pictures are grey, and the layer was made for colours.", f"{it}.expand(-1, 3, -1, -1)")
        )
    elif (got, wanted) == (3, 1):
        causes.append(
            Cause("The pictures have colours, and the layer was made for grey ones.", f"{it}.mean(1, keepdim=True)")
        )
    elif (got, wanted) == (4, 3):
        causes.append(Cause("The pictures have a fourth channel, for what is transparent.", f"{it}[:, :3]"))
    if len(sizes) > sides + 1:
        causes.append(_other_channels(situation, weight, got, wanted))
    return Reason(
        f"`{situation.layer_name or 'The layer'}` takes {wanted} channels, and gets {got} in {shape(sizes)}"
        + (f", from `{name}`." if name else "."),
        "The input of a convolution is (batch, channels, sides), and channels must be its in_channels.",
        tuple(causes),
        named(name, situation.layer_name),
    )


def _is_first(situation: Situation) -> bool:
    """Say whether what came in is the user's data, not what a layer before made of it."""
    x = situation.input
    if x is None:
        return True
    return x.grad_fn is None and situation.name_of(x) != "" and not (situation.place and loops_at(situation.place))


def _without_a_dimension(name: str, sizes: tuple[int, ...], wanted: int, sides: int) -> list[Cause]:
    if sides == 2 and sizes[-1] == wanted:
        why = "It is one picture with its channels last: they belong first, and a batch before them."
        return [Cause(why, f"{name}.permute(2, 0, 1).unsqueeze(0)")]
    no_channels = (
        f"The pictures have no dimension for channels, so that the {sizes[0]} pictures are taken for channels."
    )
    more = "" if wanted == 1 else f".expand(-1, {wanted}{', -1' * sides})"
    return [Cause(no_channels, f"{name}.unsqueeze(1){more}")]


def _other_channels(situation: Situation, weight: tuple[int, ...], got: int, wanted: int) -> Cause:
    layer = situation.layer
    why = f"in_channels is {wanted}, and what comes before gives {got} channels."
    if not isinstance(layer, nn.modules.conv._ConvNd):
        return Cause(why, f"weight of shape ({weight[0]}, {got}, {', '.join(map(str, weight[2:]))})")
    kernel = layer.kernel_size[0] if len(set(layer.kernel_size)) == 1 else layer.kernel_size
    new = f"nn.{type(layer).__name__}({got}, {layer.out_channels}, {kernel}, …)"
    return Cause(why, instead(new, layer, situation))


@explains(
    "conv-dimensions",
    "RuntimeError",
    r"Expected (\d)D \(unbatched\) or (\d)D \(batched\) input to \w+, but got input of size: \[([\d, ]*)\]",
    r"non-empty (\d)D or (\d)D \(batch mode\) tensor expected for input()",
    r"Expected (\d)D or (\d)D \(batch mode\) tensor with .*? for input, but got:? ?\[([\d, ]*)\]",
    r"(\d)D or (\d)D \(batch mode\) tensor expected for input, but got:? ?\[ ?([\d, ]*) ?\]",
)
def dimensions(match: re.Match, situation: Situation) -> Reason:
    """Explain too few or too many dimensions: a single picture, flattened ones, one batch too many."""
    full = int(match[2])
    sizes = tuple(situation.input.shape) if situation.input is not None else numbers(match[3])
    name = situation.subject
    it = simple(name or "x")
    wanted = ("batch", "channels", *("depth", "height", "width")[5 - full :])
    layer = situation.layer
    takes = getattr(layer, "in_channels", None)
    causes = []
    side = math.isqrt(sizes[1] // takes) if len(sizes) == 2 and isinstance(takes, int) and takes else 0
    if len(sizes) == full + 1 and sizes[1] == takes:
        more = f"nn.Conv{full - 1}d({takes}, {layer.out_channels}, …)"
        why = f"The data have {full - 1} sides, and this layer is for {full - 2}."
        causes.append(Cause(why, instead(more, layer, situation)))
        causes.append(Cause("Or two sides are to become one.", f"{it}.flatten(2)"))
    elif len(sizes) > full:
        why = f"It has {len(sizes) - full} dimension{'s' if len(sizes) > full + 1 else ''} too many at the front."
        causes.append(Cause(why, f"{it}.flatten(0, {len(sizes) - full})"))
        if 1 in sizes:
            causes.append(Cause("A dimension of size 1 is left over.", f"{it}.squeeze({sizes.index(1)})"))
    elif full == 4 and len(sizes) == 2 and side > 1 and takes * side * side == sizes[1] and sizes[0] != sizes[1]:
        causes.append(
            Cause(
                "The pictures were flattened, and this layer wants them whole.",
                f"{it}.view(-1, {takes}, {side}, {side})",
            )
        )
    elif len(sizes) == full - 2:
        causes.append(Cause("It is one picture without batch and channels.", f"{it}.unsqueeze(0).unsqueeze(0)"))
    else:
        causes.append(Cause("Dimensions are missing.", f"{it}.unsqueeze(0)  # until they are ({', '.join(wanted)})"))
    return Reason(
        f"`{situation.layer_name or 'The layer'}` gets {shape(sizes)}" + (f" from `{name}`." if name else "."),
        f"It takes {full} dimensions: ({', '.join(wanted)}).",
        tuple(causes),
        named(name, situation.layer_name),
    )


@explains(
    "conv-too-small",
    "RuntimeError",
    r"padded input size per channel: \(([\dx ]+)\)\. Kernel size: \(([\dx ]+)\)\. Kernel size can't be greater",
    r"Given input size: \(([\dx]+)\)\. Calculated output size: \(([\dx-]+)\)\. Output size is too small",
)
def too_small(match: re.Match, situation: Situation) -> Reason:
    """Explain a window that is larger than the picture."""
    is_pool = "Output size" in match[0]
    sides = re.findall(r"\d+", match[1])[1 if is_pool else 0 :]
    layer, name = situation.layer, situation.subject
    kernel = getattr(layer, "kernel_size", None) if is_pool else None
    kernel = kernel if isinstance(kernel, tuple) else (kernel,) * len(sides) if kernel else None
    window = list(map(str, kernel)) if kernel else (re.findall(r"\d+", match[2]) if not is_pool else [])
    where = f"`{situation.layer_name or 'The layer'}`"
    causes = [
        Cause(
            "The pictures were halved too often: the layers before have too many poolings or strides for this size.",
            f"fewer poolings or strides before {where.strip('`')}, or larger pictures",
        )
    ]
    if is_pool:
        fix = f"kernel_size={min(map(int, sides))}  # or nn.AdaptiveAvgPool2d(1)"
        causes.append(Cause("Or its window is too large.", fix))
    elif window:
        padding = int(window[0]) // 2
        causes.append(
            Cause("The window needs a rim around the picture.", f"padding={padding}  # in {where.strip('`')}")
        )
    if _is_first(situation):
        causes.reverse()  # it is the first layer: nothing before it has made the pictures smaller
    size = "×".join(sides)
    return Reason(
        f"{where} has a window of {'×'.join(window)} and gets {size}."
        if window
        else f"{where} gets {size}, too little for its window.",
        "The window must fit into the picture, its padding included.",
        tuple(causes),
        named(name, situation.layer_name),
    )
