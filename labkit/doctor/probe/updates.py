"""What the optimizers do: what they hold, what they find in the gradients, in which order, and what they move."""

from statistics import median

import torch
import torch.nn as nn
from torch import Tensor

from labkit.doctor.copying import reachable
from labkit.doctor.probe.rates import look_at_rates
from labkit.doctor.probe.updates_evidence import UpdatesEvidence, marks_of, optimizers_of, parameters_of, pieces_of
from labkit.doctor.probe.updates_order import look_at_clipping, look_at_order
from labkit.doctor.probe.updates_waiting import batches_without_a_step
from labkit.doctor.probe.updates_weights import look_at_freezing, look_for_resets
from labkit.doctor.program import Program
from labkit.doctor.records import Recording


def look(program: Program, recording: Recording) -> UpdatesEvidence:
    """Look at the updates of a recording; only schedules are run, and an epoch where no step was seen, on copies."""
    seen = UpdatesEvidence(watched=len(recording.updates), raised=recording.error is not None)
    seen.batches = program.batches()
    _membership(program, recording, seen)
    look_at_order(recording, seen)
    if not seen.raised and seen.backwards and not seen.steps and not seen.thrown_away:
        seen.epoch_without_step = batches_without_a_step(program)
    look_at_clipping(recording, seen)
    look_at_freezing(program, recording, seen)
    own = {id(parameter) for parameter in recording.program.model.parameters()}
    seen.made = sum(
        event.kind == "optimizer made" and any(id(p) in own for p in parameters_of(event.subject))
        for update in recording.updates
        for event in update.events
    )
    seen.sums_losses = adds_up(program, recording)
    seen.stateful = any(
        "momentum_buffer" in s or "exp_avg" in s for o in recording.optimizers for s in o.state.values()
    )
    seen.nodes = [mark.nodes for update in recording.updates for mark in marks_of(update, "backward")][:12]
    seen.live = recording.live
    moves = [value for update in recording.updates for value in update.moved.values() if value > 0]
    seen.moved = median(moves) if moves else 0.0
    look_for_resets(recording, seen)
    seen.along = [mark.along for update in recording.updates for mark in update.marks if mark.kind == "step"]
    seen.rates = look_at_rates(program, recording)
    return seen


def _membership(program: Program, recording: Recording, seen: UpdatesEvidence) -> None:
    copy = recording.program
    held = {id(p): p for one in optimizers_of(program, recording) for p in parameters_of(one)}
    own = {id(p) for p in parameters_of(copy.optimizer)}
    parameters = dict(copy.model.named_parameters())
    seen.optimised = len(own)
    seen.shared = any(id(parameter) in own for parameter in parameters.values())
    with_gradient = {name for update in recording.updates for name, norm in update.gradients.items() if norm}
    seen.missing = [n for n, p in parameters.items() if p.requires_grad and id(p) not in held and n in with_gradient]
    seen.missing_as_made = [
        name for name in seen.missing if looks_as_made(program.model, name, program.model.get_parameter(name))
    ]
    optimised = [number for number, parameter in enumerate(parameters.values()) if id(parameter) in held]
    order = {name: number for number, name in enumerate(parameters)}
    seen.ahead_of_optimised = [name for name in seen.missing if optimised and order[name] > max(optimised)]
    if isinstance(copy.loss_fn, nn.Module):
        seen.missing_in_loss = [
            name for name, p in own_parameters(copy.loss_fn) if id(p) not in held and p.grad is not None
        ]
    belongs = {
        id(p) for thing in reachable(pieces_of(copy)) if isinstance(thing, nn.Module) for p in thing.parameters()
    }
    seen.strangers = sum(1 for key in own if key not in belongs and held[key].grad is None)


def own_parameters(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Return the trainable parameters that a module written by hand declares itself; those of layers are no own ones.

    So the weights of a network that a loss only looks through are not among them.
    """
    return [
        (f"{path}.{name}".lstrip("."), parameter)
        for path, part in module.named_modules()
        if not type(part).__module__.startswith(("torch.", "torchvision."))
        for name, parameter in part.named_parameters(recurse=False)
        if parameter.requires_grad
    ]


def adds_up(program: Program, recording: Recording) -> bool:
    """Say whether the loss of a batch is the sum of the losses of its halves, and so that of a window a sum as well."""
    call = next((call for update in recording.updates for call in update.losses), None)
    try:
        half = len(call.targets) // 2
        parts = [
            program.copy().loss_fn(call.outputs[part], call.targets[part]) for part in (slice(half), slice(half, None))
        ]
        return half > 0 and torch.allclose(sum(parts), call.value, rtol=1e-3)
    except Exception:  # outputs that cannot be cut, or a loss that takes no halves
        return False


def looks_as_made(model: nn.Module, name: str, parameter: Tensor) -> bool:
    """Say whether a weight matrix lies in the bounds of torch's own initialisation, as no trained one does for long.

    Linear and convolution layers start uniform in ±1/√fan_in, recurrent ones in ±1/√hidden_size (torch documentation).
    Of other layers nothing is known: False.
    """
    owner = model.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, nn.RNNBase):
        bound = owner.hidden_size**-0.5
    elif isinstance(owner, nn.Linear | nn.modules.conv._ConvNd) and getattr(owner, "weight", None) is not None:
        bound = owner.weight[0].numel() ** -0.5
    else:
        return False
    return parameter.detach().abs().max().item() <= bound * 1.0001
