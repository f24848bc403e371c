"""Measurements for the topic "Losses and optimizers": what a loss takes, and what it says to wrong input."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of, warnings_of


@claim(
    "C197",
    true="Yes: the mean of the squared differences, and training by it found the line behind noisy points. One "
    "warning to take seriously: (N, 1) against (N,) is broadcast to (N, N), and the loss is another.",
    false="There are other losses for regression, such as L1 for data with outliers. That takes nothing from this one: "
    "it found slope and offset below.",
    depends="With a few wild outliers another loss may do better. As the one to begin with it is right; mind only the "
    "shapes of prediction and target.",
)
def squares_find_the_line() -> dict[str, bool]:
    """Compute the loss by hand, fit a line with it, and compare shapes that only look alike."""
    x = torch.linspace(-1, 1, 200).unsqueeze(1)
    y = 2 * x + 1 + 0.1 * torch.randn_like(x)
    line, loss_of = nn.Linear(1, 1), nn.MSELoss()
    by_hand = torch.isclose(loss_of(line(x), y), (line(x) - y).square().mean())
    optimizer = torch.optim.SGD(line.parameters(), lr=0.5)
    for _ in range(100):
        optimizer.zero_grad()
        loss_of(line(x), y).backward()
        optimizer.step()
    slope_and_offset = torch.cat([line.weight.flatten(), line.bias]).detach()
    warned = warnings_of(lambda: loss_of(line(x), y.squeeze(1)))
    return {
        "it is the mean of the squared differences": bool(by_hand),
        "training by it finds the line y = 2x + 1": torch.allclose(
            slope_and_offset, torch.tensor([2.0, 1.0]), atol=0.05
        ),
        "shapes (N, 1) and (N,) are broadcast, with a warning": any("target size" in text for text in warned),
    }


@claim(
    "C198",
    true="Yes. It is the log-softmax and the negative log-likelihood in one. A network that knows nothing of ten "
    "classes gets ln 10, about 2.303: a good first number to check.",
    false="Many pictures of networks end in a softmax, so it seems to be missing. It is in the loss, where the "
    "logarithm that follows can be computed exactly.",
    depends="For *reading* probabilities you do want a softmax, outside of the loss. For the loss itself, logits "
    "always.",
)
def softmax_is_inside() -> dict[str, bool]:
    """Take the loss apart, and give it logits that say nothing."""
    logits, labels = torch.randn(6, 10), torch.randint(0, 10, (6,))
    loss_of = nn.CrossEntropyLoss()
    loss = loss_of(logits, labels)
    inside = functional.nll_loss(logits.log_softmax(1), labels)
    knowing_nothing = loss_of(torch.zeros(6, 10), labels).item()
    return {
        "the log-softmax is in it": torch.allclose(loss, inside),
        "with a softmax before it the loss is another": not torch.allclose(loss_of(logits.softmax(1), labels), loss),
        "logits that say nothing of ten classes get ln 10": abs(knowing_nothing - math.log(10)) < 1e-5,
    }


@claim(
    "C199",
    true="It wastes work, but the numbers are as stable as can be: of logits in the thousands it made a small, finite "
    "loss. The harm is another one: the loss cannot fall below 1.461, and gradients shrink.",
    false="That it is wasted is right: the predicted classes were the same without it. Only *unstable* is wrong; the "
    "loss is too tame rather than too wild.",
    depends="Right. It does no visible harm to the numbers, and that is why it goes unnoticed. A loss of ten classes "
    "that stands near 1.46 is its sign.",
)
def too_tame_rather_than_wild() -> dict[str, bool]:
    """Apply softmax twice to moderate, to perfect and to huge logits."""

    def gradient_and_loss(logits: Tensor, twice: bool) -> tuple[Tensor, float]:
        leaf = logits.clone().requires_grad_()
        loss = functional.cross_entropy(leaf.softmax(1) if twice else leaf, torch.zeros(len(leaf), dtype=torch.long))
        loss.backward()
        return leaf.grad, loss.item()

    moderate, huge = torch.randn(20, 10), torch.randn(20, 10) * 1e4
    perfect = torch.tensor([[50.0] + [-50.0] * 9])
    gradient, loss = gradient_and_loss(huge, twice=True)
    floor = math.log(math.e + 9) - 1
    (tame, _), (usual, _) = gradient_and_loss(moderate, twice=True), gradient_and_loss(moderate, twice=False)
    return {
        "it is wasted work: the predicted classes are the same": torch.equal(
            moderate.softmax(1).argmax(1), moderate.argmax(1)
        ),
        "with huge logits loss or gradient are not finite": not (math.isfinite(loss) and gradient.isfinite().all()),
        "a perfect answer still costs 1.461": abs(gradient_and_loss(perfect, twice=True)[1] - floor) < 1e-4,
        "gradients shrink": bool(tame.norm() < usual.norm() / 2),
    }


@claim(
    "C200",
    true="Mostly you do not get that far: shapes that differ raise an error, and so do whole numbers. Where it does "
    "run, one logit a sample with 0., 1., 2. … as targets, the loss is not small: it fell below zero without end.",
    false="Right. It is an error, or a loss that goes below zero, which no sound loss of this kind does. For classes "
    "use `cross_entropy`; for several labels float targets of 0 and 1.",
    depends="It takes different turns, but none of them is the one of the sentence: two errors, and one loss that "
    "falls below zero while the logits run away.",
)
def an_error_or_below_zero() -> dict[str, bool]:
    """Give class indices as targets in three ways; where that runs, train the logits by it."""
    loss_of, classes = nn.BCEWithLogitsLoss(), torch.tensor([1, 2, 3, 9])
    logits = nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([logits], lr=1.0)
    for _ in range(50):
        optimizer.zero_grad()
        loss = loss_of(logits, classes.float())
        loss.backward()
        optimizer.step()
    return {
        "logits (4, 10) with four indices give a loss": error_of(lambda: loss_of(torch.zeros(4, 10), classes)) == "",
        "indices as whole numbers give one": error_of(lambda: loss_of(torch.zeros(4), classes)) == "",
        "indices as floats, one logit a sample, give a loss that stays small": loss.item() > -1,
        "that loss moves nothing": not logits.detach().abs().max() > 1,
    }


@claim(
    "C201",
    true="Yes. Each label is a question of its own: another answer to one left the gradients of the others alone. The "
    "gradient is sigmoid minus target, divided by their number.",
    false="You may think of `CrossEntropyLoss`, where labels compete for a sum of 1. When several may be true at once, "
    "there must be no competition.",
    depends="Float targets are needed, and the sentence says so: whole numbers were refused. With them it worked for "
    "none, one and all labels of a sample.",
)
def labels_do_not_compete() -> dict[str, bool]:
    """Compute the gradient by hand, change one answer, train three labels at once, and give whole numbers."""
    targets = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    loss_of, logits = nn.BCEWithLogitsLoss(), nn.Parameter(torch.randn(3, 3))

    def gradient(of: Tensor) -> Tensor:
        return torch.autograd.grad(loss_of(of, targets), of)[0]

    by_hand = (logits.sigmoid() - targets) / targets.numel()
    changed = logits.detach().clone()
    changed[0, 0] += 3
    rest = torch.ones(3, 3, dtype=torch.bool)
    rest[0, 0] = False
    before, after = gradient(logits), gradient(changed.requires_grad_())
    with torch.no_grad():
        for _ in range(50):
            with torch.enable_grad():
                slope = gradient(logits)
            logits -= 9 * slope
    return {
        "the gradient is sigmoid minus target, divided by their number": torch.allclose(before, by_hand),
        "another answer to one label leaves the others alone": torch.equal(before[rest], after[rest]),
        "none, one or all labels of a sample can be learned": torch.equal((logits > 0).float(), targets),
        "whole numbers as targets are refused": error_of(lambda: loss_of(logits, targets.long())) != "",
    }
