"""The learner's own Dropout. Its random numbers may come from anywhere, so it is judged by what they have in common."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import need_module
from labkit.exercises.parts.layers import holds_torchs_own

_SIDE = 400  # rows and columns of the ones that are dropped: enough to tell 0.30 from 0.31


def _run(answer: Any, p: float) -> Any:
    """Send ones through the layer: the share and the values of what is kept, what changes, what evaluation does."""
    need_module(answer)
    layer, ones = answer(p), torch.ones(_SIDE, _SIDE, requires_grad=True)
    first = layer(ones)
    if not isinstance(first, Tensor):
        return first
    first.sum().backward()
    second, dropped = layer(ones), first == 0
    evaluated = layer.eval()(ones)
    kept = first[~dropped].detach().unique()
    return {
        "torch's own layer does the work": holds_torchs_own(layer, _DropoutNd),
        "share of zeros": _share(dropped, p),
        "what the kept ones became": [round(value, 4) for value in kept[:3].tolist()],
        "the rows differ": not bool((dropped == dropped[:1]).all()),
        "the columns differ": not bool((dropped == dropped[:, :1]).all()),
        "a second call draws anew": not torch.equal(dropped, second == 0),
        "the gradient is dropped alike": ones.grad is not None and torch.equal(ones.grad, first.detach()),
        "what evaluation makes of 1": [round(value, 4) for value in evaluated.detach().unique()[:3].tolist()],
    }


def _share(dropped: Tensor, p: float) -> float:
    """Return the share of zeros: p if it lies within five standard deviations of chance, else one decimal."""
    share = dropped.float().mean().item()
    return p if abs(share - p) < 5 * (p * (1 - p)) ** 0.5 / _SIDE else round(share, 1)


class _Dropout(nn.Module):
    """A right layer. Each wrong one below differs from it in one place."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def mask(self, x: Tensor) -> Tensor:
        return (torch.rand_like(x) >= self.p).to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.mask(x) / (1 - self.p) if self.training else x


class _TorchsOwn(nn.Module):
    def __init__(self, p: float = 0.5):
        super().__init__()
        self.dropout = nn.Dropout(p)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x)


class _Unscaled(_Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.mask(x) if self.training else x


class _ScaledInEvaluation(_Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.mask(x) if self.training else x * (1 - self.p)


class _ScaledByProbability(_Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.mask(x) / self.p if self.training else x


class _KeepsProbability(_Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return x * (1 - self.mask(x)) / self.p if self.training else x


class _DropsProbabilityWrongScale(_Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return x * (1 - self.mask(x)) / (1 - self.p) if self.training else x


class _Always(_Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return x * self.mask(x) / (1 - self.p)


class _OneMaskForTheBatch(_Dropout):
    def mask(self, x: Tensor) -> Tensor:
        return (torch.rand_like(x[:1]) >= self.p).to(x.dtype).expand_as(x)


class _WholeSamples(_Dropout):
    def mask(self, x: Tensor) -> Tensor:
        return (torch.rand_like(x[:, :1]) >= self.p).to(x.dtype).expand_as(x)


class _OneMaskForEver(_Dropout):
    def mask(self, x: Tensor) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = super().mask(x)
        return self.kept


DROPOUT = Exercise(
    name="Dropout",
    prompt=(
        "Write `Dropout(p=0.5)`: in training every number becomes 0 with probability `p`, independently, and the "
        "others are divided by `1 - p`; in evaluation `x` is returned as it is."
    ),
    stub='''class Dropout(nn.Module):
    """x of any shape -> the same shape."""

    def __init__(self, p=0.5):
        super().__init__()
        ...  # your turn

    def forward(self, x):
        return ...  # your turn
''',
    solved='''class Dropout(nn.Module):
    """x of any shape -> the same shape."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        kept = torch.rand_like(x) >= self.p
        return x * kept / (1 - self.p)
''',
    hints=(
        "`torch.rand_like(x)` draws a number between 0 and 1 for each element; it is below `p` with probability `p`.",
        "Dividing by `1 - p` keeps the mean: a share of `1 - p` is left, each a little larger.",
        "`self.training` tells the mode. A tensor of True and False can be multiplied with `x`: False makes it 0.",
    ),
    cases=lambda generator: [(0.3,), (0.8,)],
    run=_run,
    misconceptions=(
        Misconception(
            "you used the library's own layer",
            _TorchsOwn,
            "All is right, for `nn.Dropout` did it. Here you write what stands inside of it: a draw for each number, "
            "and a look at `self.training`.",
        ),
        Misconception(
            "what is kept is not scaled",
            _Unscaled,
            "In evaluation nothing is dropped, so the next layer would suddenly see sums larger by `1 / (1 - p)`. "
            "Divide by `1 - p` in training.",
        ),
        Misconception(
            "evaluation is scaled instead of training",
            _ScaledInEvaluation,
            "So it stood in the first paper, and it learns as well; but torch scales in training, and evaluation "
            "leaves `x` as it is: what is exported needs no dropout then.",
        ),
        Misconception("divided by p", _ScaledByProbability, "A share of `1 - p` is kept, so that divides, not `p`."),
        Misconception(
            "p is the share that is kept",
            _KeepsProbability,
            "In torch `p` is the probability that a number is *dropped*. (Other libraries have it the other way.)",
        ),
        Misconception(
            "the comparison is the wrong way round",
            _DropsProbabilityWrongScale,
            "`torch.rand_like(x) < p` is true with probability `p`: those are the ones to drop, not to keep.",
        ),
        Misconception(
            "evaluation drops too",
            _Always,
            "With `model.eval()` the same picture must give the same answer: ask for `self.training`.",
        ),
        Misconception(
            "one mask for all samples",
            _OneMaskForTheBatch,
            "Each sample of the batch draws for itself; draw a mask of the shape of `x`.",
        ),
        Misconception(
            "whole samples are dropped",
            _WholeSamples,
            "Each number is dropped by itself, not a whole sample; draw a mask of the shape of `x`.",
        ),
        Misconception(
            "one mask for ever",
            _OneMaskForEver,
            "A mask that is drawn once switches some units off for good. Draw in every call of `forward`.",
        ),
    ),
)
