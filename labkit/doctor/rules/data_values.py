"""What is wrong with the values of the samples."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.batch_mends import filled, finite_samples
from labkit.doctor.rules.data_mends import standardised, to_one


def not_finite(evidence: Evidence) -> Finding | None:
    """An input or a target is NaN or infinite, and an update on it breaks the loss or the weights."""
    seen = evidence.data.values
    if not seen.not_finite or not seen.breaks:
        return None
    part, count = max(seen.not_finite.items(), key=lambda item: item[1])
    return Finding(
        "non_finite_data",
        "fail",
        f"{count} of {seen.read[part.split()[0]]} samples have a NaN or an infinity in the {part}; an update with one "
        "gives a loss or weights that are not finite.",
        "One such number makes every weight that it reaches a NaN, and no later update brings it back.",
        "kept = x.flatten(1).isfinite().all(1)\nx, y = x[kept], y[kept]  # or fill: x = x.nan_to_num(0.0)",
        "all(x.isfinite().all() for x, y in train_loader)",
        "07",
        mend=finite_samples,
        instead=((filled, "x = x.nan_to_num(0.0, posinf=0.0, neginf=0.0)"),),
        weight=9.5,
        explains=("numeric_instability", "lr_too_high", "weights_reset", "step_missing", "loss_scaling"),
    )


def targets_of_another_form(evidence: Evidence) -> Finding | None:
    """The targets are not what the loss takes."""
    seen = evidence.data.values
    if not seen.encoding:
        return None
    return Finding(
        "label_encoding",
        "fail",
        f"{seen.encoding}.",
        "A loss compares outputs with targets of one form only: class numbers from 0, or numbers from 0 to 1.",
        seen.mend,
        "print(y.dtype, y.shape, y.unique()) beside the shape of the outputs",
        "06",
        weight=10.5,
        explains=("wrong_loss", "output_activation_mismatch", "axis_mixup", "loss_scaling", "shape_broadcast"),
    )


def scale(evidence: Evidence) -> Finding | None:
    """Inputs are far from size 1, and standardised ones train better."""
    seen = evidence.data.values
    if seen.mean is None or not seen.std:
        return None
    off = abs(seen.mean) / seen.std > 5
    size = seen.std > 8 or seen.std < 0.02
    uneven = seen.usual > 0 and seen.loudest > 20 * seen.usual and seen.loudest > 5
    if not (off or size or uneven):
        return None
    what = f"The inputs have mean {seen.mean:.3g} and deviation {seen.std:.3g}"
    if len(seen.shape) == 1:
        what += f"; of the features the loudest has {seen.loudest:.3g}, the middle one {seen.usual:.3g}"
    return Finding(
        "input_scale",
        "warn",
        f"{what}.",
        "Initial weights and usual learning rates are made for inputs of size 1.",
        "mean, std = train_x.mean(0), train_x.std(0)\nx = (x - mean) / std  # the same numbers for validation",
        "x.mean() is near 0 and x.std() near 1",
        "07",
        mend=standardised,
        instead=((to_one, ""),),
        confirm=True,
        weight=6,
        explains=("lr_too_high", "lr_too_low", "dead_units", "bad_init"),
    )


RULES = [not_finite, targets_of_another_form, scale]
