"""Mechanical fixes of an evaluation, of what it keeps, and of the schedule that its score moves."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from labkit.doctor.copying import copied
from labkit.doctor.nested import leaves
from labkit.doctor.program import Program, accuracy
from labkit.doctor.rules.model_mends import with_functions
from labkit.doctor.rules.update_mends import replaced

Mend = Callable[[Program], None]


def looks_only(program: Program) -> None:
    """Evaluate in evaluation mode, and leave weights, statistics, modes and requires_grad as they were before."""
    evaluate = program.evaluate or accuracy

    def looking(model: nn.Module, loader: Any) -> Any:
        modes = [(module, module.training) for module in model.modules()]
        trained = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
        state = {name: value.clone() for name, value in model.state_dict().items()}
        model.eval()
        try:
            return evaluate(model, loader)
        finally:
            with torch.no_grad():
                for name, value in model.state_dict().items():
                    value.copy_(state[name])
            for parameter, requires_grad in trained:
                parameter.requires_grad_(requires_grad)
            for module, training in modes:
                module.training = training

    program.evaluate = looking


def dropout_by_mode(program: Program) -> None:
    """Let functional dropout in the model act in training mode only."""
    model = program.model

    def by_mode(function: Callable, args: tuple, kwargs: dict) -> Any:
        return function(*args[:2], **kwargs | {"training": True}) if model.training else args[0]

    with_functions({"dropout", "alpha_dropout", "dropout1d", "dropout2d", "dropout3d"}, by_mode)(program)


def starts_afresh(program: Program) -> None:
    """Let every evaluation begin with what its function remembered before the first one."""
    first = program.evaluate

    def afresh(model: nn.Module, loader: Any) -> Any:
        return copied({"evaluate": first})["evaluate"](model, loader)

    program.evaluate = afresh


def right_answers(program: Program) -> None:
    """Score by the share of right answers, all samples alike; where there are no classes, by minus the mean loss."""
    program.evaluate = partial(_score, loss_fn=program.loss_fn)


def _score(model: nn.Module, loader: Any, loss_fn: Callable) -> float:
    model.eval()
    total = count = 0.0
    with torch.no_grad():
        for inputs, targets in loader:
            outputs = model(inputs)
            samples = len(next(leaf for leaf in leaves(targets) if isinstance(leaf, Tensor)))
            right = _right(outputs, targets)
            score = -float(loss_fn(outputs, targets)) if right is None else right.float().mean().item()
            total, count = total + samples * score, count + samples
    return total / max(count, 1)


def _right(outputs: Any, targets: Any) -> Tensor | None:
    """Return which answers are right, None if the targets are no classes."""
    if not isinstance(outputs, Tensor) or not isinstance(targets, Tensor):
        return None
    if not targets.is_floating_point() and outputs.dim() == targets.dim() + 1:
        return outputs.argmax(1) == targets
    if outputs.shape == targets.shape and bool(((targets == 0) | (targets == 1)).all()):
        shares = bool(((outputs >= 0) & (outputs <= 1)).all())
        return (outputs > (0.5 if shares else 0.0)) == targets.bool()
    return None


def keeps_copies(program: Program) -> None:
    """After every update and evaluation, give whatever was kept of the model's tensors a memory of its own."""

    def after(function: Callable) -> Callable:
        def keeping(model: nn.Module, *others: Any) -> Any:
            result = function(model, *others)
            _copy_what_is_kept(function, model)
            return result

        return keeping

    program.evaluate = after(program.evaluate or accuracy)
    if program.train_step is not None:
        program.train_step = after(program.train_step)


def _copy_what_is_kept(function: Callable, model: nn.Module) -> None:
    own = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    memory = {tensor.data_ptr() for tensor in model.state_dict().values() if tensor.numel()}
    replaced(
        function,
        wanted=lambda tensor: id(tensor) not in own and tensor.data_ptr() in memory and tensor.numel() > 0,
        change=lambda tensor: tensor.detach().clone(),
    )


def plateau_waits_for(mode: str) -> Mend:
    """Return a fix that lets ReduceLROnPlateau take a rising ("max") or falling ("min") score for progress."""

    def mend(program: Program) -> None:
        old: ReduceLROnPlateau = program.scheduler
        old._init_is_better(mode, old.threshold, old.threshold_mode)
        old._reset()

    return mend
