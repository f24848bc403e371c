"""The answer to a guess: what speaks for it or against it is measured, not told."""

from collections.abc import Callable
from dataclasses import dataclass

from labkit.doctor.clinic import facts
from labkit.doctor.clinic.case import Case
from labkit.doctor.clinic.observation import Observation
from labkit.doctor.clinic.words import AREAS, WORDS, label_of

Sign = tuple[str, str, Callable[[Observation], float | None], Callable[[float], bool]]  # expected, found, fact, fits

_SIGNS: dict[str, Sign] = {
    "jumps": (
        "updates would be a large share of the weights, above 2 %",
        "the median update moves them by {:.2%}",
        facts.update_size,
        lambda value: value > 0.02,
    ),
    "crawls": (
        "updates would be tiny, below 0.02 % of the weights",
        "the median update moves them by {:.2%}",
        facts.update_size,
        lambda value: 0 < value < 0.0002,
    ),
    "still": (
        "there would be layers that never move",
        "{:.0f} layers never moved",
        lambda seen: float(len(facts.still_layers(seen))),
        lambda value: value > 0,
    ),
    "cut": (
        "there would be layers without any gradient",
        "{:.0f} layers never had a gradient",
        lambda seen: float(len(facts.untouched_layers(seen))),
        lambda value: value > 0,
    ),
    "fades": (
        "the first layer's gradient would be less than a hundredth of the last one's",
        "its share is {:.2g}",
        facts.first_to_last,
        lambda value: value < 0.01,
    ),
    "silent": (
        "most units of a layer would be 0 for every picture",
        "at most {:.0%} of a layer are",
        facts.silent_share,
        lambda value: value > 0.5,
    ),
    "broken": (
        "there would be NaN or infinity",
        "broken numbers came up: {:.0f} (1 is yes)",
        lambda seen: float(facts.has_broken_numbers(seen)),
        lambda value: value > 0,
    ),
    "inputs": (
        "inputs would be far from 1, above 10 or below 0.1",
        "the largest is {:.3g}",
        facts.input_size,
        lambda value: not 0.1 <= value <= 10,
    ),
    "prepared": (
        "the first batches of training and validation would differ in their mean",
        "they differ by {:.2f} standard deviations",
        facts.preparation_gap,
        lambda value: value > 0.3,
    ),
    "apart": (
        "training would score far better than validation",
        "the difference is {:+.2f}",
        facts.score_gap,
        lambda value: value > 0.1,
    ),
    "too good": (
        "validation would score too well for what was learned, as well as training",
        "training minus validation is {:+.2f}",
        facts.score_gap,
        lambda value: value < 0.01,
    ),
    "low": (
        "even the training score would stay low",
        "it ends at {:.2f}",
        facts.training_score,
        lambda value: value < 0.8,
    ),
    "rate": (
        "the learning rate would change in the wrong way",
        "it ends at {:.2g} times its first value",
        facts.rate_change,
        lambda value: value != 1,
    ),
    "flat": (
        "the loss would hardly fall",
        "it ends at {:.2f} times its first value",
        facts.loss_fall,
        lambda value: value > 0.8,
    ),
    "swings": (
        "the loss would jump up again and again",
        "the largest jump is {:.2f} times the first loss",
        facts.loss_swing,
        lambda value: value > 0.3,
    ),
    "grows": (
        "gradients would grow from update to update",
        "at the end the largest is {:.2g} times that at the beginning",
        facts.gradient_growth,
        lambda value: value > 3,
    ),
}

#: Fault -> the sign that a careful reader looks for first.
_SIGN_OF = {
    **dict.fromkeys(("lr_too_high", "grad_accumulation_scale", "clip_misplaced"), "jumps"),
    **dict.fromkeys(("lr_too_low", "optimizer_recreated"), "crawls"),
    **dict.fromkeys(("step_missing", "param_not_optimised"), "still"),
    **dict.fromkeys(("graph_detached", "param_not_registered"), "cut"),
    **dict.fromkeys(("vanishing_gradient", "bad_init"), "fades"),
    "dead_units": "silent",
    **dict.fromkeys(("numeric_instability", "non_finite_data"), "broken"),
    "input_scale": "inputs",
    **dict.fromkeys(("train_val_mismatch",), "prepared"),
    **dict.fromkeys(("train_eval_mode", "bn_statistics", "batch_too_small", "augmentation_misuse"), "apart"),
    **dict.fromkeys(("data_leakage", "metric_wrong", "checkpoint_state", "unseeded_split"), "too good"),
    **dict.fromkeys(("model_too_weak", "dropout_too_high", "axis_mixup", "label_misaligned", "class_imbalance"), "low"),
    **dict.fromkeys(("duplicate_samples", "sampler_misuse", "data_mutated", "not_shuffled"), "apart"),
    "scheduler_misuse": "rate",
    **dict.fromkeys(("weight_decay_too_high", "output_activation_mismatch", "shape_broadcast", "wrong_loss"), "flat"),
    **dict.fromkeys(("label_encoding", "loss_scaling", "inplace_autograd", "target_shift"), "flat"),
    **dict.fromkeys(("weights_reset", "state_carried_over"), "swings"),
    **dict.fromkeys(("zero_grad_misplaced", "graph_retained", "freeze_ineffective"), "grows"),
}


@dataclass(frozen=True)
class Reply:
    """What to say to a guess."""

    is_right: bool
    text: str


def reply(case: Case, seen: Observation, answer: str) -> Reply:
    """Return the answer to a guess, given as a label or in plain words; `seen` is a run of the case with its fault.

    Raises ConfigError for what is none of the faults.
    """
    label = label_of(answer)
    if label == case.label or label in case.also:
        return Reply(True, f"Right: {WORDS[case.label]}. {case.explanation}")
    expected, found, fact, fits = _SIGNS[_SIGN_OF[label]]
    value = fact(seen)
    if value is None:
        measured = "that could not be measured in this run"
        start = f"No. If it were “{WORDS[label]}”, {expected}; {measured}."
    elif fits(value):
        start = f"It could look like that: {expected}, and {found.format(value)}. But no line of this script does it."
    else:
        start = f"No. If it were “{WORDS[label]}”, {expected}; here {found.format(value)}."
    same = AREAS[label] == AREAS[case.label]
    where = f"{'You look in the right place' if same else 'Look elsewhere'}: the fault is in {AREAS[case.label]}."
    return Reply(False, f"{start} {where}")
