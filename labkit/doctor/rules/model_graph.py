"""What is wrong where gradients should arrive: nobody knows a parameter, or the graph is cut or changed."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.evaluation_mends import looks_only
from labkit.doctor.rules.words import names_of


def not_registered(evidence: Evidence) -> Finding | None:
    """Something takes part in the loss, gets a gradient, and neither model nor optimizer knows it."""
    hidden = evidence.model.graph.hidden
    if not hidden:
        return None
    path, (what, fix) = next(iter(hidden.items()))
    more = f", and {len(hidden) - 1} more" if len(hidden) > 1 else ""
    return Finding(
        "param_not_registered",
        "fail",
        f"{path} ({what}{more}) gets a gradient, and `model.parameters()` does not contain it.",
        "nn.Module registers modules and nn.Parameter that are attributes, or lie in nn.ModuleList and its kin; "
        "what it does not know is not trained, not saved and not moved to the device.",
        fix,
        "`len(list(model.parameters()))` has grown, and labkit.models.registration(model) is empty",
        "04",
        weight=10,
        explains=(
            "param_not_optimised", "graph_detached", "model_too_weak", "graph_retained", "vanishing_gradient",
            "state_carried_over", "train_eval_mode", "step_missing",
        ),
    )  # fmt: skip


def cut(evidence: Evidence) -> Finding | None:
    """The loss depends on trainable parameters that never get a gradient."""
    seen = evidence.model.graph
    raised = evidence.error is not None and "does not require grad" not in str(evidence.error)
    if not seen.cut or not evidence.updates.backwards or raised:
        return None
    where = _where(evidence)
    everything = len(seen.cut) >= seen.optimised > 0
    which = "No parameter gets a gradient" if everything else f"{len(seen.cut)} parameters never get a gradient"
    return Finding(
        "graph_detached",
        "fail",
        f"{which} ({names_of(seen.cut)}) although the loss changes when they are changed.{where}",
        "Behind `no_grad`, `detach`, `.data`, NumPy, `.item()`, `torch.tensor(...)` or a comparison there is no graph: "
        "nothing before it learns.",
        "# compute it with torch operations, and without no_grad, from the parameters to the loss;\n"
        "# if that part shall stay as it is: part.requires_grad_(False), and leave it out of the optimizer",
        f"after `loss.backward()`: model.get_parameter({seen.cut[0]!r}).grad is not None",
        "03",
        weight=9,
        explains=(
            "step_missing", "lr_too_low", "vanishing_gradient", "model_too_weak", "bad_init", "param_not_optimised",
            "wrong_loss", "zero_grad_misplaced",
        ),
    )  # fmt: skip


def _where(evidence: Evidence) -> str:
    """Name the place of the cut: layers that ran without a graph, else the operations that ended one."""
    seen = evidence.model.graph
    if seen.cut_layers:
        return f" The output of {names_of(seen.cut_layers)} has no graph: it runs with gradients switched off."
    places = [f"`{name}` in {layer or 'forward, the loss or the step'}" for name, layer in seen.cuts]
    return f" The graph ends at {names_of(places)}." if places else ""


def frozen_by_evaluation(evidence: Evidence) -> Finding | None:
    """The evaluation leaves parameters frozen that were trained before."""
    names = evidence.model.graph.thawed_no_more
    if not names:
        return None
    return Finding(
        "graph_detached",
        "fail",
        f"After `evaluate`, {len(names)} parameters require no gradient any more ({names_of(names)}).",
        "From the second epoch on the optimizer finds no gradient for them.",
        "with torch.no_grad():  # in evaluate, in place of requires_grad_(False)\n    ...",
        f"model.get_parameter({names[0]!r}).requires_grad is True after the evaluation",
        "03",
        mend=looks_only,
        weight=8,
    )


def hard_decision_in_the_loss(evidence: Evidence) -> Finding | None:
    """The loss depends on the outputs through a decision that has no gradient."""
    seen = evidence.model.graph
    if seen.unexplained < 0.5 or not seen.hard:
        return None
    return Finding(
        "graph_detached",
        "fail",
        f"When the outputs change, {100 * seen.unexplained:.0f} % of the change of the loss is in no gradient: "
        f"loss_fn uses {names_of([f'`{name}`' for name in seen.hard])} of the outputs.",
        "A decision (greater than, round, argmax) is flat nearly everywhere, so its gradient is zero.",
        "probabilities = torch.sigmoid(outputs)  # in the loss, and decide only in the evaluation",
        "the gradient of loss_fn with respect to the outputs points to lower loss",
        "03",
        weight=8,
        explains=("weight_decay_too_high", "loss_scaling", "wrong_loss"),
    )


def changed_behind_autograd(evidence: Evidence) -> Finding | None:
    """Values were changed in place, unseen by autograd, and the gradient is wrong."""
    seen = evidence.model.graph
    if not seen.behind or seen.slope is None or seen.measured_slope is None:
        return None
    if abs(seen.measured_slope - seen.slope) < 0.02 * max(abs(seen.slope), abs(seen.measured_slope), 1e-9):
        return None
    name, layer = seen.behind[0]
    return Finding(
        "inplace_autograd",
        "fail",
        f"`{name}` in {layer or 'the forward of the model'} changes values in the graph, and autograd does not see it: "
        f"along its gradient the loss should rise by {seen.slope:.4g} a unit and rises by {seen.measured_slope:.4g}.",
        "Changes through `.data` or under `no_grad` are not differentiated, and may overwrite what backward needs.",
        "x = x.clamp(...)  # a new tensor: no `.data`, no trailing underscore",
        "torch.autograd.gradcheck agrees in double precision",
        "03",
        weight=8,
        explains=("numeric_instability", "graph_detached"),
    )


RULES = [not_registered, cut, frozen_by_evaluation, hard_decision_in_the_loss, changed_behind_autograd]
