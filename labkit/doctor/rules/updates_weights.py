"""What is wrong with the weights: overwritten, thawed, or frozen in name only."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.evaluation_mends import looks_only
from labkit.doctor.rules.weight_mends import frozen, frozen_as_evaluated, still, written_by_optimizers_only
from labkit.doctor.rules.words import names_of


def weights_overwritten(evidence: Evidence) -> Finding | None:
    """Something else than an optimizer overwrites the weights."""
    seen = evidence.updates
    if not seen.reset:
        return None
    name, how = next(iter(seen.reset.items()))
    return Finding(
        "weights_reset",
        "fail",
        f"Between two steps {len(seen.reset)} weights were overwritten ({names_of(list(seen.reset))}): {how}.",
        "What the updates have learned is lost each time.",
        "# initialise, or load a checkpoint, once: before the loop, not inside it",
        f"model.get_parameter({name!r}) is the same after one update and before the next",
        "05",
        mend=written_by_optimizers_only,
        instead=((looks_only, ""),),
        weight=8,
        explains=("lr_too_high", "lr_too_low", "param_not_optimised", "step_missing"),
    )


def frozen_and_moved(evidence: Evidence) -> Finding | None:
    """Parameters that should be frozen are not."""
    seen, severity = evidence.updates, "fail"
    mend = still([*seen.frozen_moved, *seen.zeroed_moved])
    if seen.attribute_frozen:
        mend = frozen(seen.attribute_frozen)
        where = names_of(seen.attribute_frozen)
        what = f"{where} has an attribute requires_grad = False, and its parameters are trained all the same."
        fix = (
            f"model.get_submodule({seen.attribute_frozen[0]!r}).requires_grad_(False)  # the method, with an underscore"
        )
    elif seen.misspelt_freezing:
        name, attribute = next(iter(seen.misspelt_freezing.items()))
        mend = frozen(list(seen.misspelt_freezing))
        what = f"{name} has an attribute {attribute} = False, which means nothing to torch: it is trained all the same."
        fix = "parameter.requires_grad_(False)  # a method cannot be misspelt without an error"
    elif seen.frozen_moved:
        what = f"{names_of(list(seen.frozen_moved))} do not require a gradient, and the optimizer moved them."
        fix = "optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=...)"
    elif len(seen.zeroed_moved) > 0:
        what = (
            f"The gradients of {names_of(list(seen.zeroed_moved))} are set to zero before the step, and it moves them."
        )
        fix = "part.requires_grad_(False)  # before the optimizer is made, and only the rest goes into it"
    elif seen.thawed:
        mend = looks_only
        what = f"The evaluation makes {names_of(seen.thawed)} trainable, which were frozen before."
        fix = "with torch.no_grad():  # instead of switching requires_grad off and on for all of the model"
    elif seen.evaluated_in_training:
        mend = frozen_as_evaluated(seen.evaluated_in_training)
        what = f"{names_of(seen.evaluated_in_training)} is trained in evaluation mode, which changes nothing in it."
        fix = f"model.get_submodule({seen.evaluated_in_training[0]!r}).requires_grad_(False)"
        severity = "warn"
    else:
        return None
    return Finding(
        "freeze_ineffective",
        severity,
        what,
        "Neither eval() nor a gradient of zero keeps weights as they are: momentum and weight decay go on.",
        fix,
        "the frozen weights are equal before and after an update",
        "04",
        mend=mend,
        weight=6,
    )


def left_frozen(evidence: Evidence) -> Finding | None:
    """The evaluation switches gradients off, and nothing switches them on again."""
    frozen = evidence.updates.left_frozen
    if not frozen:
        return None
    return Finding(
        "graph_detached",
        "fail",
        f"After the evaluation {len(frozen)} parameters do not require a gradient any more: {names_of(frozen)}.",
        "From the second epoch on, these weights stay as they are.",
        "with torch.no_grad():  # instead of model.requires_grad_(False)",
        "all(p.requires_grad for p in model.parameters()) after the evaluation",
        "04",
        mend=looks_only,
        weight=8,
    )


RULES = [weights_overwritten, frozen_and_moved, left_frozen]
