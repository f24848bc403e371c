"""What is wrong with the updates: which parameters, in which order, with which gradients."""

from itertools import pairwise

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules import rates, updates_membership, updates_weights
from labkit.doctor.rules.mends import usual_five_lines
from labkit.doctor.rules.update_mends import (
    cleared_before_each_update,
    clipped_at_the_step,
    gradients_times,
    without_old_graphs,
)
from labkit.doctor.rules.words import names_of


def no_step(evidence: Evidence) -> Finding | None:
    """Gradients are made, and the optimizer never uses them."""
    seen = evidence.updates
    if seen.raised or not seen.backwards or seen.watched < 2:
        return None
    waited = seen.epoch_without_step
    if not seen.steps and not seen.thrown_away and not waited and seen.backwards < max(seen.batches or 0, 10):
        return None  # a long window of accumulation may still be open
    if seen.own_steps and not (seen.thrown_away >= 2 and seen.thrown_away > seen.steps):
        return None
    if seen.steps and not seen.own_steps and seen.made:
        return None
    what = f"{max(seen.backwards, waited)} backward passes, {seen.own_steps} steps of this optimizer"
    cleared = f"; {seen.thrown_away} times the gradients were cleared before any step" if seen.thrown_away else ""
    return Finding(
        "step_missing",
        "fail",
        f"{what}{cleared}.",
        "Only `optimizer.step()` changes weights; a gradient that is cleared before it is lost.",
        "loss.backward()\noptimizer.step()  # in every update, after backward",
        "the weights differ before and after one call of train_step",
        "05",
        mend=usual_five_lines,
        weight=8,
        explains=("lr_too_low", "vanishing_gradient", "zero_grad_misplaced", "scheduler_misuse"),
    )


def cleared_before_the_step(evidence: Evidence) -> Finding | None:
    """The step finds gradients that were cleared after backward."""
    seen = evidence.updates
    if seen.emptied < 2 or not seen.shared or seen.moved:
        return None
    return Finding(
        "zero_grad_misplaced",
        "fail",
        f"At {seen.emptied} of {seen.steps} steps every gradient was zero or None, although backward had just run.",
        "`zero_grad` between `backward` and `step` throws away what the step should use.",
        "optimizer.zero_grad()\nloss.backward()\noptimizer.step()",
        "a gradient is not zero when `optimizer.step()` is called",
        "05",
        mend=usual_five_lines,
        weight=10,
        explains=("lr_too_low", "vanishing_gradient", "graph_detached"),
    )


def never_cleared(evidence: Evidence) -> Finding | None:
    """A step uses gradients that an earlier step has used already."""
    seen = evidence.updates
    if seen.kept < 2:
        return None
    return Finding(
        "zero_grad_misplaced",
        "fail",
        f"At {seen.kept} of {seen.steps} steps the gradient still held what the step before had used "
        f"({names_of(seen.kept_names)}).",
        "`backward` adds to `.grad`; without clearing, each step repeats all earlier ones.",
        "optimizer.zero_grad()  # once before the backward passes of every step",
        "every gradient is zero or None when the first backward after a step begins",
        "05",
        mend=cleared_before_each_update,
        instead=((usual_five_lines, ""),),
        weight=7,
        explains=("lr_too_high", "grad_accumulation_scale", "numeric_instability", "clip_misplaced"),
    )


def changed_after_the_step(evidence: Evidence) -> Finding | None:
    """Gradients are clipped (or changed in another way) at a moment when it has no effect."""
    seen = evidence.updates
    if seen.changed_after >= 2:
        what = f"After {seen.changed_after} of {seen.steps} steps the gradients were changed, and then not used."
    elif seen.clips_after_step >= 2:
        what = (
            f"{seen.clips_after_step} of {seen.clips} times gradients were clipped after the step that they were for."
        )
    elif seen.clips_before_backward >= 2:
        what = (
            f"{seen.clips_before_backward} of {seen.clips} times gradients were clipped before backward had made them."
        )
    elif seen.unscaled_late >= 2:
        what = f"{seen.unscaled_late} of {seen.clips} times gradients were clipped with the scaler's factor in them."
    elif seen.clips_of_others >= 2:
        what = f"{seen.clips_of_others} of {seen.clips} times parameters were clipped of which none has a gradient."
    else:
        return None
    return Finding(
        "clip_misplaced",
        "fail",
        what,
        "Clipping acts on `.grad` when it is called: it must stand after backward (and unscale) and before step.",
        "loss.backward()\ntorch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)\noptimizer.step()",
        "the norm of the gradients at `optimizer.step()` is at most max_norm",
        "05",
        mend=clipped_at_the_step,
        weight=6,
        explains=("lr_too_high",),
    )


def clipped_in_part(evidence: Evidence) -> Finding | None:
    """Only some of the gradients are clipped, and clipping all of them does better."""
    parts = evidence.updates.clipped_in_part
    if len(parts) < 2:
        return None
    clipped, there, limit = parts[0]
    return Finding(
        "clip_misplaced",
        "warn",
        f"Only {clipped} of the {there} gradients that a step uses are clipped (to a norm of {limit:g}).",
        "The gradients that are left out stay as long as they are, and one long step is enough to ruin the weights.",
        f"torch.nn.utils.clip_grad_norm_(model.parameters(), {limit:g})",
        f"the norm of all gradients together at `optimizer.step()` is at most {limit:g}",
        "05",
        mend=clipped_at_the_step,
        confirm=True,
        weight=4,
        explains=("lr_too_high", "numeric_instability", "model_too_weak"),
    )


def wrong_scale_of_a_window(evidence: Evidence) -> Finding | None:
    """Several backward passes for one step weigh more, or less, than one mean."""
    seen = evidence.updates
    complete = [(n, w) for n, w in zip(seen.windows, seen.weights, strict=True) if n > 1 and w is not None]
    if len(complete) < 1 or seen.kept >= 2:
        return None
    length, weight = max(complete)
    if 0.6 < weight < 1.5 or (seen.sums_losses and weight > 1):
        return None
    return Finding(
        "grad_accumulation_scale",
        "fail",
        f"{length} backward passes make one step, and together they weigh {weight:.3g} times one mean loss.",
        "A sum of gradients acts as a learning rate so many times larger; divide each loss by the size of the window.",
        f"(loss / {length}).backward()",
        "the gradient of a window equals that of one large batch",
        "05",
        mend=gradients_times(1 / weight) if weight else None,
        weight=5,
        explains=("lr_too_high", "lr_too_low", "loss_scaling"),
    )


def optimizer_made_again(evidence: Evidence) -> Finding | None:
    """An optimizer is made inside the updates, so that its state is lost."""
    seen = evidence.updates
    if seen.made >= 2:
        what = f"{seen.made} optimizers were made during {seen.watched} updates."
    elif seen.forgotten >= 2:
        what = (
            f"At {seen.forgotten} of {seen.steps} steps the optimizer's state was empty, although it had been filled."
        )
    else:
        return None
    return Finding(
        "optimizer_recreated",
        "fail",
        what,
        "Momentum and the averages of Adam live in the optimizer: a new one starts from nothing.",
        "optimizer = torch.optim.Adam(model.parameters(), lr=...)  # once, before the loop",
        "optimizer.state keeps its entries from one update to the next",
        "05",
        mend=usual_five_lines,
        weight=7,
        explains=("param_not_optimised", "step_missing", "lr_too_high"),
    )


def graph_kept(evidence: Evidence) -> Finding | None:
    """Graphs of earlier updates stay alive."""
    seen = evidence.updates
    grows = len(seen.nodes) >= 5 and all(
        later > earlier for earlier, later in zip(seen.nodes, seen.nodes[1:], strict=False)
    )
    piles = len(seen.live) >= 4 and all(later > earlier for earlier, later in pairwise(seen.live[-4:]))
    if not grows and not piles:
        return None
    if grows:
        what = f"The graph behind the loss grew from {seen.nodes[0]} to {seen.nodes[-1]} operations."
    else:
        what = f"After {seen.watched} updates the graphs of {seen.live[-1]} of them are still kept."
    return Finding(
        "graph_retained",
        "fail",
        what,
        "Whoever keeps a tensor with a graph keeps every activation behind it: memory grows until it ends.",
        "total += loss.item()  # numbers, not tensors with a graph\nhidden = hidden.detach()  # before the next batch",
        "the memory in use is the same after update 2 and after update 200",
        "05",
        mend=without_old_graphs,
        weight=5,
    )


RULES = [
    *updates_membership.RULES,
    no_step,
    cleared_before_the_step,
    never_cleared,
    changed_after_the_step,
    clipped_in_part,
    wrong_scale_of_a_window,
    optimizer_made_again,
    graph_kept,
    *updates_weights.RULES,
    *rates.RULES,
]
