"""What is wrong with the answers: they depend on chance, on earlier inputs, on other samples, or on too little."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.evaluation_mends import dropout_by_mode
from labkit.doctor.rules.model_mends import read_in_order, rectified, score_by_order, widened
from labkit.doctor.rules.words import names_of

NOTICEABLE = 1e-3  # in units of the answers' spread


def by_chance(evidence: Evidence) -> Finding | None:
    """Dropout acts in evaluation mode."""
    seen = evidence.model.answers
    if not seen.dropouts or not seen.by_chance or seen.by_chance < NOTICEABLE or seen.several or seen.own_mode:
        return None
    layers = [layer or "the model's forward" for layer in dict.fromkeys(seen.dropouts)]
    return Finding(
        "train_eval_mode",
        "fail",
        f"After `model.eval()` dropout still acts in {names_of(layers)}: the same input gives answers that differ by "
        f"{seen.by_chance:.2g} of their spread.",
        "Functional dropout has `training=True` as its default; layers that are not registered never hear of `eval()`.",
        "F.dropout(x, p, training=self.training)  # or nn.Dropout as an attribute of the module",
        "torch.equal(model(x), model(x)) after model.eval()",
        "04",
        mend=dropout_by_mode,
        weight=8,
        explains=("metric_wrong", "dropout_too_high"),
    )


def by_history(evidence: Evidence) -> Finding | None:
    """The answer depends on what the model was asked before."""
    seen = evidence.model.answers
    if not seen.by_history or seen.by_history < NOTICEABLE:
        return None
    return Finding(
        "state_carried_over",
        "fail",
        "In evaluation mode, with the same random numbers, an input gives another answer after other inputs: "
        f"it differs by {seen.by_history:.2g} of the answers' spread.",
        "Something of an earlier batch (a hidden state, a cache, a list as default argument) is kept, and used for "
        "samples that have nothing to do with it.",
        "state = None  # a fresh state at the beginning of every forward; no cache, no mutable default",
        "torch.equal(model(x), model(x)) after model.eval()",
        "04",
        weight=9,
        explains=(
            "graph_retained",
            "metric_wrong",
            "axis_mixup",
            "train_eval_mode",
            "shape_broadcast",
            "inplace_autograd",
        ),
    )


def by_neighbours(evidence: Evidence) -> Finding | None:
    """The answer for a sample depends on the other samples of its batch."""
    seen = evidence.model.answers
    if not seen.by_neighbours or seen.by_neighbours < NOTICEABLE or seen.batch_statistics:
        return None
    what = f"changes with the other samples of its batch, by {seen.by_neighbours:.2g} of the answers' spread"
    if seen.by_neighbours == float("inf"):
        what = "does not exist: the number of answers does not follow the number of samples"
    return Finding(
        "axis_mixup",
        "fail",
        f"In evaluation mode the answer for a sample {what}.",
        "The batch axis is taken for another one: by a layer without batch_first=True, a softmax or mean over dim=0, "
        "or a reshape that mixes samples.",
        "batch_first=True  # or x.transpose(0, 1); softmax and mean over dim=1; reshape keeps x.shape[0]",
        "model(x[:1]) equals model(x)[:1] after model.eval()",
        "04",
        weight=9,
        explains=("model_too_weak", "state_carried_over", "metric_wrong", "wrong_loss", "output_activation_mismatch"),
    )


def only_affine(evidence: Evidence) -> Finding | None:
    """Several layers, and together no more than one linear map."""
    seen = evidence.model.answers
    if seen.affine is None or seen.affine > 1e-6 or len(seen.layers) < 2:
        return None
    return Finding(
        "model_too_weak",
        "warn",
        f"f(a) + f(b) - f(c) equals f(a + b - c) up to {seen.affine:.1g}: the {len(seen.layers)} layers "
        f"({names_of(seen.layers)}) are one linear map.",
        "Without an activation between them, linear layers multiply out to a single one.",
        "nn.ReLU()  # between the layers",
        "f(a) + f(b) - f(c) differs from f(a + b - c)",
        "04",
        mend=rectified,
        confirm=True,
        updates=80,
        weight=5,
        explains=("lr_too_low",),
    )


def too_narrow(evidence: Evidence) -> Finding | None:
    """All that the end of the model knows of a sample is one number."""
    if not evidence.model.layers.narrow:
        return None
    first, second, width = evidence.model.layers.narrow[0]
    outputs = evidence.model.start.outputs
    if width == 1:
        what = f"{first} has one output, and it is all that {second} gets to know of a sample."
    elif evidence.model.start.class_targets and len(outputs) == 2:
        what = (
            f"All that {second} gets to know of a sample are {width} numbers of {first}, cut off at zero; from these "
            f"it shall tell {outputs[1]} classes apart."
        )
    else:
        return None
    wide = max(16, 4 * width)
    return Finding(
        "model_too_weak",
        "warn",
        what,
        "What the later layers should tell apart must fit through the narrowest place.",
        f"# {wide} outputs for {first}, {wide} inputs for {second}",
        "the training loss falls below where it stood",
        "04",
        mend=widened(first, second, wide),
        confirm=True,
        updates=80,
        weight=5,
    )


def without_order(evidence: Evidence) -> Finding | None:
    """The model cannot see the order of a sequence, and one that can learns better."""
    seen = evidence.model.answers
    if seen.orderless is None or seen.orderless > 1e-4 or not seen.steps or seen.steps < 3 or len(seen.outputs) > 2:
        return None
    return Finding(
        "model_too_weak",
        "warn",
        f"When the {seen.steps} steps of the inputs are put in another order, the answers stay the same.",
        "A mean or sum over the steps forgets their order; a small network that reads them in order does better here.",
        "nn.GRU(features, width, batch_first=True)  # or positions added to the vectors before attention",
        "model(x) differs from model(x.flip(1))",
        "04",
        mend=read_in_order,
        judge=score_by_order,
        confirm=True,
        updates=120,
        weight=1,
    )


RULES = [by_chance, by_history, by_neighbours, only_affine, too_narrow, without_order]
