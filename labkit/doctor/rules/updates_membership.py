"""What no optimizer has, although it gets a gradient: parameters of the model, and of the loss."""

from labkit.doctor.evidence import Evidence
from labkit.doctor.finding import Finding
from labkit.doctor.rules.mends import optimizer_over_the_loss_too, optimizer_over_the_model
from labkit.doctor.rules.words import names_of


def not_in_the_optimizer(evidence: Evidence) -> Finding | None:
    """Trainable parameters get a gradient, and no optimizer holds them."""
    seen = evidence.updates
    replaced = not seen.shared or seen.strangers
    forgotten = seen.missing if replaced else sorted({*seen.ahead_of_optimised, *seen.missing_as_made})
    if not forgotten or not seen.steps:
        return None
    strangers = f" It holds {seen.strangers} tensors that no part of the program uses." if seen.strangers else ""
    return Finding(
        "param_not_optimised",
        "fail",
        f"{len(forgotten)} parameters get a gradient and no optimizer has them: {names_of(forgotten)}.{strangers}",
        "An optimizer moves the tensors that it was given; when a layer is replaced later, it keeps the old ones.",
        "optimizer = torch.optim.Adam(model.parameters(), lr=...)  # after the model is complete",
        "all(any(p is q for g in optimizer.param_groups for q in g['params']) for p in model.parameters())",
        "04",
        mend=optimizer_over_the_model,
        weight=9,
        explains=("bad_init", "lr_too_low", "model_too_weak", "vanishing_gradient", "dead_units", "step_missing"),
    )


def loss_not_in_the_optimizer(evidence: Evidence) -> Finding | None:
    """The loss has parameters of its own, which get a gradient, and no optimizer holds them."""
    names = evidence.updates.missing_in_loss
    if not names or not evidence.updates.steps:
        return None
    return Finding(
        "param_not_optimised",
        "warn",
        f"{names_of(names)} of loss_fn get a gradient, and no optimizer has them.",
        "model.parameters() does not know of the parameters of a loss: they stay what they were at the start.",
        "optimizer = torch.optim.Adam([*model.parameters(), *loss_fn.parameters()], lr=...)",
        f"loss_fn.get_parameter({names[0]!r}) changes in an update",
        "04",
        mend=optimizer_over_the_loss_too,
        confirm=True,
        weight=7,
    )


RULES = [not_in_the_optimizer, loss_not_in_the_optimizer]
