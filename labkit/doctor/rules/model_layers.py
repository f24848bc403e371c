"""What is wrong with layers that act on a batch or by chance: batch normalisation and dropout."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.loader_mends import without_single_samples
from labkit.doctor.rules.model_mends import (
    batches_of,
    kept_in_evaluation_mode,
    quarter_of_dropout,
    usual_momentum,
    without_chance,
)
from labkit.doctor.rules.words import names_of
from labkit.doctor.trial import validation_score


def statistics_drift(evidence: Evidence) -> Finding | None:
    """Frozen layers go on collecting running statistics."""
    drifted = evidence.model.layers.drifted
    if not drifted:
        return None
    name, far = max(drifted.items(), key=lambda item: item[1])
    part = name.rpartition(".")[0] or name
    return Finding(
        "bn_statistics",
        "fail",
        f"The weights of {names_of(list(drifted))} are frozen, and the running mean of {name} moved by {far:.2g} "
        f"standard deviations in {evidence.updates.watched} updates.",
        "`requires_grad_(False)` freezes weights; running statistics follow every batch in training mode.",
        f"model.get_submodule({part!r}).eval()  # after every model.train()",
        f"model.get_submodule({name!r}).running_mean is equal before and after an epoch",
        "04",
        mend=kept_in_evaluation_mode([name.rpartition(".")[0] or name for name in drifted]),
        weight=6,
    )


def statistics_never_move(evidence: Evidence) -> Finding | None:
    """Running statistics stay where they were made, or are those of the last batch."""
    seen = evidence.model.layers
    last = {name: momentum for name, momentum in seen.momentum.items() if momentum >= 0.9}
    if seen.still:
        watched = evidence.updates.watched
        what = f"{names_of(seen.still)} have momentum=0: after {watched} updates the running mean is where it was made."
        why = "In evaluation mode the layer then uses statistics that belong to no data at all."
    elif last and (seen.batches or 2) > 1:
        name, momentum = next(iter(last.items()))
        what = (
            f"{name} has momentum={momentum:g}: its running statistics are {100 * momentum:.0f} % those of the last "
            f"batch ({seen.batch or '?'} samples)."
        )
        why = "In torch the momentum is the share of the new batch, not of the old average."
    else:
        return None
    return Finding(
        "bn_statistics",
        "fail",
        what,
        why,
        "nn.BatchNorm1d(features, momentum=0.1)  # the default; 0.01 for an average over more batches",
        "the answers in training and evaluation mode are alike",
        "04",
        mend=usual_momentum,
        weight=6,
        explains=("train_eval_mode", "batch_too_small", "metric_wrong"),
    )


def statistics_hardly_move(evidence: Evidence) -> Finding | None:
    """Running statistics follow so slowly that the evaluation still uses those of the start."""
    seen = evidence.model.layers
    slow = {name: momentum for name, momentum in seen.momentum.items() if 0 < momentum < 0.005}
    if not slow:
        return None
    name, momentum = next(iter(slow.items()))
    return Finding(
        "bn_statistics",
        "warn",
        f"{name} has momentum={momentum:g}: it needs {3 / momentum:.0f} updates until its running statistics are those "
        "of the data.",
        "Until then the evaluation normalises with what the layer was made with.",
        "nn.BatchNorm1d(features, momentum=0.1)  # the default",
        "the answers in training and evaluation mode are alike",
        "04",
        mend=usual_momentum,
        judge=validation_score,
        confirm=True,
        weight=4,
    )


def statistics_of_one(evidence: Evidence) -> Finding | None:
    """Without running statistics the evaluation normalises each small batch by itself."""
    seen = evidence.model.layers
    if not seen.untracked or seen.fewest is None or seen.fewest > 4:
        return None
    return Finding(
        "bn_statistics",
        "fail",
        f"{names_of(seen.untracked)} keep no running statistics, and the evaluation asks for batches of {seen.fewest}.",
        "Each answer then depends on the other samples of its batch, or, alone, on nothing but itself.",
        "nn.BatchNorm1d(features, track_running_stats=True)  # the default",
        "model(x[:1]) equals model(x)[:1] after model.eval()",
        "04",
        weight=6,
    )


def refused(evidence: Evidence) -> Finding | None:
    """Training meets a batch of one sample, which batch normalisation refuses."""
    seen = evidence.model.layers
    raised = evidence.error is not None and "Expected more than 1" in str(evidence.error)
    if not raised and not (seen.refuses_one and seen.last_batch == 1):
        return None
    size = 1 if seen.last_batch is None or raised else seen.last_batch
    return Finding(
        "batch_too_small",
        "fail",
        f"A batch of an epoch has {size} sample, and normalisation refuses it: {seen.refuses_one or evidence.error}.",
        "One number has no spread by which it could be divided.",
        "DataLoader(dataset, batch_size, shuffle=True, drop_last=True)",
        "no batch of the loader has one sample",
        "04",
        mend=without_single_samples,
        weight=9,
    )


def too_few_for_normalisation(evidence: Evidence) -> Finding | None:
    """Batch normalisation takes means of two or three numbers, and larger batches learn better."""
    seen = evidence.model.layers
    if seen.values is None or not (1 < seen.values <= 3 or seen.batch == 1 < seen.values):
        return None
    return Finding(
        "batch_too_small",
        "warn",
        f"With batches of {seen.batch}, batch normalisation takes the mean of {seen.values} numbers.",
        "Such means are mostly chance: each sample is moved by its neighbour, and evaluation uses other statistics.",
        "DataLoader(dataset, batch_size=32, shuffle=True)  # or nn.LayerNorm / nn.GroupNorm, which do not need a batch",
        "the answers in training and evaluation mode are alike",
        "04",
        mend=batches_of(32),
        judge=validation_score,
        confirm=True,
        weight=6,
        explains=("lr_too_high", "bn_statistics"),
    )


def too_much_dropout(evidence: Evidence) -> Finding | None:
    """Dropout leaves next to nothing, and a quarter of it learns better."""
    seen = evidence.model.layers
    strong = {layer: p for layer, p in seen.dropouts.items() if p >= 0.8}
    if strong:
        p = max(strong.values())
        what = f"Dropout in {names_of(list(strong))} sets {100 * p:.0f} % of all values to zero."
        mend, fix = (
            quarter_of_dropout,
            f"nn.Dropout({p / 4:.2g})  # p is the share that is dropped, not the share that is kept",
        )
    elif seen.masked >= 0.8 and seen.noise and not seen.dropouts and not evidence.model.answers.by_chance:
        what = (
            f"In training mode a random mask takes away {100 * seen.masked:.0f} % of the values; chance changes the "
            f"answers {seen.noise:.2g} times as much (in variance) as the samples do."
        )
        mend, fix = without_chance, "# leave out 5 to 20 % of the input, not most of it"
    else:
        return None
    return Finding(
        "dropout_too_high",
        "warn",
        what,
        "What is left of a sample no longer tells what it is.",
        fix,
        "the training loss falls in the first epoch",
        "04",
        mend=mend,
        confirm=True,
        updates=60,
        weight=5,
    )


RULES = [
    statistics_drift,
    statistics_never_move,
    statistics_hardly_move,
    statistics_of_one,
    refused,
    too_few_for_normalisation,
    too_much_dropout,
]
