"""What is wrong between training and validation."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.data_mends import validation_like_training
from labkit.doctor.trial import validation_score


def in_both(evidence: Evidence) -> Finding | None:
    """Validation samples are training samples."""
    seen = evidence.data.parts
    if not seen.in_both or seen.in_both < max(3, 0.05 * seen.compared):
        return None
    return Finding(
        "data_leakage",
        "fail",
        f"{seen.in_both} of {seen.compared} validation samples are in the training data too, number by number.",
        "A model that has learned them by heart looks good, and nobody knows how it does on new samples.",
        "order = torch.randperm(n, generator=torch.Generator().manual_seed(0))\n"
        "train_set, val_set = Subset(data, order[:k]), Subset(data, order[k:])  # drop copies before this",
        "no hash of a validation sample is among those of training",
        "07",
        weight=7,
    )


def same_again(evidence: Evidence) -> Finding | None:
    """The data set gives a few samples under many numbers."""
    seen = evidence.data.parts
    if seen.read < 50 or seen.different > 0.2 * seen.read:
        return None
    return Finding(
        "duplicate_samples",
        "warn",
        f"{seen.read} places of the data set give {seen.different} different samples.",
        "An epoch then teaches a few samples many times, and the others never.",
        "return self.x[index], self.y[index]  # index as it comes",
        "the number of different hashes is the number of samples",
        "07",
        weight=7,
    )


def prepared_differently(evidence: Evidence) -> Finding | None:
    """Validation inputs have another mean or spread, and score better when they are given that of training."""
    seen = evidence.data.parts
    if seen.shift < 0.5 and 0.33 < seen.ratio < 3:
        return None
    return Finding(
        "train_val_mismatch",
        "warn",
        f"The mean of a validation feature is {seen.shift:.2g} deviations away from training (median of all); all "
        f"inputs together deviate {seen.ratio:.2g} times as much.",
        "The network knows only inputs that are prepared as in training.",
        "x = (x - train_mean) / train_std  # in both parts, with the numbers of training",
        "x.mean(0) and x.std(0) of both loaders are alike",
        "07",
        mend=validation_like_training(1.0),
        instead=((validation_like_training(-1.0), ""),),
        judge=validation_score,
        confirm=True,
        weight=7,
        explains=("metric_wrong", "train_eval_mode", "label_misaligned"),
    )


RULES = [in_both, same_again, prepared_differently]
