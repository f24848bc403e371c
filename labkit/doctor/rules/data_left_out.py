"""What is wrong with what a sampler leaves out."""

from torch.utils.data import DataLoader

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data_left_out import EPOCHS
from labkit.doctor.program import Program
from labkit.doctor.trial import validation_score

OTHERS = 8.0  # standard errors: no part that is drawn by chance differs so much from the rest


def other_samples_left_out(evidence: Evidence) -> Finding | None:
    """The sampler never draws samples of another kind, and the score is better with them."""
    seen = evidence.data.left_out
    if seen is None or seen.drawn > 0.8 * seen.samples or (seen.differs < OTHERS and not seen.others_length):
        return None
    what = f"In {EPOCHS} epochs the sampler drew {seen.drawn} of {seen.samples} samples"
    if seen.others_length:
        what += f"; it was made for data of length {seen.others_length}, and not for those of the loader"
    if seen.differs >= OTHERS:
        what += f"; the others differ from them by {seen.differs:.0f} standard errors in {seen.feature}"
    return Finding(
        "sampler_misuse",
        "warn",
        f"{what}.",
        "What is never drawn is never learned: the network meets such samples in validation for the first time.",
        "DataLoader(train_set, batch_size, shuffle=True)  # or a sampler that hands out every batch it has made",
        "len({place for batch in train_loader.batch_sampler for place in batch}) == len(train_set)",
        "07",
        mend=everything_drawn,
        judge=validation_score,
        confirm=True,
        updates=160,
        weight=7.5,
        explains=("class_imbalance", "train_val_mismatch", "model_too_weak", "lr_too_low"),
    )


def everything_drawn(program: Program) -> None:
    """Draw all samples of the training data set, in random order."""
    loader = program.train_loader
    size = loader.batch_size or len(next(iter(loader.batch_sampler)))
    program.train_loader = DataLoader(loader.dataset, size, shuffle=True, collate_fn=loader.collate_fn)


RULES = [other_samples_left_out]
