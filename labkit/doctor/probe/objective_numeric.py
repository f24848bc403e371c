"""Where NaN and infinity come from: the operation that made the first of them out of finite numbers."""

import contextlib
import math
import re
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from labkit import randomness
from labkit.doctor.nested import leaves, mapped
from labkit.doctor.probe.evaluation_answers import exaggerated, last_layer, only_tensor
from labkit.doctor.probe.evaluation_scores import batch_sizes, rows, size_of
from labkit.doctor.program import Program
from labkit.doctor.records import Recording, Update

MOST_BATCHES, SECONDS = 60, 1.0  # for looking through the training data
MASKS = ("masked_fill", "masked_fill_", "where", "full", "full_like", "triu", "tril")  # put infinity there on purpose
USUAL = 1e4  # outputs beyond this are the result of an explosion, not its cause


@dataclass
class NumericEvidence:
    """Where a loss or a gradient is NaN or infinite, although inputs and weights are finite.

    when: a part of a sentence: in which update, or for which outputs. what: "loss", "gradient" or "outputs". operation:
    the one that made it. parameter: one whose gradient it is. last_batch, last_batch_error: the size of the last batch
    of an epoch, where it is smaller, and what an update with it raises.
    """

    when: str = ""
    what: str = ""
    operation: str = ""
    parameter: str = ""
    last_batch: int | None = None
    last_batch_error: Exception | None = None


class FirstNonFinite(TorchFunctionMode):
    """Remembers the first operation, or the first derivative of one, that makes NaN or infinity."""

    def __init__(self) -> None:
        super().__init__()
        self.operation = ""

    def _after_backward(self, name: str, given: tuple, received: tuple) -> None:
        if not self.operation and _finite(received) and not _finite(given):
            self.operation = "the derivative of " + re.sub(r"Backward\d*$", "", name).lower()

    def __torch_function__(self, function: Any, types: Any, arguments: tuple = (), named: dict | None = None) -> Any:
        result = function(*arguments, **(named or {}))
        name = getattr(function, "__name__", str(function))
        if not isinstance(result, Tensor) or not result.is_floating_point() or name.startswith("__"):
            return result
        value = result.detach()
        if not self.operation and bool(value.isnan().any() if name in MASKS else not value.isfinite().all()):
            self.operation = name
        if result.grad_fn is not None:
            result.grad_fn.register_hook(partial(self._after_backward, result.grad_fn.name()))
        return result


def look_at_numbers(program: Program, recording: Recording) -> NumericEvidence:
    """Look for NaN in the recorded updates, the last batch, all training data, and outputs as large as targets."""
    seen = NumericEvidence()
    for search in (_recorded, _last_batch, _all_data, _as_large_as_targets):
        with contextlib.suppress(Exception):  # whatever the user's pieces raise
            if recording.error is None and not seen.what:
                search(program, recording, seen)
    return seen


def _finite(thing: Any) -> bool:
    tensors = [leaf for leaf in leaves(thing) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


def _largest(update: Update) -> float:
    tensors = [only_tensor(call.outputs) for call in update.losses]
    return max((tensor.abs().max().item() for tensor in tensors if tensor is not None), default=0.0)


def _recorded(program: Program, recording: Recording, seen: NumericEvidence) -> None:
    weights = None
    for number, update in enumerate(recording.updates):
        bad_loss = any(isinstance(c.value, Tensor) and not _finite(c.value) for c in update.losses)
        norms = {name: norm for mark in update.marks for name, norm in mark.norms.items() if norm is not None}
        bad_gradients = [name for name, norm in norms.items() if not math.isfinite(norm)]
        if bad_loss or bad_gradients:
            before = max([_largest(earlier) for earlier in recording.updates[:number]], default=0.0)
            if not before < USUAL or not _finite(update.batch):
                return
            if weights is not None and _has_exploded(program, weights):
                return
            seen.when = f"in update {number + 1}, with finite inputs and weights"
            seen.what = "loss" if bad_loss else "gradient"
            seen.parameter = bad_gradients[0] if bad_gradients and not bad_loss else ""
            copy = program.copy()
            if number == 0 or weights is not None:
                _name_operation(copy, update.batch, seen, weights or {})
            return
        stepped = [mark.weights for mark in update.marks if mark.kind == "stepped" and mark.weights]
        weights = stepped[-1] if stepped else weights


def _has_exploded(program: Program, weights: dict[str, Tensor]) -> bool:
    """Say whether weights have grown far beyond what they were at first: then NaN is a consequence."""
    first = dict(program.model.named_parameters())
    return any(
        not weight.abs().max() < 10 * max(first[name].detach().abs().max().item(), 1.0)
        for name, weight in weights.items()
        if weight.numel() and name in first
    )


def _name_operation(copy: Program, batch: Any, seen: NumericEvidence, weights: dict[str, Tensor]) -> None:
    copy.model.load_state_dict(weights, strict=False)
    copy.model.train()
    mode = FirstNonFinite()
    with contextlib.suppress(Exception), randomness.frozen_randomness(0), mode:  # whatever the user's step raises
        copy.step(batch)
    seen.operation = mode.operation


def _try(program: Program, batch: Any, when: str, seen: NumericEvidence) -> None:
    """Compute loss and gradients of a batch with the first weights; write down if they are not finite."""
    copy = program.copy()
    copy.model.train()
    with randomness.frozen_randomness(0):
        inputs, targets = batch
        loss = copy.loss_fn(copy.model(inputs), targets)
        copy.model.zero_grad()
        loss.backward()
    bad = [name for name, p in copy.model.named_parameters() if p.grad is not None and not _finite(p.grad)]
    if (_finite(loss.detach()) and not bad) or not _finite(batch):
        return
    seen.when, seen.what = when, "gradient" if _finite(loss.detach()) else "loss"
    seen.parameter = bad[0] if bad else ""
    if program.train_step is None:
        _name_operation(program.copy(), batch, seen, {})


def _last_batch(program: Program, recording: Recording, seen: NumericEvidence) -> None:
    """Make an update with as many samples as the last batch of an epoch has."""
    sizes = batch_sizes(program.train_loader)
    if sizes is None or sizes[1] == sizes[0]:
        return
    seen.last_batch = sizes[1]
    if any(size_of(update.batch) == sizes[1] for update in recording.updates):
        return
    batch = rows(recording.updates[0].batch, torch.arange(sizes[1]))
    copy = program.copy()
    copy.model.train()
    try:
        with randomness.frozen_randomness(0):
            copy.step(batch)
    except Exception as error:  # whatever the user's step raises
        seen.last_batch_error = error
        return
    if program.train_step is None:
        _try(program, batch, f"in the last batch of an epoch, which has {sizes[1]} samples", seen)


def _all_data(program: Program, recording: Recording, seen: NumericEvidence) -> None:
    """Look through the training data that the recorded updates have not reached."""
    sizes = batch_sizes(program.train_loader)
    if program.train_step is not None or sizes is None or len(recording.updates) >= sizes[2]:
        return
    begin = time.thread_time()
    copy = program.copy()
    copy.model.train()
    with randomness.frozen_randomness(1):
        for number, batch in enumerate(copy.train_loader):
            inputs, targets = batch
            loss = copy.loss_fn(copy.model(inputs), targets)
            copy.model.zero_grad()
            loss.backward()
            good = all(p.grad is None or _finite(p.grad) for p in copy.model.parameters())
            if not (good and _finite(loss.detach())) and _finite(batch):
                _try(program, batch, f"in batch {number + 1} of an epoch, with the first weights", seen)
                return
            if number + 1 == MOST_BATCHES or time.thread_time() - begin > SECONDS:
                return


def _as_large_as_targets(program: Program, recording: Recording, seen: NumericEvidence) -> None:
    """Let the last layer's outputs grow until they are as large as the targets."""
    calls = [update.losses[0] for update in recording.updates[:8] if update.losses]
    targets = [call.targets for call in calls if isinstance(call.targets, Tensor) and call.targets.is_floating_point()]
    if not targets or targets[0].numel() != only_tensor(calls[0].outputs).numel():
        return
    wanted = max(target.abs().max().item() for target in targets)
    inputs, copy = recording.updates[0].forwards[0].inputs, program.copy()
    copy.model.train()
    with torch.no_grad(), randomness.frozen_randomness(0):
        found = last_layer(copy.model, lambda: copy.model(*inputs))
        largest = only_tensor(copy.model(*inputs)).abs().max().item()
        factor = 1.0
        while found is not None and 0 < largest < wanted and factor < 1e5:
            factor *= 1.5
            hook = exaggerated(found[1], factor)
            outputs = only_tensor(copy.model(*mapped(inputs, Tensor.clone)))
            hook.remove()
            if not _finite(outputs):
                seen.when = f"when the outputs grow from {largest:.3g} towards the targets, which reach {wanted:.3g}"
                seen.what = "outputs"
                mode, hook = FirstNonFinite(), exaggerated(found[1], factor)
                with mode:
                    copy.model(*inputs)
                hook.remove()
                seen.operation = mode.operation
                return
            grown = outputs.abs().max().item()
            if grown <= largest:
                return
            largest = grown
