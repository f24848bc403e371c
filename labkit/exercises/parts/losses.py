"""The learner's own loss: cross-entropy."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import Tolerance
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import need_function


def _run_loss(answer: Any, logits: Tensor, targets: Tensor) -> Any:
    """Return the loss and the gradient of the logits."""
    need_function(answer)
    logits = logits.clone().requires_grad_()
    loss = answer(logits, targets)
    if loss is ...:
        return ...
    if not isinstance(loss, Tensor):
        return {"loss": loss, "gradient": None}
    if loss.ndim == 0 and loss.requires_grad:
        loss.backward()
    return {"loss": loss.detach(), "gradient": logits.grad}


def _picked(logs: Tensor, targets: Tensor) -> Tensor:
    return logs[torch.arange(len(targets)), targets]


def _naive(logits: Tensor, targets: Tensor) -> Tensor:
    exponentials = logits.exp()
    return -_picked((exponentials / exponentials.sum(1, keepdim=True)).log(), targets).mean()


def _loss_cases(generator: torch.Generator) -> list[tuple]:
    def case(batch: int, classes: int, size: float) -> tuple[Tensor, Tensor]:
        logits = torch.randn(batch, classes, generator=generator) * size
        return logits, torch.randint(classes, (batch,), generator=generator)

    return [case(4, 3, 1), case(3, 10, 2), case(5, 4, 300)]


CROSS_ENTROPY = Exercise(
    name="cross_entropy",
    prompt=(
        "Write `cross_entropy(logits, targets)`: logits float `(B, K)`, targets int64 `(B,)`. Return the mean over the "
        "batch of `-log(softmax(logits)[target])`, without trouble for logits of several hundred."
    ),
    stub='''def cross_entropy(logits, targets):
    """logits (B, K), targets (B,) -> the mean loss, a scalar."""
    return ...  # your turn
''',
    solved='''def cross_entropy(logits, targets):
    """logits (B, K), targets (B,) -> the mean loss, a scalar."""
    of_target = logits[torch.arange(len(targets)), targets]
    return (logits.logsumexp(dim=1) - of_target).mean()
''',
    hints=(
        "log(exp(a) / sum) is `a - log(sum)`: the softmax itself is never needed.",
        "`logits.logsumexp(dim=1)` does not overflow, it subtracts the largest logit first.",
        "`logits[torch.arange(len(targets)), targets]` is the logit of each target.",
    ),
    cases=_loss_cases,
    run=_run_loss,
    tolerance=Tolerance(relative=1e-4, absolute=1e-5),
    misconceptions=(
        Misconception(
            "the exponential overflows",
            _naive,
            "`exp(90)` is already infinite in float32, and infinite / infinite is NaN. Use `logsumexp` or "
            "`log_softmax`, which subtract the largest logit first.",
        ),
        Misconception(
            "the logarithm of a softmax of 0",
            lambda logits, targets: -_picked(logits.softmax(1).log(), targets).mean(),
            "`softmax` rounds small probabilities to 0, whose logarithm is minus infinity. `log_softmax` stays exact.",
        ),
        Misconception(
            "the sum instead of the mean",
            lambda logits, targets: F.cross_entropy(logits, targets, reduction="sum"),
            "A sum grows with the batch, and so would every step; take the mean.",
        ),
        Misconception(
            "the loss of each sample",
            lambda logits, targets: F.cross_entropy(logits, targets, reduction="none"),
            "`backward` starts from one number: take the mean over the batch.",
        ),
        Misconception(
            "divided by the classes too",
            lambda logits, targets: -(F.one_hot(targets, logits.shape[1]) * logits.log_softmax(1)).mean(),
            "The mean over all B × K entries is too small by the factor K: sum over classes, then take the mean.",
        ),
        Misconception(
            "softmax over the batch",
            lambda logits, targets: -_picked(logits.log_softmax(0), targets).mean(),
            "`dim=0` compares samples with each other. The classes lie along `dim=1`.",
        ),
        Misconception(
            "softmax twice",
            lambda logits, targets: F.cross_entropy(logits.softmax(1), targets),
            "`F.cross_entropy` takes the softmax itself. Twice leaves losses above 0 even for perfect answers.",
        ),
        Misconception(
            "the sign",
            lambda logits, targets: _picked(logits.log_softmax(1), targets).mean(),
            "The logarithm of a probability is negative; without the minus training makes the answers worse.",
        ),
        Misconception(
            "squared errors",
            lambda logits, targets: F.mse_loss(logits.softmax(1), F.one_hot(targets, logits.shape[1]).float()),
            "Squared errors of probabilities have almost no gradient where the answer is surely wrong.",
        ),
    ),
)
