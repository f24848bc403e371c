"""The learner's own BatchNorm2d."""

import torch
from torch import Tensor, nn

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.exercise import Exercise
from labkit.exercises.parts.layers import run_in_both_modes


class _BatchNorm2d(nn.Module):
    """A right layer. Each wrong one below differs from it in one place."""

    correction = 1  # of the running variance

    def __init__(self, features: int, eps: float = 1e-5, momentum: float = 0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))
        self.keep("running_mean", torch.zeros(features))
        self.keep("running_var", torch.ones(features))

    def keep(self, name: str, value: Tensor) -> None:
        self.register_buffer(name, value)

    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = self.statistics(x)
            with torch.no_grad():
                self.update(mean, x.var((0, 2, 3), correction=self.correction))
        return self.normalise(x, mean, var)

    def statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)

    def update(self, mean: Tensor, var: Tensor) -> None:
        self.running_mean += self.momentum * (mean - self.running_mean)
        self.running_var += self.momentum * (var - self.running_var)

    def normalise(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        x = (x - mean[:, None, None]) / (var[:, None, None] + self.eps).sqrt()
        return x * self.weight[:, None, None] + self.bias[:, None, None]


class _TorchsOwn(nn.Module):
    def __init__(self, features: int, eps: float = 1e-5, momentum: float = 0.1):
        super().__init__()
        self.norm = nn.BatchNorm2d(features, eps, momentum)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


class _UnbiasedEverywhere(_BatchNorm2d):
    def statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean((0, 2, 3)), x.var((0, 2, 3))


class _BiasedEverywhere(_BatchNorm2d):
    correction = 0


class _MomentumReversed(_BatchNorm2d):
    def update(self, mean: Tensor, var: Tensor) -> None:
        self.running_mean += (1 - self.momentum) * (mean - self.running_mean)
        self.running_var += (1 - self.momentum) * (var - self.running_var)


class _NeverUpdated(_BatchNorm2d):
    def update(self, mean: Tensor, var: Tensor) -> None: ...


class _BatchInEvaluation(_BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.statistics(x)
        if self.training:
            with torch.no_grad():
                self.update(mean, x.var((0, 2, 3)))
        return self.normalise(x, mean, var)


class _UpdatesInEvaluation(_BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            if not self.training:
                self.update(x.mean((0, 2, 3)), x.var((0, 2, 3)))
        return super().forward(x)


class _PlainStatistics(_BatchNorm2d):
    def keep(self, name: str, value: Tensor) -> None:
        setattr(self, name, value)


class _GraphInTheBuffers(_BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = self.statistics(x)
            self.running_mean = self.running_mean + self.momentum * (mean - self.running_mean)
            self.running_var = self.running_var + self.momentum * (x.var((0, 2, 3)) - self.running_var)
        return self.normalise(x, mean, var)


class _PerPicture(_BatchNorm2d):
    def normalise(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        if not self.training:
            return super().normalise(x, mean, var)
        return torch.stack([super(_PerPicture, self).normalise(one, *self.statistics(one[None])) for one in x])


class _StandardDeviationPlusEps(_BatchNorm2d):
    def normalise(self, x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        x = (x - mean[:, None, None]) / (var[:, None, None].sqrt() + self.eps)
        return x * self.weight[:, None, None] + self.bias[:, None, None]


class _ConstantStatistics(_BatchNorm2d):
    def statistics(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.detach().mean((0, 2, 3)), x.detach().var((0, 2, 3), correction=0)


def _cases(generator: torch.Generator) -> list[tuple]:
    def case(features: int, *shape: int) -> tuple:
        scale = torch.tensor([1.0, 0.01, 4.0])[:features, None, None]  # a channel so quiet that eps shows
        batches = [(torch.randn(shape[0], features, *shape[1:], generator=generator) + 1) * scale for _ in range(2)]
        values = {name: torch.randn(features, generator=generator) for name in ("weight", "bias")}
        return values, batches

    return [case(3, 4, 2, 5), case(2, 2, 3, 1)]


BATCH_NORM = Exercise(
    name="BatchNorm2d",
    prompt=(
        "Write `BatchNorm2d(features, eps=1e-5, momentum=0.1)` for `x` of shape `(B, features, H, W)`. In training, "
        "subtract the mean of each channel over batch, height and width, divide by the square root of the variance "
        "(divisor n) plus `eps`, and move `running_mean` and `running_var` (divisor n - 1) by the share `momentum` "
        "towards the batch. In evaluation, use the running values. Then multiply by `weight` and add `bias`."
    ),
    stub='''class BatchNorm2d(nn.Module):
    """x (B, features, H, W) -> the same shape; parameters weight and bias, buffers running_mean and running_var."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        ...  # your turn

    def forward(self, x):
        return ...  # your turn
''',
    solved='''class BatchNorm2d(nn.Module):
    """x (B, features, H, W) -> the same shape; parameters weight and bias, buffers running_mean and running_var."""

    def __init__(self, features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
            with torch.no_grad():
                self.running_mean += self.momentum * (mean - self.running_mean)
                self.running_var += self.momentum * (x.var((0, 2, 3)) - self.running_var)
        x = (x - mean[:, None, None]) / (var[:, None, None] + self.eps).sqrt()
        return x * self.weight[:, None, None] + self.bias[:, None, None]
''',
    hints=(
        "A buffer belongs to the module without being trained: `self.register_buffer(name, tensor)`.",
        "`x.mean((0, 2, 3))` has one number a channel; `[:, None, None]` lines it up with height and width.",
        "`self.training` tells the mode. Update the running values under `torch.no_grad()`, in training only.",
    ),
    cases=_cases,
    run=run_in_both_modes,
    misconceptions=(
        Misconception(
            "you used the library's own layer",
            _TorchsOwn,
            "All is right, for `nn.BatchNorm2d` did it. Here you write what is in it: two parameters, two buffers.",
        ),
        Misconception(
            "the batch is divided by the unbiased deviation",
            _UnbiasedEverywhere,
            "`x.var()` divides by n - 1. The batch itself is normalised with divisor n (`correction=0`); only the "
            "running variance, an estimate for all pictures, has n - 1.",
        ),
        Misconception(
            "the running variance is biased",
            _BiasedEverywhere,
            "The running variance estimates the spread of all pictures, and so has the divisor n - 1; the batch itself "
            "is normalised with divisor n.",
        ),
        Misconception(
            "momentum is read the other way round",
            _MomentumReversed,
            "In an optimizer momentum is the share that is kept; here it is the share of the *new* value: "
            "`running += momentum * (batch - running)`.",
        ),
        Misconception(
            "the running values never change",
            _NeverUpdated,
            "They stay 0 and 1, so that evaluation normalises nothing. Update them in training.",
        ),
        Misconception(
            "evaluation uses the batch",
            _BatchInEvaluation,
            "A picture's answer then depends on who else is in its batch. With `self.training` False use the running "
            "values.",
        ),
        Misconception(
            "evaluation changes the running values",
            _UpdatesInEvaluation,
            "Looking at validation pictures must leave the model as it is: update in training only.",
        ),
        Misconception(
            "the running values are no buffers",
            _PlainStatistics,
            "A plain tensor is missing from `state_dict()` and stays behind in `to(device)`: the saved model forgets "
            "its statistics. Use `register_buffer`.",
        ),
        Misconception(
            "the running values keep their graph",
            _GraphInTheBuffers,
            "The numbers are right. But each running value remembers how it was computed from all batches so far: the "
            "graph grows with every batch, and the model cannot be copied. Update them under `torch.no_grad()`.",
        ),
        Misconception(
            "every picture is normalised by itself",
            _PerPicture,
            "That is instance normalisation. Batch normalisation takes its mean over the batch as well: `(0, 2, 3)`.",
        ),
        Misconception(
            "eps is added to the deviation",
            _StandardDeviationPlusEps,
            "`eps` stands under the root: `(var + eps).sqrt()`. For quiet channels that makes a difference.",
        ),
        Misconception(
            "the statistics are cut out of the graph",
            _ConstantStatistics,
            "Mean and variance depend on `x`, and gradients flow through them; only the running values are detached.",
        ),
    ),
    tolerance=Tolerance(relative=1e-3, absolute=1e-4),
)
