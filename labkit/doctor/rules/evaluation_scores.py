"""What is wrong with the score: it is tried on models whose answers are known."""

import math

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.evaluation_mends import Mend, right_answers, starts_afresh


def _wrong(what: str, fix: str, verify: str, mend: Mend = right_answers) -> Finding:
    why = "A score that is wrong chooses the wrong model, whatever the training does."
    return Finding("metric_wrong", "fail", what, why, fix, verify, "05", weight=4, mend=mend)


def other_data(evidence: Evidence) -> Finding | None:
    """The evaluation reads training samples instead of the loader it was given."""
    seen = evidence.evaluation.scores
    if seen.reads != 0 or seen.of_training is None or seen.of_training < 0.9:
        return None
    return _wrong(
        f"evaluate(model, loader) reads no batch of its loader; {100 * seen.of_training:.0f} % of the samples "
        "that it reads are training samples.",
        "for inputs, targets in loader:   # the argument, not a loader from outside",
        "the score of an untrained and of a trained model differ less on new data than on training data",
    )


def right_is_not_better(evidence: Evidence) -> Finding | None:
    """A model that is always right does not get a higher score than one that is always wrong."""
    seen = evidence.evaluation.scores
    if not seen.reads or seen.right is None or seen.wrong is None or seen.right > seen.wrong:
        return None
    loss = evidence.objective.loss
    if (
        loss is None
        or loss.right is None
        or not _clearly_less(loss.right, loss.wrong)
        or not evidence.objective.as_loaded
    ):
        return None  # the loss, too, has another opinion of what a right answer is: a distance, for example
    return _wrong(
        f"A model that is always right gets {seen.right:.3g}, one that is always wrong {seen.wrong:.3g}.",
        "predictions = model(inputs).argmax(dim=1)   # over the classes\nright += (predictions == "
        "targets).sum().item()",
        "outputs made from the targets get the best score there is",
    )


def remembers(evidence: Evidence) -> Finding | None:
    """The score of an evaluation depends on evaluations before it."""
    seen = evidence.evaluation.scores
    if seen.right is None or seen.again is None or _close(seen.again, seen.wrong, seen):
        return None
    return _wrong(
        f"A model that is always wrong gets {seen.wrong:.3g}, and {seen.again:.3g} if a right one was evaluated "
        "before.",
        "meter.reset()   # or count from zero, at the start of every evaluation",
        "the same weights get the same score, whatever was evaluated before",
        mend=starts_afresh,
    )


def one_batch_counts(evidence: Evidence) -> Finding | None:
    """Of three equal batches one decides everything."""
    seen = evidence.evaluation.scores
    if (
        not evidence.objective.as_loaded
        or seen.right is None
        or seen.first is None
        or seen.last is None
        or seen.right <= seen.wrong
    ):
        return None
    for place, alone, other in (("last", seen.last, seen.first), ("first", seen.first, seen.last)):
        if _close(alone, seen.right, seen) and _close(other, seen.wrong, seen):
            return _wrong(
                f"Of three equal batches only the {place} one counts: right there and wrong elsewhere gets "
                f"{alone:.3g}, "
                f"as right everywhere does.",
                "right += (predictions == targets).sum().item()   # inside the loop, for every batch",
                "the score changes when the predictions in any batch change",
            )
    return None


def uneven_batches(evidence: Evidence) -> Finding | None:
    """The last, smaller batch counts as much as a full one, or is counted as a full one."""
    seen = evidence.evaluation.scores
    if not evidence.objective.as_loaded or seen.sizes is None or seen.right_uneven is None or seen.right <= seen.wrong:
        return None
    full, last, number = seen.sizes
    samples = full * (number - 1) + last
    fix = "right += (predictions == targets).sum().item()\ncount += len(targets)\n...\nreturn right / count"
    if seen.right == 1 and seen.wrong >= 0 and not _close(seen.right_uneven, 1.0, seen):
        return _wrong(
            f"With {samples} samples in batches of {full} a model that is always right gets "
            f"{seen.right_uneven:.4g}, not 1.",
            fix,
            "outputs made from the targets get the score 1",
        )
    if seen.share_of_last is None or seen.as_it_is is None or seen.at_once is None:
        return None
    due, scale = last / samples, abs(seen.right - seen.wrong)
    off = abs(seen.as_it_is - seen.at_once)
    if last > full / 3 or seen.share_of_last - due < 0.03 or off < 0.01 * min(scale, 1.0):
        return None
    return _wrong(
        f"The last batch has {last} of {samples} samples ({100 * due:.1f} %) and counts for "
        f"{100 * seen.share_of_last:.1f} % "
        f"of the score: {seen.as_it_is:.4g} instead of {seen.at_once:.4g}.",
        fix,
        "the score is the same with another batch size",
    )


def batches_are_added(evidence: Evidence) -> Finding | None:
    """A share that is 1 for one batch is 3 for three: shares are added, or divided by the last batch only."""
    seen = evidence.evaluation.scores
    if seen.one_batch != 1 or seen.wrong != 0 or seen.right is None or not _close(seen.right, 3.0, seen):
        return None
    return _wrong(
        "A model that is always right gets 1 on one batch and 3 on three batches of the same size.",
        "right += (predictions == targets).sum().item()\ncount += len(targets)\n...\nreturn right / count",
        "outputs made from the targets get the score 1, however many batches there are",
    )


def first_places_count(evidence: Evidence) -> Finding | None:
    """An answer counts as right if a few other classes are preferred to the right one."""
    seen, loss = evidence.evaluation.scores, evidence.objective.loss
    if seen.places is None or seen.places < 2 or loss is None or len(loss.outputs) < 2:
        return None
    classes = loss.outputs[1]
    if seen.places < 0.1 * classes:
        return None
    finding = _wrong(
        f"A model that prefers {seen.places - 1} wrong classes to the right one gets {seen.right:.3g} as well: an "
        f"answer counts if the right class is among the best {seen.places} of {classes}.",
        "right += (model(inputs).argmax(dim=1) == targets).sum().item()   # or call it top-"
        f"{seen.places} accuracy, {seen.places / classes:.2g} for who guesses",
        "a model that guesses gets one divided by the number of classes",
    )
    finding.severity = "note"
    return finding


def whoever_is_right(evidence: Evidence) -> Finding | None:
    """Right answers get the same score when they are given to other samples."""
    seen, loss = evidence.evaluation.scores, evidence.objective.loss
    if seen.mixed is None or seen.right <= seen.wrong or not math.isclose(seen.mixed, seen.right, rel_tol=1e-5):
        return None
    if loss is None or not (loss.regression or loss.logistic or loss.linear or loss.shift is not None):
        return None  # what a right answer is for this loss is not known, as for logarithms of rates
    shapes = f": outputs {loss.outputs}, targets {loss.targets}"
    return _wrong(
        f"A model that is always right gets {seen.right:.3g}, and the same if each sample gets the answer of another "
        f"one{shapes}.",
        "right += (predictions.flatten() == targets.flatten()).sum().item()   # (N, 1) beside (N,) is a table (N, N)",
        "outputs made from the targets get the best score there is, those of other samples do not",
    )


def wrong_threshold(evidence: Evidence) -> Finding | None:
    """Answers that are right by a small margin do not count."""
    seen, loss = evidence.evaluation.scores, evidence.objective.loss
    if seen.right is None or seen.narrow is None or seen.clear is None or seen.right != 1 or seen.wrong != 0:
        return None
    if loss is None or not (loss.logistic or loss.shift is not None):
        return None
    if seen.clear != 1 or seen.narrow > 0.9:
        return None
    return _wrong(
        f"A model that is right by a margin of 0.2 gets {seen.narrow:.3g}, by a margin of 1.5 it gets "
        f"{seen.clear:.3g}.",
        "predictions = logits > 0        # a logit of 0 is a probability of 0.5\n# or: torch.sigmoid(logits) > "
        "0.5, once",
        "outputs made from the targets get the best score there is, whatever their size",
    )


def _clearly_less(one: float, other: float) -> bool:
    return one < other - 0.05 * max(abs(one), abs(other))


def _close(one: float, other: float, seen) -> bool:
    apart = abs(seen.right - seen.wrong)  # infinite where no error at all is an infinite score, as in decibels
    return one == other or (math.isfinite(apart) and abs(one - other) <= 1e-3 * max(apart, 1e-6))


RULES = [
    other_data,
    right_is_not_better,
    remembers,
    one_batch_counts,
    batches_are_added,
    uneven_batches,
    whoever_is_right,
    wrong_threshold,
    first_places_count,
]
