"""What is wrong with random transforms of training."""

from collections.abc import Callable

from torch.utils.data import DataLoader

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data_turned import Steady
from labkit.doctor.program import Program
from labkit.doctor.trial import validation_score

CHANGED = 0.2  # more of the samples of a class than as they are


def another_class_when_turned(evidence: Evidence) -> Finding | None:
    """A random transform makes samples of one class look like those of another, and keeps the label."""
    seen = evidence.data.turned
    if seen is None or not seen.seeds or seen.after - seen.before < CHANGED:
        return None
    return Finding(
        "augmentation_misuse",
        "warn",
        f"One training sample comes as it is and {seen.turn}, with one label (in {seen.used:.0%} of the pairs of "
        f"readings). Validation samples of class {seen.old} look like class {seen.new} in {seen.before:.0%} of the "
        f"cases as they are, and {seen.turn} in {seen.after:.0%}.",
        "A transform may change anything but the answer: here it teaches that the same input is of two classes.",
        "transform = without_the_mirror  # or change the label with the input:\n"
        "if mirrored: label = mirrored_label[label]",
        "a look at transformed samples: would you give them their labels?",
        "07",
        mend=_always_alike(seen.seeds[0]),
        instead=((_always_alike(seen.seeds[1]), ""),),
        judge=validation_score,
        confirm=True,
        updates=240,
        weight=8.5,
        explains=("label_misaligned", "train_val_mismatch", "model_too_weak", "lr_too_low"),
    )


def _always_alike(seed: int) -> Callable[[Program], None]:
    """Return a fix that reads every training sample with the same random numbers, hence turns all of them or none."""

    def mend(program: Program) -> None:
        loader = program.train_loader
        data, size = Steady(loader.dataset, seed), loader.batch_size or 32
        program.train_loader = DataLoader(data, size, shuffle=True, collate_fn=loader.collate_fn)

    return mend


RULES = [another_class_when_turned]
