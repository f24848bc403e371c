"""What is wrong with the classes that the loss asks for: others than the score counts, or none in particular."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.objective_losses import EXPLAINS
from labkit.doctor.rules.words import names_of


def _score_reads_classes(evidence: Evidence) -> bool:
    """Say whether the score is best where the output of the loader's class is the largest."""
    scores = evidence.evaluation.scores
    return bool(scores.reads) and None not in (scores.right, scores.wrong) and scores.right > scores.wrong


def classes_renamed(evidence: Evidence) -> Finding | None:
    """The loss asks for another class than the loader gives, always the same one, and the score does not."""
    classes = evidence.objective.classes
    if 2 * len(classes.renamed) <= len(classes.taught) or not _score_reads_classes(evidence):
        return None
    pairs = [f"{given} -> {taught}" for given, taught in classes.renamed.items()]
    return Finding(
        "label_encoding",
        "fail",
        f"The loss lets the output of another class grow than the loader gives: {names_of(pairs, 4)}. The score "
        f"counts the loader's classes ({evidence.evaluation.scores.right:.3g} for them).",
        "The loss falls as it should, and every answer is wrong in the same way.",
        "loss = loss_fn(outputs, targets)   # the classes as they are: no minus one, no other order",
        "outputs made from the targets have the lowest loss there is",
        "05",
        weight=8.5,
        explains=(*EXPLAINS, "loss_scaling", "label_misaligned"),
    )


def columns_alike(evidence: Evidence) -> Finding | None:
    """The loss cannot tell the columns of the outputs apart, and the score takes them for classes."""
    loss = evidence.objective.loss
    if loss is None or not evidence.objective.classes.alike or not _score_reads_classes(evidence):
        return None
    return Finding(
        "wrong_loss",
        "fail",
        f"The loss stays the same when the columns of the outputs {loss.outputs} change places, and the score takes "
        "each column for a class.",
        "Such a loss asks for a sum, a mean or a spread of the columns, and never for the right one.",
        "loss_fn = nn.CrossEntropyLoss()   # takes (batch, classes) and the numbers of the classes",
        "the loss changes when two columns of the outputs change places",
        "05",
        weight=8,
        explains=(*EXPLAINS, "label_encoding", "loss_scaling"),
    )


RULES = [classes_renamed, columns_alike]
