"""What is wrong with the way samples are delivered."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.loader_mends import shuffled, untouched_store, validation_without_chance


def sorted_by_class(evidence: Evidence) -> Finding | None:
    """Samples come class by class."""
    seen = evidence.data.order
    if seen.batches < 4 or seen.classes < 2 or seen.single < 0.75 * seen.batches or seen.runs > 2 * seen.classes:
        return None
    return Finding(
        "not_shuffled",
        "fail",
        f"{seen.single} of {seen.batches} batches have one class only: in an epoch the {seen.classes} classes come in "
        f"{seen.runs} blocks.",
        "Each batch pulls the weights to its own class and undoes what the last one taught.",
        "DataLoader(train_set, batch_size, shuffle=True)",
        "the labels of one batch are of several classes",
        "07",
        mend=shuffled,
        weight=8,
        explains=("lr_too_high", "class_imbalance", "label_misaligned"),
    )


def few_places(evidence: Evidence) -> Finding | None:
    """The sampler draws a few samples again and again."""
    seen = evidence.data.order
    if not seen.drawn or seen.different > 0.2 * seen.samples or seen.drawn < 6 * seen.different:
        return None
    return Finding(
        "sampler_misuse",
        "fail",
        f"In three epochs the sampler drew {seen.drawn} times and gave {seen.different} of {seen.samples} samples.",
        "A WeightedRandomSampler needs one weight for each sample; with one a class it knows that many samples.",
        "weights = 1 / torch.bincount(labels)\nsampler = WeightedRandomSampler(weights[labels], len(labels))",
        "len(set(sampler)) is near the number of samples",
        "07",
        mend=shuffled,
        weight=8,
        explains=("duplicate_samples", "class_imbalance"),
    )


def collated_wrongly(evidence: Evidence) -> Finding | None:
    """The collate function mixes up samples."""
    kind = evidence.data.order.collated
    if not kind:
        return None
    labels = kind == "labels"
    return Finding(
        "label_misaligned" if labels else "axis_mixup",
        "fail",
        "In a batch of the loader rows stand beside the targets of other samples than in the data set."
        if labels
        else "In a batch of the loader each row has numbers of several samples: all are there, in other places.",
        "What the collate function does to inputs it must do to targets."
        if labels
        else "reshape keeps the order in memory: it does not turn axes.",
        "return rows[order], targets[order]" if labels else "torch.stack(rows)  # (batch, features)",
        "the first row of a batch, and its target, are those of train_loader.dataset[place]",
        "07",
        weight=9,
        explains=("lr_too_high", "lr_too_low", "model_too_weak"),
    )


def store_changes(evidence: Evidence) -> Finding | None:
    """Reading a sample changes the store, and so what comes out the next time."""
    shape = evidence.data.order.mutated
    if shape is None:
        return None
    return Finding(
        "data_mutated",
        "fail",
        f"Reading a batch changes the stored values {shape}: with the same random numbers other samples come out.",
        "An operation in place writes into the store, and every epoch adds to it.",
        "x = self.x[index].clone()  # then change the copy",
        "the stored tensor is equal before and after an epoch",
        "07",
        mend=untouched_store,
        weight=8,
        explains=("lr_too_high", "numeric_instability"),
    )


def validation_is_random(evidence: Evidence) -> Finding | None:
    """A validation sample differs from one reading to the next."""
    loss = evidence.objective.loss
    if not evidence.data.order.random or (loss is not None and loss.unlabelled):  # the random views are the task
        return None
    return Finding(
        "augmentation_misuse",
        "warn",
        "The same validation sample, read twice, gives other inputs.",
        "Augmentation makes the score random, and lower than the model deserves.",
        "val_set = Pictures(val_files, transform=plain)  # a data set of its own, without random transforms",
        "torch.equal(val_set[0][0], val_set[0][0])",
        "07",
        mend=validation_without_chance,
        weight=6,
        explains=("train_val_mismatch", "metric_wrong", "train_eval_mode"),
    )


RULES = [sorted_by_class, few_places, collated_wrongly, store_changes, validation_is_random]
