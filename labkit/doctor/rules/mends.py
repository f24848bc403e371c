"""Mechanical fixes: each changes a Program in place, and nothing outside it."""

import inspect
from collections.abc import Callable
from typing import Any

import torch

from labkit.doctor.nested import leaves, mapped
from labkit.doctor.probe.rates import schedules_of
from labkit.doctor.program import Program


def usual_five_lines(program: Program) -> None:
    """Use the usual update (clear, forward, backward, step) instead of the program's own."""
    program.train_step = None


def optimizer_over_the_model(program: Program) -> None:
    """Make an optimizer of the same kind and settings over all trainable parameters of the model."""
    old = program.optimizer
    known = inspect.signature(type(old)).parameters  # AdamW's groups also hold a setting that it does not take
    settings = {name: value for name, value in old.param_groups[0].items() if name in old.defaults and name in known}
    trainable = [parameter for parameter in program.model.parameters() if parameter.requires_grad]
    program.optimizer = type(old)(trainable, **settings)
    if program.scheduler is not None and getattr(program.scheduler, "optimizer", None) is old:
        program.scheduler.optimizer = program.optimizer


def optimizer_over_the_loss_too(program: Program) -> None:
    """Give the optimizer the trainable parameters of the loss that it does not have, with its own settings."""
    held = {id(parameter) for group in program.optimizer.param_groups for parameter in group["params"]}
    missing = [p for p in program.loss_fn.parameters() if p.requires_grad and id(p) not in held]
    program.optimizer.add_param_group({"params": missing})


def learning_rate_times(factor: float) -> Callable[[Program], None]:
    """Return a fix that multiplies every learning rate, in the optimizer and in what the schedule starts from."""

    def mend(program: Program) -> None:
        for group in program.optimizer.param_groups:
            for name in ("lr", "initial_lr", "max_lr", "min_lr"):
                if name in group:
                    group[name] = group[name] * factor
        scheduler: Any = program.scheduler
        if hasattr(scheduler, "base_lrs"):
            scheduler.base_lrs = [rate * factor for rate in scheduler.base_lrs]

    return mend


def rate_at_steps_times(factor: float) -> Callable[[Program], None]:
    """Return a fix that multiplies the learning rate while a step is made, whoever has set it before."""

    def mend(program: Program) -> None:
        def scale(optimizer: torch.optim.Optimizer, by: float) -> None:
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * by

        program.optimizer.register_step_pre_hook(lambda optimizer, *_: scale(optimizer, factor))
        program.optimizer.register_step_post_hook(lambda optimizer, *_: scale(optimizer, 1 / factor))

    return mend


def without_decay(program: Program) -> None:
    """Set every weight decay to 0."""
    for group in program.optimizer.param_groups:
        if "weight_decay" in group:
            group["weight_decay"] = 0.0


def constant_rate(program: Program) -> None:
    """Keep the learning rate that the schedule starts from, or rises to: its steps do nothing."""
    for schedule in schedules_of(program):
        schedule.step = lambda *_, **__: None
        for group in schedule.optimizer.param_groups:
            group["lr"] = max(group.get("max_lr", 0.0), group.get("initial_lr", group["lr"]))


def schedule_of_the_optimizer(program: Program) -> None:
    """Let the schedule move the rates of the optimizer that trains."""
    schedule = program.scheduler
    for group, rate in zip(program.optimizer.param_groups, schedule.base_lrs, strict=False):
        group["initial_lr"] = group["lr"] = rate
    schedule.optimizer = program.optimizer


def with_loss(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Program], None]:
    """Return a fix that changes the model's outputs before loss_fn sees them."""

    def mend(program: Program) -> None:
        loss_fn = program.loss_fn
        program.loss_fn = lambda outputs, targets: loss_fn(change(outputs), targets)

    return mend


class Changed:
    """A loss that calls another one, with something changed; a class, so that a Program with it can be copied."""

    def __init__(self, loss_fn: Callable, change: Callable):
        self.loss_fn, self.change = loss_fn, change

    def __call__(self, outputs: Any, targets: Any) -> torch.Tensor:
        """Return the changed loss."""
        return self.change(self.loss_fn, outputs, targets)


def with_loss_fn(change: Callable) -> Callable[[Program], None]:
    """Return a fix that computes the loss by `change(loss_fn, outputs, targets)`."""

    def mend(program: Program) -> None:
        program.loss_fn = Changed(program.loss_fn, change)

    return mend


def scaled_loss(factor: float) -> Callable[[Program], None]:
    """Return a fix that multiplies the loss."""
    return with_loss_fn(lambda loss_fn, outputs, targets: factor * loss_fn(outputs, targets))


def first_output_only(program: Program) -> None:
    """Let nothing but the first of several outputs count: the others become zeros."""

    def change(loss_fn: Callable, outputs: Any, targets: Any) -> torch.Tensor:
        if isinstance(outputs, tuple | list) and type(outputs) in (tuple, list):
            outputs = type(outputs)([outputs[0], *(0 * part for part in outputs[1:])])
        return loss_fn(outputs, targets)

    program.loss_fn = Changed(program.loss_fn, change)


def without_penalty(program: Program) -> None:
    """Let the loss act on the weights through the outputs only: what loss_fn adds for their size teaches nothing."""
    program.loss_fn = Changed(program.loss_fn, _through_the_outputs)


def _through_the_outputs(loss_fn: Callable, outputs: Any, targets: Any) -> torch.Tensor:
    ends = [leaf for leaf in leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not ends or not torch.is_grad_enabled():
        return loss_fn(outputs, targets)
    cut = mapped(outputs, lambda tensor: tensor.detach().requires_grad_(tensor.requires_grad))
    begins = [leaf for leaf in leaves(cut) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    value = loss_fn(cut, targets)
    slopes = torch.autograd.grad(value, begins, allow_unused=True)
    linear = sum((end * slope).sum() for end, slope in zip(ends, slopes, strict=True) if slope is not None)
    return value.detach() + linear - linear.detach()


def usual_step_without_penalty(program: Program) -> None:
    """Use the usual five lines, with a loss that acts through the outputs only."""
    usual_five_lines(program)
    without_penalty(program)


def with_outputs(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Program], None]:
    """Return a fix that changes the model's outputs for everybody, loss and evaluation."""

    def mend(program: Program) -> None:
        program.model.register_forward_hook(lambda _, __, outputs: mapped(outputs, change))

    return mend


def logarithm(shares: torch.Tensor) -> torch.Tensor:
    """Return what a softmax turns into these shares: the loss gets what it takes the softmax of."""
    return shares.clamp(min=1e-12).log()


def logit(shares: torch.Tensor) -> torch.Tensor:
    """Return what a sigmoid turns into these shares."""
    return torch.logit(shares, eps=1e-6)
