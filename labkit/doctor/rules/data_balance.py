"""What is wrong with how much each class counts."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data_balance import BalanceEvidence
from labkit.doctor.rules.data_mends import classes_weigh_alike, no_class_ignored

RARE_ROW = 0.2  # of what a class would have if all were alike
RARE_CELL = 0.1  # pixels: objects are small in most pictures
TURNED = 1.5  # times more of the frequent class than of the rare one, by the sampler alone
LONG = 240  # updates of a trial: in the first ones every model says the frequent class
ORDINARY = ("wrong_loss", "lr_too_low", "model_too_weak", "metric_wrong", "train_val_mismatch")


def _extremes(shares: dict[int, float]) -> tuple[int, int]:
    """Return the numbers of the rarest and the most frequent class."""
    return min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)


def frequent_class_drawn_more(evidence: Evidence) -> Finding | None:
    """The sampler draws the frequent class even more often than it is there, the rare one less."""
    seen = evidence.data.balance
    if len(seen.stored) < 2 or seen.stored.keys() != seen.drawn.keys():
        return None
    rare, often = _extremes(seen.stored)
    if seen.stored[rare] * len(seen.stored) > 0.8:
        return None
    fewer = seen.drawn[rare] / seen.stored[rare]
    more = seen.drawn[often] / seen.stored[often]
    spread = 5 * (seen.stored[rare] / (3 * seen.samples)) ** 0.5  # of a share that three epochs of draws give
    if more < TURNED * max(fewer, 1e-9) or seen.drawn[rare] > seen.stored[rare] - spread:
        return None
    return Finding(
        "sampler_misuse",
        "warn",
        f"Class {rare} is {seen.stored[rare]:.1%} of the samples and {seen.drawn[rare]:.1%} of what the sampler draws; "
        f"class {often} goes from {seen.stored[often]:.1%} to {seen.drawn[often]:.1%}.",
        "Weights that grow with the number of samples make the rare class rarer still: they have to shrink with it.",
        "weights = 1 / torch.bincount(labels)\nsampler = WeightedRandomSampler(weights[labels], len(labels))",
        "torch.bincount of the labels of an epoch has equal numbers",
        "07",
        mend=classes_weigh_alike(seen.pull or seen.drawn),
        judge=no_class_ignored,
        confirm=True,
        updates=LONG,
        weight=7.5,
        explains=("class_imbalance", *ORDINARY),
    )


def rare_class(evidence: Evidence) -> Finding | None:
    """A class makes next to nothing of the gradient, and the score is better if all classes weigh alike."""
    seen = evidence.data.balance
    if not seen.pull:
        return None
    rare, often = _extremes(seen.pull)
    if seen.pull[rare] < 1e-6:
        return None  # the loss does not take it for a class
    if seen.pull[rare] * len(seen.pull) > (RARE_CELL if seen.cells else RARE_ROW):
        return None
    return Finding(
        "class_imbalance",
        "warn",
        f"{_share(seen, rare)}; class {often} makes {seen.pull[often]:.1%} of the gradient.",
        "A network that never says the rare class is right nearly always, and the mean of the losses asks for no more.",
        _weights(seen, rare, often),
        "the recall of each class, not only the accuracy",
        "07",
        mend=classes_weigh_alike(seen.pull),
        judge=no_class_ignored,
        confirm=True,
        updates=LONG,
        weight=6,
        explains=ORDINARY,
    )


def _share(seen: BalanceEvidence, rare: int) -> str:
    of_what = "pixels" if seen.cells else "samples"
    return (
        f"Class {rare} is {seen.delivered[rare]:.1%} of the {of_what} and makes {seen.pull[rare]:.1%} of the gradient"
    )


def _weights(seen: BalanceEvidence, rare: int, often: int) -> str:
    times = f"{seen.delivered[often] / seen.delivered[rare]:.0f}"
    if seen.cells:
        return f"loss_fn = nn.BCEWithLogitsLoss(pos_weight=torch.tensor({times}.0))"
    return (
        f"weight = 1 / torch.bincount(labels)  # of class {rare} {times} times that of class {often}\n"
        "loss_fn = nn.CrossEntropyLoss(weight=weight)"
    )


RULES = [frequent_class_drawn_more, rare_class]
