"""What loss_fn does, found out by calling it: on shifted, right, wrong, permuted and doubled outputs and targets."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from labkit.doctor.nested import leaves, mapped
from labkit.doctor.probe.evaluation_answers import known_answer, without
from labkit.doctor.records import LossCall

FAR = 1_000.0  # outputs that are so large are certain of what they say


@dataclass
class LossEvidence:
    """What loss_fn does with the outputs and targets of one recorded call.

    outputs, targets: their shapes. values: some of the different values of the targets, in order. shift: dimension
    along which a constant may be added to the outputs, as inside a softmax. logistic: whether each output is a logit
    of a yes-or-no answer. regression: whether outputs equal to the targets are best. linear: whether the loss is minus
    the outputs of the right classes, as NLLLoss. constant: whether it is the same for whatever outputs. falls: how low
    it gets for outputs of size 1000, None if it does not go on falling. right, wrong: for outputs of a model that is
    always right or wrong. several: share of samples whose targets mark none or more than one class. unpaired: whether
    it stays the same when the targets are given to other samples; unpaired_column: a column of the targets for which
    that is so. doubled: what the loss of a batch is multiplied with when every sample comes twice. breaks_at: how large
    outputs must be for the loss to become NaN or infinite. never: whether "no" for everything is the best answer among
    those that are the same for everything, although some targets are "yes". task, penalty: the loss without the
    additional outputs, and what these add. dtype: of the targets. unlabelled: whether it is the same for whatever
    targets, as a loss that compares two views of one sample.
    """

    outputs: tuple[int, ...] = ()
    targets: tuple[int, ...] = ()
    dtype: str = ""
    value: float | None = None
    values: list[float] | None = None
    shift: int | None = None
    logistic: bool = False
    regression: bool = False
    linear: bool = False
    constant: bool = False
    falls: float | None = None
    right: float | None = None
    wrong: float | None = None
    several: float | None = None
    unpaired: bool = False
    unpaired_column: int | None = None
    unlabelled: bool = False
    doubled: float | None = None
    breaks_at: float | None = None
    never: bool = False
    penalty: float | None = None
    task: float | None = None


class View:
    """loss_fn with one recorded call: what it gives for other outputs or other targets.

    If the model returns several tensors, `outputs` is the first, and the others stay as they were. Raises ValueError
    if there is no tensor of outputs, or none of targets.
    """

    def __init__(self, loss_fn: Callable, call: LossCall):
        self.loss_fn = loss_fn
        self.all_outputs = call.outputs
        tensors = [leaf for leaf in leaves(call.outputs) if isinstance(leaf, Tensor) and leaf.is_floating_point()]
        if not tensors or not isinstance(call.targets, Tensor) or tensors[0].dim() == 0:
            raise ValueError("no single tensors")
        self.outputs, self.others, self.targets = tensors[0], tensors[1:], call.targets

    def tensor(self, outputs: Tensor | None = None, targets: Tensor | None = None, others: float = 1.0) -> Tensor:
        """Return the loss; `others` multiplies the other outputs."""
        first = self.outputs if outputs is None else outputs

        def put(leaf: Tensor) -> Tensor:
            if leaf is self.outputs:
                return first
            return leaf * others if leaf.is_floating_point() else leaf

        torch.manual_seed(0)
        return self.loss_fn(mapped(self.all_outputs, put), self.targets if targets is None else targets)

    def __call__(self, outputs: Tensor | None = None, targets: Tensor | None = None, others: float = 1.0) -> float:
        """Return the loss as a number; NaN where it cannot be computed."""
        with torch.no_grad(), contextlib.suppress(Exception):  # whatever the user's loss raises
            value = self.tensor(outputs, targets, others)
            return float(value.sum() if isinstance(value, Tensor) and value.numel() == 1 else value)
        return float("nan")

    def gradient(self, outputs: Tensor | None = None, targets: Tensor | None = None) -> Tensor:
        """Return the gradient of the loss with respect to the outputs."""
        at = (self.outputs if outputs is None else outputs).detach().clone().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(self.tensor(at, targets), at)[0]


def look_at_loss(view: View) -> LossEvidence:
    """Call the loss with other outputs and targets; what cannot be computed stays as it is."""
    seen = LossEvidence(tuple(view.outputs.shape), tuple(view.targets.shape), str(view.targets.dtype))
    seen.value = view()
    seen.values = view.targets.unique()[:20].tolist()
    seen.unlabelled = seen.value == view(targets=view.targets.flip(0)) == view(targets=torch.ones_like(view.targets))
    for experiment in (_behaviour, _answers, _falls, _pairing, _size, _large, _never, _penalty):
        with contextlib.suppress(Exception):  # whatever cannot be done with these shapes
            experiment(view, seen)
    return seen


def same(one: float, other: float, tolerance: float = 1e-5) -> bool:
    """Say whether two losses are equal, up to rounding."""
    return abs(one - other) <= tolerance * max(1.0, abs(one), abs(other))


def _noise(tensor: Tensor, seed: int = 1) -> Tensor:
    return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed)).to(tensor)


def _behaviour(view: View, seen: LossEvidence) -> None:
    outputs, targets = view.outputs, view.targets
    noisy = view(outputs + _noise(outputs))
    seen.constant = seen.value == noisy == view(-3 * outputs + _noise(outputs, 2))
    for dimension in {1 % outputs.dim(), outputs.dim() - 1} - {0} if not seen.constant else ():
        if outputs.shape[dimension] < 2:
            continue
        each = _noise(outputs.select(dimension, 0).unsqueeze(dimension)) * 3
        at = outputs + _noise(outputs, 4)
        if same(view(at + each), view(at), 1e-4):
            seen.shift = dimension
        classes = without(outputs, dimension) == targets.shape and not targets.is_floating_point()
        steps = [view(outputs + step) for step in (0.0, 1.0, 2.0)]
        sizes = [view(outputs * factor) for factor in (1.0, 2.0, 3.0)]
        falling = same(steps[2] - steps[1], steps[1] - steps[0], 1e-3) and steps[1] < steps[0] - 1e-3
        seen.linear = classes and falling and same(sizes[2] - sizes[1], sizes[1] - sizes[0], 1e-3)
    if targets.numel() != outputs.numel():
        return
    matched = targets.reshape(outputs.shape).to(outputs.dtype)
    if bool(((matched >= 0) & (matched <= 1)).all()) and matched.min() < matched.max():
        sign = torch.where(matched > 0.5, 1.0, -1.0)
        if bool(((matched == 0) | (matched == 1)).all()):
            right = [view(sign * size) for size in (1.0, 30.0)]
            wrong = [view(-sign * size) for size in (30.0, 60.0, 90.0)]
            line = same(wrong[2] - wrong[1], wrong[1] - wrong[0], 1e-3) and wrong[1] - wrong[0] > 3
            seen.logistic = line and right[1] < 1e-2 * view(0 * sign) < right[0] * 0.5
    best = view(matched)
    around = [view(matched + shift * (0.3 * matched.std() + 1e-3)) for shift in (-1.0, 1.0)]
    seen.regression = not seen.logistic and seen.shift is None and best < min(around)


def _answers(view: View, seen: LossEvidence) -> None:
    outputs, targets = view.outputs, view.targets
    seen.right = view(known_answer(outputs, targets, 20.0))
    seen.wrong = view(known_answer(outputs, targets, -20.0))
    if targets.is_floating_point() and targets.shape == outputs.shape and outputs.dim() > 1:
        marked = targets.sum(1)
        whole = ((targets == 0) | (targets == 1)).all()
        seen.several = ((marked - 1).abs() > 1e-3).float().mean().item() if whole else None


def _falls(view: View, seen: LossEvidence) -> None:
    """Go down the gradient, very far: a loss has a floor."""
    start = torch.zeros_like(view.outputs)
    gradient = view.gradient(start)
    if not gradient.abs().max() > 0:
        return
    down = -gradient / gradient.abs().max()
    near, far = view(start + FAR * down), view(start + 2 * FAR * down)
    if near < -1 and same(far, 2 * near, 0.2):
        seen.falls = near


def _pairing(view: View, seen: LossEvidence) -> None:
    """Give the targets to other samples: a loss that pairs them with the outputs must change."""
    outputs, targets = view.outputs, view.targets
    count = len(targets) if targets.dim() else 0
    if count < 4 or len(outputs) != count or not targets.is_floating_point():
        return
    flat = outputs.reshape(count, -1)
    if (flat - flat.mean(0)).abs().max() < 1e-4 * (1 + flat.abs().max()):
        return
    orders = [torch.randperm(count, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]

    def stays(permuted: Callable[[Tensor], Tensor], other: Tensor) -> bool:
        return all(same(view(targets=permuted(order)), seen.value) for order in orders) and not same(
            view(targets=other), seen.value, 1e-4
        )

    varied = (targets.reshape(count, -1) - targets.reshape(count, -1)[0]).abs().max() > 0
    if varied and seen.outputs != seen.targets and outputs.numel() == targets.numel():
        seen.unpaired = stays(lambda order: targets[order], targets.flip(0) * 0.5 + 0.2 * targets.std())
    alike = outputs.shape == targets.shape and (seen.regression or seen.logistic)
    if targets.dim() == 2 and 2 <= targets.shape[1] <= 8 and not alike:
        for column in range(targets.shape[1]):
            if (targets[:, column] - targets[0, column]).abs().max() == 0:
                continue

            def mixed(order: Tensor, column: int = column) -> Tensor:
                changed = targets.clone()
                changed[:, column] = targets[order, column]
                return changed

            other = targets.clone()
            other[:, column] *= 2
            if stays(mixed, other):
                seen.unpaired_column = column


def _size(view: View, seen: LossEvidence) -> None:
    if len(view.outputs) == len(view.targets) and not view.others:
        twice = view(torch.cat([view.outputs] * 2), torch.cat([view.targets] * 2))
        seen.doubled = twice / seen.value if seen.value else None


def _large(view: View, seen: LossEvidence) -> None:
    """Make the outputs larger: a stable formula stays finite."""
    if seen.shift is None and not seen.logistic:
        return
    for size in (20.0, 50.0, 120.0, 1000.0):
        values = [view(known_answer(view.outputs, view.targets, sign * 2 * size)) for sign in (1.0, -1.0)]
        if not all(abs(value) < float("inf") for value in values):
            seen.breaks_at = size
            return


def _never(view: View, seen: LossEvidence) -> None:
    """Give the same answer everywhere: the best one should say how rare a yes is."""
    targets = view.targets
    if targets.numel() != view.outputs.numel() or seen.values != [0.0, 1.0] or targets.float().mean() > 0.4:
        return
    start = torch.zeros_like(view.outputs)
    same = [view(start + size) for size in (-30.0, -5.0, -3.0, -2.0, -1.0, 0.0, 1.0, 3.0)]
    seen.never = all(same[0] < other for other in same[1:])


def _penalty(view: View, seen: LossEvidence) -> None:
    if view.others:
        seen.task = view(others=0.0)
        seen.penalty = seen.value - seen.task


def floor_of_bounded(classes: int, width: float) -> float:
    """Return the least cross-entropy that is possible if the outputs lie within an interval of some width."""
    return functional.cross_entropy(torch.tensor([[width] + [0.0] * (classes - 1)]), torch.tensor([0])).item()
