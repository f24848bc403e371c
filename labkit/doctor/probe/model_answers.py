"""What the answer of the model depends on besides its input: chance, earlier inputs, other samples, the order."""

from collections import Counter
from dataclasses import dataclass, field

import torch
import torch.nn as nn
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import DataLoader

from labkit.doctor.nested import leaves, mapped
from labkit.doctor.probe.model_axes import Turn, turn_of
from labkit.doctor.probe.model_layers import DROPOUTS
from labkit.doctor.probe.model_runs import answer, difference, fresh, recorded_inputs, rows, samples
from labkit.doctor.probe.model_trace import RESHAPES, Operation, option, traced
from labkit.doctor.program import Program
from labkit.doctor.records import Recording

SPREADS = {"std", "var", "std_mean", "var_mean"}
SAMPLES = 7  # a number that hardly any other axis has


@dataclass
class AnswersEvidence:
    """What was seen of the model's answers in evaluation mode; differences in units of the answers' spread.

    by_chance: the same input twice, other random numbers. dropouts: layers whose dropout was active then. several:
    whether the evaluation asks for the same input several times. own_mode: classes with a `train` of their own.
    by_history: the same input after another one, and fresh. by_neighbours: the same samples in another company.
    batch_statistics: layers that normalise with the batch in evaluation mode. mixed: reshapes that mix axes as (layer,
    the turn that they seem to mean). affine: how far f(a) + f(b) - f(c) is from f(a + b - c). layers: weight layers
    that were called. orderless: whether swapping steps of the input changes nothing. steps: length of the sequence.
    outputs: the shape of the first answer.
    """

    by_chance: float | None = None
    dropouts: list[str] = field(default_factory=list)
    several: bool = False
    own_mode: bool = False
    by_history: float | None = None
    by_neighbours: float | None = None
    batch_statistics: list[str] = field(default_factory=list)
    mixed: list[tuple[str, Turn]] = field(default_factory=list)
    affine: float | None = None
    layers: list[str] = field(default_factory=list)
    orderless: float | None = None
    steps: int | None = None
    outputs: tuple = ()


def look_at_answers(program: Program, recording: Recording) -> AnswersEvidence:
    """Ask copies of the model, in evaluation mode, for the same in different circumstances."""
    seen = AnswersEvidence()
    inputs = recorded_inputs(recording)
    seen.own_mode = any(type(m).train is not nn.Module.train for m in program.model.modules())
    seen.several = _asks_several_times(recording)
    if not inputs:
        return seen
    try:
        _chance_and_history(program, inputs, seen)
        if samples(inputs[0]) and samples(inputs[0]) > 1:
            if _samples_come_first(program, recording):
                _company(program, inputs[0], seen)
            _shape_of_the_function(program, inputs[0], seen)
    except Exception:  # a model that cannot be called alone is not examined further
        return seen
    return seen


def _samples_come_first(program: Program, recording: Recording) -> bool:
    """Say whether it is known that samples lie along the first axis.

    A DataLoader stacks them so. Batches made in another way may begin with time, if inputs and targets have both axes.
    """
    if isinstance(program.train_loader, DataLoader):
        return True
    shapes = [tuple(leaf.shape[:2]) for leaf in leaves(recording.updates[0].batch) if isinstance(leaf, Tensor)]
    return any(len(shape) < 2 for shape in shapes) or len(set(shapes)) > 1


def _asks_several_times(recording: Recording) -> bool:
    """Say whether one evaluation asks the model for the same input again and again (two are recorded)."""
    calls = recording.evaluation_forwards
    prints = Counter(
        tuple(leaf.double().sum().item() for leaf in leaves(c.inputs) if isinstance(leaf, Tensor)) for c in calls
    )
    return bool(prints) and min(prints.values()) > 2


def _chance_and_history(program: Program, inputs: list[tuple], seen: AnswersEvidence) -> None:
    model = fresh(program).eval()
    with traced(model, DROPOUTS) as trace:
        first = answer(model, inputs[0], seed=0)
    seen.outputs = tuple(first[0].shape) if first else ()
    seen.dropouts = [o.layer for o in trace.operations if option(o, "training", 2, True) and option(o, "p", 1, 0.5) > 0]
    again = answer(model, inputs[0], seed=0)
    other_seed = answer(fresh(program).eval(), inputs[0], seed=1)
    seen.by_chance = difference(first, other_seed)
    seen.by_history = difference(first, again)
    if len(inputs) > 1 and not seen.by_history and samples(inputs[0]) == samples(inputs[1]):
        alone = fresh(program).eval()
        seen.by_history = difference(answer(model, inputs[1]), answer(alone, inputs[1]))
        if seen.by_history and not difference(first, answer(alone, inputs[0])):
            seen.by_history = None  # a series in pieces: the model forgets where the first one begins


def _company(program: Program, inputs: tuple, seen: AnswersEvidence) -> None:
    """Ask for some samples in another order and with the last of them missing."""
    model = fresh(program).eval()
    seen.batch_statistics = [
        name for name, m in model.named_modules() if isinstance(m, _BatchNorm) and m.running_mean is None
    ]
    count = min(SAMPLES, samples(inputs))
    if count < 3 or seen.by_chance or seen.by_history:
        return
    few = rows(inputs, slice(0, count))
    with traced(model, SPREADS) as trace:
        together = answer(model, few)
    seen.batch_statistics += [operation.layer for operation in trace.operations if _over_the_batch(operation)]
    axes = [_batch_axis(output, count) for output in together]
    if not together or None in axes:
        whole = answer(model, inputs)
        fits = bool(whole) and all(out.dim() and len(out) == samples(inputs) for out in whole)
        seen.by_neighbours = float("inf") if fits and samples(inputs) != count else None
        return
    order = torch.arange(count - 1, -1, -1)
    turned = [out.flip(axis) for out, axis in zip(answer(model, rows(few, order)), axes, strict=True)]
    fewer = answer(model, rows(few, slice(0, count - 1)))
    if any(
        out.shape[:2] == (count, count) and less.shape[:2] == (count - 1,) * 2
        for out, less in zip(together, fewer, strict=True)
    ):
        return  # a table of every sample with every other, as contrastive losses ask for
    kept = [out.narrow(axis, 0, count - 1) for out, axis in zip(together, axes, strict=True)]
    seen.by_neighbours = max(difference(together, turned), difference(kept, fewer))


def _over_the_batch(operation: Operation) -> bool:
    """Say whether a spread is taken over the batch: a batch normalisation that somebody wrote by hand."""
    axes = option(operation, "dim", 1, None)
    axes = axes if isinstance(axes, tuple | list) else (axes,)
    return operation.given is not None and operation.given.dim() > 1 and bool({0, -operation.given.dim()} & set(axes))


def _batch_axis(output: Tensor, count: int) -> int | None:
    """Return the axis of the batch: the first of this length among the first two, as sequences may begin with time."""
    return next((axis for axis, size in enumerate(output.shape[:2]) if size == count), None)


def _shape_of_the_function(program: Program, inputs: tuple, seen: AnswersEvidence) -> None:
    model = fresh(program).eval()
    few = rows(inputs, slice(0, min(SAMPLES, samples(inputs))))
    called: list[str] = []
    hooks = [
        module.register_forward_hook(lambda *_, name=name: called.append(name))
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | nn.modules.conv._ConvNd | nn.RNNBase)
    ]
    with traced(model, RESHAPES) as trace:
        answer(model, few)
    for hook in hooks:
        hook.remove()
    seen.layers = list(dict.fromkeys(called))
    seen.mixed = [(o.layer, turn) for o in trace.operations if o.name in RESHAPES and (turn := _turn(o))]
    tensors = [leaf for leaf in leaves(few) if isinstance(leaf, Tensor)]
    if len(tensors) == 1 and not seen.by_chance and not seen.by_history:
        _affinity(model, few, seen)
        _order_of_steps(model, few, tensors[0], seen)


def _turn(operation: Operation) -> Turn | None:
    """Return the turn that a reshape seems to mean, if it mixes axes."""
    if operation.given is None or not isinstance(operation.output, Tensor):
        return None
    return turn_of(tuple(operation.given.shape), tuple(operation.output.shape))


def _affinity(model: nn.Module, few: tuple, seen: AnswersEvidence) -> None:
    """Measure how far the model is from f(a + b - c) = f(a) + f(b) - f(c)."""
    if not all(leaf.is_floating_point() for leaf in leaves(few)):
        return
    model = model.double()
    a = mapped(few, lambda tensor: tensor.double())
    b = mapped(a, lambda tensor: 3 * tensor.flip(0))
    c = mapped(a, lambda tensor: tensor.roll(1, 0))
    joined = mapped(a, lambda tensor: tensor + 3 * tensor.flip(0) - tensor.roll(1, 0))
    one, two, three, all_three = (answer(model, each) for each in (a, b, c, joined))
    model.float()
    if len(one) == 1 and one[0].is_floating_point():
        change = (one[0] - two[0]).abs().max()
        missed = (one[0] + two[0] - three[0] - all_three[0]).abs().max()
        seen.affine = (missed / change).item() if change > 0 else None


def _order_of_steps(model: nn.Module, few: tuple, tensor: Tensor, seen: AnswersEvidence) -> None:
    """Turn the order of a sequence around: of words (integers), or of vectors."""
    words = tensor.dim() == 2 and not tensor.is_floating_point()
    if not words and tensor.dim() != 3:
        return
    seen.steps = tensor.shape[1]
    before = answer(model, few)
    if all((output - output[:1]).abs().max() < 1e-6 for output in before):
        return  # a head that begins with zeros gives every sample the same
    after = answer(model, mapped(few, lambda each: each[:, torch.randperm(each.shape[1])]))
    seen.orderless = difference(before, after)
