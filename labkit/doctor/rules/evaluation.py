"""What is wrong with the evaluation: its modes, its score, and what it does to the weights."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules import evaluation_scores
from labkit.doctor.rules.evaluation_mends import dropout_by_mode, keeps_copies, looks_only, plateau_waits_for
from labkit.doctor.rules.update_mends import in_the_modes_it_began_with


def evaluated_in_training_mode(evidence: Evidence) -> Finding | None:
    """Dropout is on, or batch norm uses the batch, while the evaluation runs."""
    seen = evidence.evaluation
    if seen.repeated or not (seen.in_training_mode or seen.dropped):
        return None
    if seen.in_training_mode:
        where = _names(seen.in_training_mode)
        what = f"{len(seen.in_training_mode)} layers are in training mode while the evaluation runs: {where}."
        fix = "model.eval()   # first line of the evaluation; model.train() comes back with the next epoch"
        verify = "two evaluations of the same weights give the same score"
    else:
        rate, times = seen.dropped
        what = (
            f"Dropout with p={rate:g} is on {times} times while the evaluation runs, although the layers are in "
            "eval mode."
        )
        fix = f"x = F.dropout(x, {rate:g}, training=self.training)   # or nn.Dropout({rate:g}) as a layer"
        verify = "model.eval(); torch.equal(model(x), model(x))"
    return Finding(
        "train_eval_mode",
        "fail",
        what,
        "In training mode dropout deletes at random and batch norm uses the batch at hand: that is another "
        "network than the one you will use.",
        fix,
        verify,
        "05",
        mend=looks_only if seen.in_training_mode else dropout_by_mode,
        weight=6,
        explains=("bn_statistics", "metric_wrong"),
    )


def trained_in_evaluation_mode(evidence: Evidence) -> Finding | None:
    """A step switches layers to evaluation mode and trains them so."""
    seen = evidence.evaluation
    if not seen.training_in_evaluation:
        return None
    return Finding(
        "train_eval_mode",
        "fail",
        f"In {seen.training_updates} passes of {seen.watched} updates {_names(seen.training_in_evaluation)} trained in "
        "evaluation mode: train_step had called `eval()` and not `train()` again.",
        "Dropout does nothing there, and batch norm learns no statistics.",
        "model.eval()\nwith torch.no_grad():\n    ...\nmodel.train()   # before the update goes on",
        "model.training is True when the loss of an update is computed",
        "05",
        mend=in_the_modes_it_began_with,
        weight=6,
        explains=("bn_statistics",),
    )


def weights_changed(evidence: Evidence) -> Finding | None:
    """An evaluation changes the weights, although the model had become better."""
    seen = evidence.evaluation.states
    if not seen.changed_weights or not seen.better:
        return None
    again = " They are what they were at the first evaluation." if seen.restored else ""
    return Finding(
        "checkpoint_state" if seen.restored else "weights_reset",
        "fail",
        f"The evaluation changes {len(seen.changed_weights)} weights ({_names(seen.changed_weights)}) although "
        "the score "
        f"had become better.{again}",
        "An evaluation looks; what it writes into the weights is lost training.",
        "# restore a saved state once, after the last epoch:\nmodel.load_state_dict(best_state)",
        "the weights are equal before and after evaluate(model, val_loader)",
        "06",
        mend=looks_only,
        weight=7,
        explains=("weights_reset", "checkpoint_state"),
    )


def statistics_changed(evidence: Evidence) -> Finding | None:
    """An evaluation changes running statistics without layers in training mode."""
    seen = evidence.evaluation
    if not seen.states.changed_buffers or seen.in_training_mode or not seen.states.changed_buffers:
        return None
    norms = [name for name in seen.states.changed_buffers if name.endswith(("running_mean", "running_var"))]
    if not norms:
        return None
    return Finding(
        "bn_statistics",
        "fail",
        f"The evaluation changes running statistics: {_names(norms)}.",
        "Validation samples then decide how training samples are normalised.",
        "model.eval()   # before the first forward of the evaluation",
        f"model.get_buffer({norms[0]!r}) is equal before and after the evaluation",
        "05",
        mend=looks_only,
        weight=4,
    )


def living_state(evidence: Evidence) -> Finding | None:
    """What is kept as the best state goes on changing with the model."""
    kept = evidence.evaluation.states.living
    if kept is None:
        return None
    kind, names = kept
    if kind == "model":
        what, fix = (
            f"{names[0]!r} is the model itself under another name, not a copy of it.",
            "best = copy.deepcopy(model)",
        )
    else:
        what = f"The kept state shares its memory with the model: {_names(names)} change with every update."
        fix = "best_state = copy.deepcopy(model.state_dict())"
    return Finding(
        "checkpoint_state",
        "fail",
        what,
        "`state_dict()` gives the living tensors; when they are loaded later, they are the last ones, not the best.",
        fix,
        "the kept tensors are equal before and after one more update",
        "06",
        mend=keeps_copies if kind == "state" else None,
        weight=5,
    )


def nothing_loaded(evidence: Evidence) -> Finding | None:
    """With strict=False nothing was loaded, and nothing was said."""
    seen = evidence.evaluation.states
    if not seen.missing:
        return None
    return Finding(
        "checkpoint_state",
        "fail",
        f"`load_state_dict(..., strict=False)` loaded nothing: all {len(seen.missing)} names are missing "
        f"({seen.missing[0]}), and {len(seen.unexpected)} others were not expected ({_names(seen.unexpected, 1)}).",
        "With strict=False names that do not fit are passed over: the model keeps its random weights.",
        'state = {name.removeprefix("module."): value for name, value in state.items()}\nmodel.load_state_dict(state)',
        "load_state_dict without strict=False raises no error",
        "06",
        weight=9,
        explains=("param_not_optimised", "freeze_ineffective", "bad_init"),
    )


def plateau_in_the_wrong_direction(evidence: Evidence) -> Finding | None:
    """ReduceLROnPlateau waits for the score to fall, and better models have higher scores, or the other way round."""
    seen = evidence.evaluation
    if seen.plateau is None or seen.better_is_higher is None or (seen.plateau == "max") == seen.better_is_higher:
        return None
    wanted = "max" if seen.better_is_higher else "min"
    return Finding(
        "scheduler_misuse",
        "fail" if seen.own_score else "note",  # nobody has said that the accuracy is what the schedule gets
        f"ReduceLROnPlateau has mode={seen.plateau!r} and gets a score that is better when it is "
        f"{'higher' if seen.better_is_higher else 'lower'}.",
        "Every improvement counts as a bad epoch, and the learning rate is cut while the model gets better.",
        f'scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="{wanted}")',
        "the learning rate stays as it is while the score improves",
        "05",
        mend=plateau_waits_for(wanted),
        weight=6,
    )


def _names(names: list[str], most: int = 3) -> str:
    """Return a few names in a row, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


RULES = [
    evaluated_in_training_mode,
    trained_in_evaluation_mode,
    weights_changed,
    statistics_changed,
    living_state,
    nothing_loaded,
    plateau_in_the_wrong_direction,
    *evaluation_scores.RULES,
]
