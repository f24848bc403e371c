"""What is wrong with what the data give away."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding


def answer_among_the_features(evidence: Evidence) -> Finding | None:
    """One feature is the target under another name."""
    seen = evidence.data.told
    if seen is None or seen.feature < 0:
        return None
    how = "has a value of its own for each class" if seen.exact == "class" else "is the target in another unit"
    return Finding(
        "data_leakage",
        "warn",
        f"Feature {seen.feature} of {seen.features} {how}, without any exception in training and validation.",
        "It was made from the answer, or after it: where a model is used, nobody knows it yet.",
        f"x = torch.cat([x[:, :{seen.feature}], x[:, {seen.feature + 1}:]], 1)  # without feature {seen.feature}",
        "the score without this feature is what the others are worth",
        "07",
        weight=7,
    )


def one_answer_for_all(evidence: Evidence) -> Finding | None:
    """All targets of a classifier are one class."""
    seen = evidence.data.told
    if seen is None or seen.constant is None:
        return None
    return Finding(
        "label_encoding",
        "fail",
        f"All training targets are class {seen.constant}, and the network tells {seen.outputs} classes apart.",
        "On the way from the file to the loss the class numbers were lost: divided, rounded, cut off or compared.",
        "targets = torch.from_numpy(class_map).long()  # class numbers are no brightness: not divided by 255",
        "targets.unique() has all classes",
        "07",
        weight=8,
        explains=("class_imbalance", "metric_wrong", "label_misaligned", "wrong_loss", "model_too_weak"),
    )


def parts_drawn_again(evidence: Evidence) -> Finding | None:
    """A training sample of one epoch is a validation sample of the next."""
    seen = evidence.data.told
    if seen is None or seen.wandered < max(5, 0.1 * seen.read):
        return None
    return Finding(
        "unseeded_split",
        "fail",
        f"{seen.wandered} of {seen.read} validation samples of a second epoch were training samples in the first one.",
        "The split is drawn anew each time the loaders are read: in the end all validation samples were learned.",
        "order = numpy.random.default_rng(0).permutation(n)  # once, before the loaders are made",
        "the validation samples of two epochs are the same",
        "07",
        weight=8,
        explains=("data_leakage",),
    )


RULES = [answer_among_the_features, one_answer_for_all, parts_drawn_again]
