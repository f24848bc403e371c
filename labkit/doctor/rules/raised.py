"""The program raises an exception: the explainer says what it means, and its kind says which fault that is."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.explain import KINDS, Explanation, explain_exception
from labkit.doctor.explain.causes import rules
from labkit.doctor.finding import Finding
from labkit.doctor.rules.batch_mends import (
    classes_of_one_hot,
    in_one_shape,
    real_targets,
    targets_without_column,
    whole_inputs,
    whole_targets,
)
from labkit.doctor.rules.loader_mends import without_single_samples
from labkit.doctor.rules.mends import with_loss_fn
from labkit.doctor.rules.update_mends import without_old_graphs

#: From a kind of error to the fault behind it.
FAULTS = {
    "matmul-shapes": "axis_mixup",
    "conv-channels": "axis_mixup",
    "conv-dimensions": "axis_mixup",
    "conv-too-small": "axis_mixup",
    "broadcast-shapes": "shape_broadcast",
    "batched-matmul-shapes": "axis_mixup",
    "rnn-shapes": "axis_mixup",
    "reshape": "axis_mixup",
    "cat-shapes": "axis_mixup",
    "dimension-out-of-range": "axis_mixup",
    "norm-features": "axis_mixup",
    "batchnorm-one-sample": "batch_too_small",
    "attention-sizes": "axis_mixup",
    "index-out-of-range": "label_encoding",
    "index-dtype": "label_encoding",
    "target-dtype": "label_encoding",
    "target-one-hot": "label_encoding",
    "target-dimensions": "label_encoding",
    "target-out-of-range": "label_encoding",
    "target-shape": "shape_broadcast",
    "batch-size-mismatch": "axis_mixup",
    "bce-target-dtype": "label_encoding",
    "bce-target-shape": "shape_broadcast",
    "bce-range": "output_activation_mismatch",
    "no-graph": "graph_detached",
    "backward-twice": "graph_retained",
    "in-place-changed": "inplace_autograd",
    "in-place-leaf": "inplace_autograd",
    "backward-not-scalar": "wrong_loss",
    "numpy-of-grad": "graph_detached",
    "integer-grad": "label_encoding",
    "nan-in-backward": "numeric_instability",
    "optimizer-parameters": "param_not_registered",
    "missing-super-init": "param_not_registered",
    "state-dict-mismatch": "checkpoint_state",
    "weights-only": "checkpoint_state",
}
#: An error that is explained and not in the table: the data come in a form that the model or the loss cannot take.
OTHERWISE = "label_encoding"
UNKNOWN = "raises"  # what the error says is all there is to say
#: From a kind of error to its fix, where that is mechanical.
MENDS = {
    "batchnorm-one-sample": without_single_samples,
    "backward-twice": without_old_graphs,
    "index-dtype": whole_inputs,
    "target-dtype": whole_targets,
    "target-one-hot": with_loss_fn(classes_of_one_hot),
    "target-dimensions": targets_without_column,
    "bce-target-dtype": real_targets,
    "bce-target-shape": with_loss_fn(in_one_shape),
}


def update_raises(evidence: Evidence) -> Finding | None:
    """An update ends with an exception."""
    return _finding(evidence.error, "Training", weight=10) if evidence.error is not None else None


def last_batch_raises(evidence: Evidence) -> Finding | None:
    """All is well until the last batch of the epoch, which is smaller."""
    seen = evidence.objective
    if evidence.error is not None or seen.last_batch_error is None:
        return None
    return _finding(seen.last_batch_error, f"The last batch of an epoch has {seen.last_batch} samples: it", weight=10)


def evaluation_raises(evidence: Evidence) -> Finding | None:
    """The evaluation ends with an exception."""
    error = evidence.evaluation.error
    return _finding(error, "The evaluation", weight=9) if error is not None and evidence.error is None else None


def _finding(error: Exception, where: str, weight: float) -> Finding:
    explanation = explain_exception(error)
    name = type(error).__name__
    if explanation is None:
        kind, message = kind_of(error), " ".join(str(error).split())[:200]
        return Finding(
            FAULTS.get(kind, OTHERWISE) if kind else UNKNOWN,
            "fail",
            f"{where} stops with {name}: {message}",
            f"In short: {KINDS[kind].title}." if kind else "Nothing is learned after that.",
            "# the last line of the traceback that lies in your own file says where",
            "one update runs to its end",
            "05",
            mend=MENDS.get(kind),
            weight=weight,
        )
    return Finding(
        fault_of(explanation),
        "fail",
        f"{where} stops with {name} ({KINDS[explanation.row].title}){_place(explanation)}. {explanation.what}",
        explanation.broken,
        explanation.fix,
        "one update runs to its end",
        explanation.chapter[:2],
        mend=MENDS.get(explanation.row),
        weight=weight,
    )


def _place(explanation: Explanation) -> str:
    return f" at {explanation.where}" if explanation.where else ""


def kind_of(error: Exception) -> str:
    """Return the kind of an error by its words alone, "" if no rule knows them."""
    name = type(error).__name__
    known = (
        rule for rule in rules() if name in rule.types and any(words.search(str(error)) for words in rule.patterns)
    )
    return next((rule.row for rule in known), "")


def fault_of(explanation: Explanation) -> str:
    """Return the label of the fault behind an explained error."""
    if explanation.row == "broadcast-shapes" and "loss" not in explanation.code:
        return "axis_mixup"  # not the loss: something inside the model
    if explanation.row == "rnn-shapes" and "hidden" in explanation.what:
        return "state_carried_over"  # the state of a batch of another size
    return FAULTS.get(explanation.row, OTHERWISE)


RULES = [update_raises, last_batch_raises, evaluation_raises]
