"""What normalisation layers want: features, dimensions, more than one value."""

import re

from torch import Tensor

from labkit.doctor.explain.causes.loading import loader_name
from labkit.doctor.explain.causes.rule import explains
from labkit.doctor.explain.causes.wording import instead, named, numbers, shape, simple
from labkit.doctor.explain.explanation import Cause, Reason
from labkit.doctor.explain.situation import Situation


@explains(
    "batchnorm-one-sample",
    "ValueError",
    r"Expected more than 1 (value per channel|spatial element) when training, got input size "
    r"torch\.Size\(\[([\d, ]*)\]\)",
)
def one_sample(match: re.Match, situation: Situation) -> Reason:
    """Explain a batch of one sample: the last one, or a prediction in training mode."""
    sizes, name = numbers(match[2]), situation.subject
    loader = loader_name(situation)
    model = next((key for key, model in situation.models if situation.layer in list(model.modules())), "model")
    causes = [
        Cause(
            "The last batch of an epoch has one sample left over.",
            f"{loader or 'train_loader'} = DataLoader(…, drop_last=True)",
        ),
        Cause("One sample is predicted, and the model is in training mode.", f"{model}.eval()"),
    ]
    if not loader:
        causes.reverse()
    if situation.layer is None:
        causes = [Cause("The function was told that it trains.", "training=False  # for a prediction, as in eval()")]
    return Reason(
        f"`{situation.layer_name or 'The layer'}` gets {shape(sizes)}"
        + (f" from `{name}`: " if name else ": ")
        + "one value for each channel has no spread.",
        "In training, normalisation takes mean and variance over the batch, and needs more than one value for them.",
        tuple(cause for cause in causes if match[1].startswith("value") or "eval()" in cause.fix),
        named(name, situation.layer_name),
    )


@explains(
    "norm-features",
    "RuntimeError ValueError",
    r"(?:running_mean|running_var|weight|bias) should contain (\d+) elements not (\d+)",
    r"expected input's size at dim=1 to match num_features \((?P<has>\d+)\), but got: (?P<got>\d+)",
    r"number of channels in input to be divisible by num_groups, but got input of shape \[\d+, (?P<channels>\d+)",
    r"size equal to the number of channels in input, but got weight of shape \[(?P<weight>\d+)\] and input of shape "
    r"\[\d+, (?P<size>\d+)",
)
def features(match: re.Match, situation: Situation) -> Reason | None:
    """Explain a normalisation for another number of channels."""
    found = match.groupdict()
    layer, name, x = situation.layer, situation.subject, situation.input
    got = int(found.get("got") or found.get("channels") or found.get("size") or match[1])
    if layer is None:
        return None
    has = getattr(layer, "num_features", None) or getattr(layer, "num_channels", None) or "other"
    sizes = shape(x) if isinstance(x, Tensor) else f"{got} channels"
    causes = []
    if isinstance(x, Tensor) and x.ndim in (3, 4) and x.shape[-1] == has:
        fix = "transpose(1, 2)" if x.ndim == 3 else "permute(0, 3, 1, 2)"
        causes.append(Cause(f"The {has} features come last, and belong second.", f"{simple(name or 'x')}.{fix}"))
    kind = type(layer).__name__
    new = f"nn.{kind}({layer.num_groups}, {got})" if kind == "GroupNorm" else f"nn.{kind}({got})"
    why = f"It was made for {has} channels, and the layer before it gives {got}."
    causes.append(Cause(why, instead(new, layer, situation)))
    return Reason(
        f"`{situation.layer_name or kind}` is for {has} channels, and gets {sizes}"
        + (f" from `{name}`." if name else "."),
        "Dimension 1 of the input holds the channels, and each has a mean and a variance of its own.",
        tuple(causes),
        named(name, situation.layer_name),
    )


@explains("norm-features", "ValueError", r"expected (\d)D(?: or (\d)D)? input \(got (\d)D input\)")
def dimensions(match: re.Match, situation: Situation) -> Reason | None:
    """Explain BatchNorm2d on vectors and BatchNorm1d on pictures."""
    layer, name, got = situation.layer, situation.subject, int(match[3])
    if layer is None:
        return None
    kind = {2: "1d", 3: "1d", 4: "2d", 5: "3d"}.get(got)
    sizes = shape(situation.input) if situation.input is not None else f"{got} dimensions"
    causes = []
    if kind:
        new = f"nn.{type(layer).__name__[:-2]}{kind}({getattr(layer, 'num_features', '…')})"
        causes.append(Cause(f"For {got} dimensions there is another layer.", instead(new, layer, situation)))
    else:
        causes.append(Cause("Dimensions are missing.", f"{simple(name or 'x')}.unsqueeze(0)"))
    return Reason(
        f"`{situation.layer_name or type(layer).__name__}` gets {sizes}" + (f" from `{name}`." if name else "."),
        f"It takes {match[1]}{f' or {match[2]}' if match[2] else ''} dimensions.",
        tuple(causes),
        named(name, situation.layer_name),
    )


@explains(
    "norm-features",
    "RuntimeError",
    r"Given normalized_shape=\[([\d, ]*)\], expected input with shape \[\*,? ?[\d, ]*\], but got input of "
    r"size ?\[([\d, ]*)\]",
)
def last_features(match: re.Match, situation: Situation) -> Reason:
    """Explain a LayerNorm for other sizes at the end."""
    has, sizes = numbers(match[1]), numbers(match[2])
    name = situation.subject
    causes = []
    if len(has) == 1 and has[0] in sizes[1:]:
        where = sizes.index(has[0], 1)
        causes.append(
            Cause(
                f"The {has[0]} features are dimension {where}, not the last.",
                f"{simple(name or 'x')}.transpose({where}, -1)",
            )
        )
    end = sizes[-len(has) :]
    new = f"nn.LayerNorm({end[0] if len(end) == 1 else list(end)})"
    fix = instead(new, situation.layer, situation) if situation.layer is not None else new
    causes.append(Cause(f"It was made for {match[1]}, and {', '.join(map(str, end))} comes in.", fix))
    return Reason(
        f"`{situation.layer_name or 'The layer'}` is for sizes ending in {match[1]}, and gets {shape(sizes)}"
        + (f" from `{name}`." if name else "."),
        "normalized_shape are the last sizes of the input.",
        tuple(causes),
        named(name, situation.layer_name),
    )


@explains("norm-features", "ValueError", r"num_channels \((\d+)\) must be divisible by num_groups \((\d+)\)")
def groups(match: re.Match, situation: Situation) -> Reason:
    """Explain groups that do not divide the channels."""
    channels, groups = int(match[1]), int(match[2])
    better = next(size for size in range(groups, 0, -1) if channels % size == 0)
    return Reason(
        f"{channels} channels cannot be put into {groups} groups of one size.",
        "num_channels must be a multiple of num_groups.",
        (Cause("The groups come first.", f"nn.GroupNorm({better}, {channels})"),),
        named(situation.argument(0, "num_groups"), situation.argument(1, "num_channels")),
    )
