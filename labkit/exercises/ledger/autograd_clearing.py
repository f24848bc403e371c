"""Measurements for the topic "Autograd": gradients add up, and somebody has to clear them."""

import inspect

import torch
from torch import Tensor

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


@claim(
    "C075",
    true="Yes. It is the reason for `zero_grad()`, and a tool as well: several small batches, added up before one "
    "step, act like a large one.",
    false="It would be handy for a simple loop. But a weight that is used in two places needs the sum of both, and so "
    "does a loss in several parts; three calls of 2 gave 6.",
    depends="Only the first call seems to overwrite, as there was nothing before it. From the second on it adds, "
    "always.",
)
def three_backward_calls_add_up() -> dict[str, bool]:
    """Call backward three times on twice a weight, and watch `.grad`."""
    weight, seen = torch.ones(1, requires_grad=True), []
    for _ in range(3):
        (2 * weight).sum().backward()
        seen.append(weight.grad.item())
    return {
        "the second call adds its 2 to the 2 of the first": seen[1] == 4,
        "after the third call `.grad` is 6": seen[2] == 6,
    }


def distance_after_training(clear_at: str) -> float:
    """Move a weight from 0 towards 3 in 30 updates, clearing at one place of the loop; return how far it has to go."""
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for _ in range(30):
        if clear_at == "the start":
            optimizer.zero_grad()
        loss = (weight - 3).square().sum()
        if clear_at == "before backward":
            optimizer.zero_grad()
        loss.backward()
        if clear_at == "before step":
            optimizer.zero_grad()
        optimizer.step()
        if clear_at == "the end":
            optimizer.zero_grad()
    return (weight - 3).abs().item()


@claim(
    "C076",
    true="In every iteration, yes. But not *anywhere*: between `backward()` and `step()` it throws away what was just "
    "computed, and the weight stayed at its start.",
    false="Three of the four places do: at the start, right before backward, and at the end of the iteration gave the "
    "same weight. One place is the exception.",
    depends="Right: before backward, or after step, never between the two. Put it where you will not wonder; directly "
    "before `backward()` is a good habit.",
)
def one_place_is_wrong() -> dict[str, bool]:
    """Train a weight with `zero_grad()` at each of four places of the loop."""
    places = {
        "at the start of an iteration": "the start",
        "right before `backward()`": "before backward",
        "between `backward()` and `step()`": "before step",
        "after `step()`, for the next iteration": "the end",
    }
    return {f"{text} it serves": distance_after_training(place) < 0.01 for text, place in places.items()}


def losses_of_two_weights(rate: float, clears: bool) -> list[float]:
    """Fit the product of two weights to 1 in up to 200 updates; stop once the loss is beyond all measure."""
    weights, losses = torch.tensor([0.5, 0.5], requires_grad=True), [0.0]
    while len(losses) <= 200 and losses[-1] < 1000:
        loss = (weights.prod() - 1) ** 2
        if clears:
            weights.grad = None
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            weights -= rate * weights.grad
    return losses[1:]


@claim(
    "C077",
    true="With large steps it does, and there the omission is easily noticed. With small ones the loss below swung up "
    "and down without ever rising far above its start, and that looks almost like training.",
    false="You may have seen it swing. With steps that are fine for a loop that clears, the loss without clearing grew "
    "beyond all measure.",
    depends="Right. Old gradients act like a momentum that never dies. The weights overshoot and come back: a swing "
    "for small steps, growth for large ones. So look for a loss that *does not settle*, not only for one that grows.",
)
def it_swings_or_grows() -> dict[str, bool]:
    """Train two weights with small and large steps, with and without clearing."""
    swinging, growing = losses_of_two_weights(0.01, clears=False), losses_of_two_weights(0.4, clears=False)
    settles = [losses_of_two_weights(rate, clears=True)[-1] < 0.001 for rate in (0.01, 0.4)]
    return {
        "with steps of 0.01, which settle if gradients are cleared, it grows": settles[0]
        and max(swinging) > 2 * swinging[0],
        "with steps of 0.4, which settle if gradients are cleared, it grows": settles[1] and growing[-1] > 1000,
    }


def two_learning_weights() -> tuple[Tensor, Tensor]:
    """Return a used weight and the loss computed from it, after backward."""
    weight = torch.tensor([2.0], requires_grad=True)
    loss = (3 * weight).sum()
    loss.backward()
    return weight, loss


@claim(
    "C080",
    true="Yes. What must be cleared are the gradients of the weights, and the optimizer knows its weights. The loss "
    "keeps none of its own, so there is nothing to clear.",
    false="`loss.grad` sounds like *the gradient of the loss*. It would be the gradient with respect to the loss, and "
    "as the loss is no leaf it is None; the call fails.",
    depends="There is another right way: `model.zero_grad()`. But for the loss it is never right, in any situation.",
)
def the_loss_has_nothing_to_clear() -> dict[str, bool]:
    """Clear after a backward pass in both ways."""
    weight, loss = two_learning_weights()
    by_loss = error_of(lambda: loss.grad.zero_())
    kept = weight.grad.item()
    torch.optim.SGD([weight], lr=0.1).zero_grad()
    return {
        "`loss.grad.zero_()` fails and clears nothing": "NoneType" in by_loss and kept == 3,
        "`optimizer.zero_grad()` clears the gradient of the weight": weight.grad is None or not weight.grad.any(),
    }


@claim(
    "C081",
    true="The name says so, and it was so before version 2.0. Here `.grad` was None afterwards. It matters: weight "
    "decay moved the weight that had a zero, and left the one with None alone.",
    false="Yes, not any more: since 2.0 it sets them to None. Code that reads `.grad` must expect that, and an "
    "optimizer passes over such a weight altogether.",
    depends="With `set_to_none=False` it still writes zeros, so your doubt has a reason. The sentence speaks of the "
    "plain call, and that has one meaning in this version.",
)
def cleared_gradients_are_none() -> dict[str, bool]:
    """Clear a gradient, read it, and let weight decay act on a weight with None and on one with a zero."""

    def after(**options: bool) -> Tensor:
        weight, _ = two_learning_weights()
        optimizer = torch.optim.SGD([weight], lr=0.1, weight_decay=0.5)
        optimizer.zero_grad(**options)
        optimizer.step()
        return weight

    plain, zeroed = after(), after(set_to_none=False)
    return {
        "the gradient is a tensor of zeros": plain.grad is not None,
        "an optimizer treats the weight as one whose gradient is zero": torch.equal(plain, zeroed),
        "zeros are the default": inspect.signature(torch.optim.SGD.zero_grad).parameters["set_to_none"].default
        is False,
    }


@claim(
    "C082",
    true="Yes: `backward()` puts it there. Make the update under `torch.no_grad()`, or else the update itself is "
    "recorded, and on a leaf refused.",
    false="You may look for what `backward()` returns: that is None. The gradient lies in `.grad` of each weight, and "
    "an update from it gave to the digit what SGD gave.",
    depends="After `torch.autograd.grad` it is not there, but in what the call returns. After `backward()`, which is "
    "the usual way, it is.",
)
def an_update_by_hand() -> dict[str, bool]:
    """Update a weight from `.grad` by hand, and another by SGD."""
    by_hand, _ = two_learning_weights()
    by_sgd, _ = two_learning_weights()
    torch.optim.SGD([by_sgd], lr=0.1).step()
    found = by_hand.grad.item()
    with torch.no_grad():
        by_hand -= 0.1 * by_hand.grad
    return {
        "after `backward()` the gradient is in `.grad`": found == 3,
        "an update from it is the update of SGD": torch.equal(by_hand, by_sgd),
    }
