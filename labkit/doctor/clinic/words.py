"""The faults in plain words, and in which part of a program each of them lies."""

from labkit.errors import ConfigError

#: Part of the program -> fault -> what it is called when one chooses from a list.
BY_AREA = {
    "the data": {
        "augmentation_misuse": "random changes of samples where they must not be",
        "axis_mixup": "axes are confused: reshaped instead of turned",
        "class_imbalance": "a rare class is ignored",
        "data_leakage": "validation shares samples or statistics with training",
        "data_mutated": "stored samples change while they are read",
        "duplicate_samples": "the same few samples come again and again",
        "input_scale": "inputs are far too large or too small",
        "label_encoding": "targets are not in the form that the loss expects",
        "label_misaligned": "labels belong to other samples",
        "non_finite_data": "NaN or infinity in the data",
        "not_shuffled": "training samples come sorted",
        "sampler_misuse": "the sampler draws other samples than intended",
        "target_shift": "sequence targets are shifted by a wrong number of steps",
        "train_val_mismatch": "training and validation data are prepared differently",
        "unseeded_split": "the split is another one in every run",
    },
    "the model": {
        "bad_init": "initial weights prevent learning",
        "batch_too_small": "batches are too small for a layer",
        "bn_statistics": "batch norm keeps wrong statistics",
        "dead_units": "units that never fire",
        "dropout_too_high": "dropout removes too much",
        "graph_detached": "a part is cut off from the gradients",
        "inplace_autograd": "a value that backward needs is overwritten",
        "model_too_weak": "the network is too weak for the task",
        "param_not_registered": "layers that model.parameters() does not see",
        "state_carried_over": "the state of other samples comes into a batch",
        "vanishing_gradient": "gradients die on the way to the first layers",
    },
    "the loss": {
        "loss_scaling": "the loss has a wrong factor or sign",
        "numeric_instability": "a formula makes NaN or infinity",
        "output_activation_mismatch": "the last activation does not fit the loss",
        "shape_broadcast": "outputs and targets broadcast against each other",
        "wrong_loss": "the loss does not fit the task",
    },
    "the updates": {
        "clip_misplaced": "gradients are clipped at the wrong moment",
        "freeze_ineffective": "what should be frozen is trained",
        "grad_accumulation_scale": "accumulated gradients have a wrong scale",
        "graph_retained": "the history of old steps is kept",
        "lr_too_high": "the learning rate is too high",
        "lr_too_low": "the learning rate is too low",
        "optimizer_recreated": "the optimizer is made anew again and again",
        "param_not_optimised": "the optimizer does not have all parameters",
        "scheduler_misuse": "the schedule of the learning rate is wrong",
        "step_missing": "optimizer.step() is hardly ever called",
        "weight_decay_too_high": "weight decay is too strong",
        "weights_reset": "weights are overwritten during training",
        "zero_grad_misplaced": "gradients are cleared at the wrong time",
    },
    "the evaluation": {
        "checkpoint_state": "saved weights are not what they are taken for",
        "metric_wrong": "the score is computed wrongly",
        "train_eval_mode": "layers run in the wrong mode",
    },
}

WORDS: dict[str, str] = {label: words for area in BY_AREA.values() for label, words in area.items()}
AREAS: dict[str, str] = {label: area for area, labels in BY_AREA.items() for label in labels}


def label_of(answer: str) -> str:
    """Return the label for a label or its plain words. Raises ConfigError for what is neither."""
    if answer in WORDS:
        return answer
    found = [label for label, words in WORDS.items() if words == answer]
    if not found:
        raise ConfigError(f"{answer!r} is none of the faults; they are {', '.join(WORDS)}.")
    return found[0]
