"""Formulas that are right on paper and give NaN or infinity on a machine."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding

#: What to write in place of an operation that breaks.
INSTEAD = {
    "log": "torch.log(x + 1e-8)   # or log_softmax / logsigmoid / binary_cross_entropy_with_logits, which stay finite",
    "sqrt": "torch.sqrt(x + 1e-8)   # inside the root: its slope at 0 is infinite",
    "exp": "F.softplus(x)   # for log(1 + exp(x)); torch.logsumexp(x, dim) for log of a sum of exp",
    "div": "x / total.clamp(min=1e-8)",
    "softmax": 'scores.masked_fill(mask, -1e4)   # not float("-inf") where a whole row may be masked',
    "std": "x.std(0, unbiased=False) + 1e-5   # the spread of one sample is 0 / 0",
    "norm": "(x.square().sum(1) + 1e-8).sqrt()",
    "pow": "(x + 1e-8) ** power",
}


def not_finite(evidence: Evidence) -> Finding | None:
    """A loss or a gradient is NaN or infinite, with finite inputs and weights."""
    seen = evidence.objective.numbers
    if not seen.what:
        return None
    of = f" of {seen.parameter}" if seen.parameter else ""
    by = f"; the first such number comes from {seen.operation}" if seen.operation else ""
    fix = next((code for word, code in INSTEAD.items() if word in seen.operation), INSTEAD["log"])
    return Finding(
        "numeric_instability",
        "fail",
        f"The {seen.what}{of} is NaN or infinite {seen.when}{by}.",
        "One NaN in a gradient makes every weight that it reaches NaN, for good.",
        fix,
        "torch.isfinite(loss) in every batch, and torch.autograd.set_detect_anomaly(True) stays silent",
        "05",
        weight=9.6,
        explains=(
            "lr_too_high",
            "dead_units",
            "bad_init",
            "batch_too_small",
            "wrong_loss",
            "weights_reset",
            "axis_mixup",
        ),
    )


def breaks_for_sure_answers(evidence: Evidence) -> Finding | None:
    """The loss is NaN or infinite for outputs that are a few times larger than now."""
    loss, outputs = evidence.objective.loss, evidence.objective.outputs
    if loss is None or loss.breaks_at is None or outputs.low is None or outputs.low >= -1:
        return None
    return Finding(
        "numeric_instability",
        "note",
        f"The loss is NaN or infinite for outputs of size {loss.breaks_at:g}.",
        "A network that becomes sure of its answers reaches such outputs, and the next gradient is NaN.",
        INSTEAD["log"],
        "the loss is finite for outputs of 1000",
        "05",
        weight=1,
    )


RULES = [not_finite, breaks_for_sure_answers]
