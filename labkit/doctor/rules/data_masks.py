"""What is wrong between pictures and their masks."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data_masks import BY_CHANCE, MasksEvidence
from labkit.doctor.rules.mask_mends import paired_anew, turned_anew
from labkit.doctor.trial import validation_score

CONSEQUENCES = ("lr_too_high", "lr_too_low", "model_too_weak", "class_imbalance", "train_val_mismatch", "metric_wrong")
WELL = 4.0  # times what the best of all masks explains of noise
ALWAYS = 4  # times more masks to be turned than others: then all are, and the others look alike either way


def _alone(seen: MasksEvidence) -> bool:
    """Say whether masks explain their own pictures no better than others, and others fit well."""
    return seen.own < 2.5 * seen.deviation and seen.best > WELL * seen.of_noise


def masks_of_others(evidence: Evidence) -> Finding | None:
    """A mask explains pictures of other samples, and not its own."""
    parts = {part: seen for part, seen in evidence.data.masks.items() if _alone(seen)}
    if not parts:
        return None
    part, seen = next(iter(parts.items()))
    moved = sum(number != place for place, number in enumerate(seen.partners))
    return Finding(
        "label_misaligned",
        "warn",
        f"Of {seen.samples} {part} masks none fits its own picture better than by chance ({seen.own:+.1%} of the "
        f"picture's variance, where a mask of any other sample has 0), and for {moved} of them another one explains "
        f"{seen.best:.0%}.",
        "Pictures and masks were listed, sorted or mixed separately: number i of one is not number i of the other.",
        "pairs = [(pictures[name], masks[name]) for name in sorted(pictures)]  # by name, not by number",
        "a look at one picture with its mask over it",
        "07",
        mend=paired_anew(tuple(parts)),
        judge=validation_score,
        confirm=True,
        weight=8.5,
        explains=CONSEQUENCES,
    )


def masks_turned(evidence: Evidence) -> Finding | None:
    """A mask fits its own picture after it is turned."""
    parts = {part: seen for part, seen in evidence.data.masks.items() if _turned(seen)}
    if not parts:
        return None
    part, seen = next(iter(parts.items()))
    exchanged = seen.turn == "with rows and columns exchanged"
    fault = "augmentation_misuse"
    if seen.turned > ALWAYS * seen.upright:
        fault = "axis_mixup" if exchanged else "label_misaligned"
    return Finding(
        fault,
        "warn",
        f"{seen.turned:.0%} of {seen.samples} {part} masks fit their own pictures far better {seen.turn} "
        f"(of masks that have nothing to do with a picture {BY_CHANCE:.0%}).",
        "What is done to a picture, by chance or always, has to be done to its mask: the same with the same numbers.",
        "picture, mask = transform(picture, mask)  # one random number for both",
        "a look at one picture with its mask over it",
        "07",
        mend=turned_anew(tuple(parts)),
        judge=validation_score,
        confirm=True,
        weight=8.5,
        explains=CONSEQUENCES,
    )


def _turned(seen: MasksEvidence) -> bool:
    by_chance = BY_CHANCE + 6 * (BY_CHANCE * (1 - BY_CHANCE) / seen.samples) ** 0.5
    return not _alone(seen) and seen.turned > max(0.12, by_chance)


RULES = [masks_of_others, masks_turned]
