"""What is wrong between inputs and their targets."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data_meaning import MeaningEvidence
from labkit.doctor.rules.data_mends import learn_from_validation, other_half, validation_renamed
from labkit.doctor.trial import validation_score

CLEAR = 0.25  # more right than by chance: then targets and inputs do belong together
SOME = 0.08  # more right than by chance: then they belong together for the greater part
EXPLAINED = 0.8  # of what is right inside validation: then other names of the classes are all that is wrong


def _clear(share: float | None, chance: float) -> bool:
    return share is not None and share > chance + CLEAR


def _shares(seen: MeaningEvidence) -> str:
    return (
        f"A probe without training predicts the class of a training sample from the other training samples in "
        f"{seen.train:.0%} of {seen.samples} cases (shuffled labels: {seen.chance_train:.0%}), that of a validation "
        f"sample from the others there in {seen.val:.0%} (shuffled: {seen.chance_val:.0%}), and from the training "
        f"samples in {seen.across:.0%}"
    )


def training_labels_of_others(evidence: Evidence) -> Finding | None:
    """In validation inputs tell the class, and in training they do not."""
    seen = evidence.data.meaning
    if seen.train is None or seen.train > seen.chance_train + 0.02 or not _clear(seen.val, seen.chance_val):
        return None
    if seen.across > seen.chance_across + SOME:
        return None  # labels that are partly wrong, and still teach what holds in validation
    return Finding(
        "label_misaligned",
        "warn",
        f"{_shares(seen)}.",
        "The training labels stand beside other samples than their own: what was done to inputs was not done to them.",
        "order = torch.randperm(len(x))\nx, y = x[order], y[order]  # one order, one selection for both",
        "a look at some training samples with their labels",
        "07",
        mend=learn_from_validation,
        judge=other_half,
        confirm=True,
        weight=8,
        explains=("train_val_mismatch", "lr_too_high", "lr_too_low", "model_too_weak"),
    )


def validation_labels_of_others(evidence: Evidence) -> Finding | None:
    """In training inputs tell the class, and in validation they do not."""
    seen = evidence.data.meaning
    if seen.val is None or not _clear(seen.train, seen.chance_train):
        return None
    if seen.val > seen.chance_val or seen.across > seen.chance_across or seen.across_renamed > seen.chance_val + CLEAR:
        return None
    return Finding(
        "label_misaligned",
        "warn",
        f"{_shares(seen)}.",
        "The validation labels stand beside other samples than their own: no model can score well on them.",
        "x_val, y_val = x[val_rows], y[val_rows]  # one selection for both",
        "a look at some validation samples with their labels",
        "07",
        weight=8,
        explains=("train_val_mismatch", "metric_wrong"),
    )


def classes_renamed(evidence: Evidence) -> Finding | None:
    """Validation numbers its classes otherwise than training."""
    seen = evidence.data.meaning
    if seen.val is None or seen.across_renamed < max(seen.across + 0.15, seen.chance_val + 0.1, EXPLAINED * seen.val):
        return None
    names = ", ".join(f"{old} is {new} there" for old, new in enumerate(seen.renamed[:4]) if old != new)
    return Finding(
        "label_encoding",
        "warn",
        f"Training samples predict the class of {seen.across:.0%} of the validation samples, and of "
        f"{seen.across_renamed:.0%} if the classes of validation have other numbers: {names}.",
        "Each part numbered its classes for itself.",
        "numbers = {name: number for number, name in enumerate(sorted(train_names))}  # one table for both parts",
        "train_set.class_to_idx == val_set.class_to_idx",
        "07",
        mend=validation_renamed(seen.renamed),
        judge=validation_score,
        confirm=True,
        weight=8,
        explains=("train_val_mismatch", "metric_wrong"),
    )


def parts_do_not_fit(evidence: Evidence) -> Finding | None:
    """Each part tells its classes, and training says nothing about validation."""
    seen = evidence.data.meaning
    if not _clear(seen.train, seen.chance_train) or not _clear(seen.val, seen.chance_val):
        return None
    if seen.across > min(seen.chance_val + 0.1, 0.6 * seen.val) or seen.across_renamed > EXPLAINED * seen.val:
        return None
    return Finding(
        "train_val_mismatch",
        "warn",
        f"{_shares(seen)}.",
        "Inputs of validation are made in another way: another vocabulary, other units, another order of features.",
        "encode = Encoder().fit(train_texts)  # once, from training\nval_x = encode(val_texts)",
        "the same raw sample gives the same numbers in both parts",
        "07",
        mend=learn_from_validation,
        judge=other_half,
        confirm=True,
        weight=6.5,
        explains=("metric_wrong", "train_eval_mode"),
    )


RULES = [training_labels_of_others, validation_labels_of_others, classes_renamed, parts_do_not_fit]
