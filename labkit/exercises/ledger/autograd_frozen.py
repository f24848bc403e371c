"""Measurements for the topic "Autograd": layers and statistics that shall not change."""

import torch
from torch import Tensor, nn

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


@claim(
    "C104",
    true="Yes. You name two weights, two gradients come back, and no `.grad` is filled. You have to apply them "
    "yourself; `loss.backward(inputs=…)` fills `.grad` of the named ones, for an optimizer to use.",
    false="You may miss the optimizer, which finds nothing in `.grad`. The update is made by hand then, and it "
    "changed the named layer and no other.",
    depends="More usual are `requires_grad_(False)` on all others, or `backward(inputs=…)`. That does not make this "
    "way wrong: it did what it should.",
)
def only_some_layers_move() -> dict[str, bool]:
    """Ask for the gradients of the last of two layers, and update it by hand."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    before = [weight.detach().clone() for weight in model.parameters()]
    head = list(model[2].parameters())
    gradients = torch.autograd.grad(model(torch.ones(2, 3)).square().sum(), head)
    with torch.no_grad():
        for weight, gradient in zip(head, gradients, strict=True):
            weight -= 0.1 * gradient
    moved = [not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    return {
        "one gradient comes back for each weight that was named": [g.shape for g in gradients]
        == [weight.shape for weight in head],
        "no `.grad` is filled": all(weight.grad is None for weight in model.parameters()),
        "after an update by hand only the named layer has changed": moved == [False, False, True, True],
    }


@claim(
    "C107",
    true="Read the index: for one parameter, `requires_grad == False` is a single True or False and no mask. And a "
    "frozen parameter never gets that far, since `autograd.grad` refuses it.",
    false="Right. Leave frozen parameters out of the list. To mask parts of a gradient, multiply it by a mask of its "
    "own shape.",
    depends="There are two cases, a frozen parameter and one that learns, and the line fails in both: the first "
    "raises an error before, the second stays as it was.",
)
def the_line_masks_nothing() -> dict[str, bool]:
    """Try the line on a frozen parameter and on one that learns."""
    learning, frozen = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3), requires_grad=False)
    loss = (learning * frozen).sum()
    refused = error_of(lambda: torch.autograd.grad(loss, (learning, frozen), retain_graph=True))
    (gradient,) = torch.autograd.grad(loss, learning)
    before = gradient.clone()
    gradient[learning.requires_grad == False] = 0  # noqa: E712  as the claim has it
    return {
        "a frozen parameter gets a gradient that could be masked": "does not require grad" not in refused,
        "the line changes the gradient of a parameter that learns": not torch.equal(gradient, before),
    }


@claim(
    "C108",
    true="What you saw may have been the statistics themselves, which do drift in training. A gradient of theirs does "
    "not exist: asking for it is an error, and backward left none.",
    false="Right. `running_mean` is a buffer. It changes because the forward pass in training mode updates it, and no "
    "optimizer is involved.",
    depends="No network and no data can make it large, since there is none. BatchNorm's `weight` and `bias` do have "
    "gradients; perhaps you meant those.",
)
def running_statistics_have_no_gradient() -> dict[str, bool]:
    """Ask for the gradient of running_mean in each way there is."""
    norm = nn.BatchNorm1d(3)
    loss = norm(torch.randn(4, 3)).square().sum()
    asked = error_of(lambda: torch.autograd.grad(loss, norm.running_mean, retain_graph=True))
    loss.backward()
    return {
        "`running_mean` requires a gradient": norm.running_mean.requires_grad,
        "`torch.autograd.grad` returns one": not asked,
        "`backward()` leaves one in its `.grad`": norm.running_mean.grad is not None,
    }


class Restoring(nn.BatchNorm1d):
    """A BatchNorm that copies its statistics back at the end of each forward pass."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return normalised values of shape (batch, features)."""
        mean, variance = self.running_mean.clone(), self.running_var.clone()
        result = super().forward(inputs)
        with torch.no_grad():
            self.running_mean.copy_(mean)
            self.running_var.copy_(variance)
        return result


def network(norm: nn.BatchNorm1d) -> nn.Sequential:
    """Return a small network with this BatchNorm and a dropout layer, in training mode."""
    return nn.Sequential(nn.Linear(3, 8), norm, nn.Dropout(0.5))


@claim(
    "C109",
    true="Copying back does hold the statistics. But look at the backward pass after it: the copy is a change in "
    "place, and autograd noticed. And `eval()` need not be called on the whole model.",
    false="The copying alone does what it should. Wrong is what is said about `eval()`: each module has a mode of its "
    "own.",
    depends="Right. Call `model.train()`, then `eval()` on the BatchNorm modules alone: their statistics stay, dropout "
    "goes on, and backward runs.",
)
def eval_on_the_norm_alone() -> dict[str, bool]:
    """Hold the statistics in both ways, run backward, and see whether dropout still drops."""
    inputs = torch.randn(16, 3) + 5
    copying, evaluating = network(Restoring(8)), network(nn.BatchNorm1d(8))
    evaluating[1].eval()
    copied, evaluated = copying(inputs), evaluating(inputs)
    return {
        "copying back in `forward` keeps the statistics": not copying[1].running_mean.any(),
        "the backward pass puts up with the copying": not error_of(copied.sum().backward),
        "after `eval()` on BatchNorm alone, the statistics change or backward fails": bool(
            evaluating[1].running_mean.any()
        )
        or error_of(evaluated.sum().backward) != "",
        "`eval()` on BatchNorm switches dropout off": bool((evaluated != 0).all()),
    }
