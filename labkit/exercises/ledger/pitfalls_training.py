"""Measurements for the topic "Pitfalls and error messages": losses that stand still, and losses that are NaN."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises.claims import claim
from labkit.exercises.ledger.autograd_clearing import losses_of_two_weights
from labkit.exercises.ledger.losses_rates import losses
from labkit.exercises.ledger.measuring import error_of


@claim(
    "C230",
    true="The cause is a real one: the optimizer held the weights of a model that was thrown away. The test does not "
    "see it, as the new model has weights of the same shape. Compare the objects themselves.",
    false="The cause is worth a thought, it does happen when a model is built anew. Only the test with the shape is "
    "too weak to find it.",
    depends="Right: ask whether they are the same *objects*, `{id(p) for p in model.parameters()}` against those of "
    "the optimizer's groups.",
)
def shapes_do_not_tell() -> dict[str, bool]:
    """Build a model anew after its optimizer, make an update, and try both tests."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    held = [weight for group in optimizer.param_groups for weight in group["params"]]
    return {
        "an optimizer without the model's parameters moves nothing": torch.equal(model.weight, before),
        "the first shape in its first group tells": held[0].shape != model.weight.shape,
        "comparing the objects tells": {id(each) for each in held} != set(map(id, model.parameters())),
    }


@claim(
    "C231",
    true="It is a fault, and you look for the wrong sign. Old gradients push on like a momentum that never ends: also "
    "at a small rate the loss swung widely, down to nearly 0 and up to its start again.",
    false="Forgetting it does harm, at small rates too: the loss did not settle as it did with clearing. Only the sign "
    "is another one.",
    depends="Right: a fault, yes; a loss that hardly moves, no. If the loss stands still, look for missing parameters, "
    "or for a rate that is far too small.",
)
def it_swings() -> dict[str, bool]:
    """Train two weights at a small rate, with and without clearing."""
    cleared, kept = losses_of_two_weights(0.01, clears=True), losses_of_two_weights(0.01, clears=False)
    return {
        "at a small rate, forgetting `zero_grad()` keeps the loss from settling": cleared[-1] < 0.001
        and max(kept[-50:]) > 0.01,
        "the loss then hardly changes": max(kept) - min(kept) < 0.5 * kept[0],
    }


@claim(
    "C232",
    true="`no_grad` does cut the way, and a frozen layer does stay as it is. But gradients pass *through* it: the "
    "layer before got its gradient, and learned.",
    false="Two of the three hold: under `no_grad` the layers before got nothing, and the frozen layer itself was not "
    "moved.",
    depends="Right: frozen means *not updated*, not *impassable*. `no_grad` and `detach` are what closes the road.",
)
def frozen_is_not_impassable() -> dict[str, bool]:
    """Compute through three layers, the middle one frozen, and then with the first two under `no_grad`."""

    def layers_with_gradients(freezes: bool) -> list[bool]:
        layers = [nn.Linear(2, 2) for _ in range(3)]
        layers[1].requires_grad_(not freezes)
        with torch.set_grad_enabled(freezes):
            hidden = layers[1](layers[0](torch.ones(1, 2)))
        layers[2](hidden).sum().backward()
        return [layer.weight.grad is not None for layer in layers]

    frozen, under_no_grad = layers_with_gradients(True), layers_with_gradients(False)
    return {
        "under `no_grad` the layers before get no gradient": under_no_grad == [False, False, True],
        "a layer with `requires_grad=False` gets none itself": not frozen[1],
        "nor do the layers before it": not frozen[0],
    }


def fitted_line(*, keeps_shapes: bool) -> tuple[float, float, float]:
    """Fit y = 3x + 2 by the mean square; return the first and the last loss, and the true error at the end.

    keeps_shapes: whether the answers have the shape of the predictions, or are one row beside one column.
    """
    x = torch.linspace(-1, 1, 50).unsqueeze(1)
    y = 3 * x + 2
    line, seen = nn.Linear(1, 1), []
    optimizer = torch.optim.SGD(line.parameters(), lr=0.2)
    for _ in range(100):
        optimizer.zero_grad()
        loss = functional.mse_loss(line(x), y if keeps_shapes else y.squeeze(1))
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    return seen[0], seen[-1], (line(x) - y).square().mean().item()


@claim(
    "C234",
    true="Yes. The loss fell, nothing was red, and the line was wrong: a column against a row had been compared each "
    "with each, and what got smaller was the distance from the *mean*.",
    false="A falling loss looks like proof. It proves that the number falls, and you have to know what the number is.",
    depends="A standard loss with the right shapes measures what its name says. To know that these are the shapes, you "
    "have to ask.",
)
def a_wrong_number_falls_too() -> dict[str, bool]:
    """Fit a line with the shapes in order and with a row beside a column."""
    first, last, error = fitted_line(keeps_shapes=False)
    return {
        "a loss that measures the wrong thing falls without an error": last < 0.8 * first,
        "what was to be learned is not": error > 1,
        "with the right thing measured, it is": fitted_line(keeps_shapes=True)[2] < 0.001,
    }


def is_nan_after(inputs: Tensor) -> bool:
    """Tell whether the loss of a layer is NaN for these inputs."""
    return functional.cross_entropy(nn.Linear(2, 2)(inputs), torch.tensor([0, 1])).isnan().item()


@claim(
    "C237",
    true="Yes, all three are common, and each has its cure: at a hundredth of the rate the same training was fine, "
    "data can be looked through, and anomaly mode names the operation.",
    false="There are other causes too, but these three are the first to look for; each of them made a NaN below.",
    depends="Which of the three it is depends on the program. Together they are a good list, quickly worked through.",
)
def three_causes_of_nan() -> dict[str, bool]:
    """Produce NaN by the rate, by the data and by log(0), and have the last one named."""
    inputs = torch.ones(2, 2)
    spoiled = inputs.clone()
    spoiled[0, 0] = math.nan
    start = torch.zeros(1, requires_grad=True)

    def backward_with_names() -> None:
        with torch.autograd.set_detect_anomaly(True):
            (start * start.log()).sum().backward()

    return {
        "too large a rate makes it NaN, two powers of ten less do not": not math.isfinite(
            losses(torch.optim.SGD, 10)[-1]
        )
        and math.isfinite(losses(torch.optim.SGD, 0.1)[-1]),
        "one NaN in the data makes it NaN": is_nan_after(spoiled) and not is_nan_after(inputs),
        "0 times log(0) is NaN": (start * start.log()).isnan().item(),
        "anomaly mode names the operation": "Backward0" in error_of(backward_with_names),
    }


@claim(
    "C238",
    true="The danger is real, but imbalance has no part in it: with balanced labels a hand-written log(softmax) was "
    "infinite just so, once a probability was rounded to 0.",
    false="In a formula written by hand log(0) does happen. The built-in loss works on logits and stayed finite.",
    depends="Right: by hand, yes; built in, no. And whether classes are balanced makes no difference to either.",
)
def rounding_and_not_imbalance() -> dict[str, bool]:
    """Compute the loss of confident, wrong logits by hand, for two mixes of labels, and by the built-in function."""
    balanced, imbalanced = torch.tensor([0, 1] * 50), torch.tensor([0] * 99 + [1])

    def by_hand(labels: Tensor) -> Tensor:
        logits = 200 * functional.one_hot(1 - labels, 2).float()  # confident, and wrong
        return -logits.softmax(1).log()[torch.arange(len(labels)), labels].mean()

    built_in = functional.cross_entropy(200 * functional.one_hot(1 - balanced, 2).float(), balanced)
    return {
        "log(softmax) by hand becomes infinite with imbalanced classes": by_hand(imbalanced).isinf().item(),
        "with balanced classes it stays finite": by_hand(balanced).isfinite().item(),
        "the built-in loss becomes infinite as well": built_in.isinf().item(),
    }


@claim(
    "C239",
    true="Yes. It is False for NaN and for infinity, and it costs one line. Without it a single bad batch made every "
    "weight NaN; with it they were still good.",
    false="You may hope that the next batch repairs it. It cannot: from a NaN nothing but NaN is computed.",
    depends="On a GPU the test waits for the device, so not every step may want it. What it says is right everywhere.",
)
def stop_before_the_weights_are_spoiled() -> dict[str, bool]:
    """Train on batches of which one holds an infinite value, with and without the guard."""
    finite = [torch.isfinite(torch.tensor(value)).item() for value in (math.nan, math.inf, 1.0)]

    def weights_after(guards: bool) -> Tensor:
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for value in (1.0, math.inf, 1.0):
            loss = model(torch.full((4, 2), value)).square().mean()
            if guards and not torch.isfinite(loss):
                break
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return model.weight.detach()

    return {
        "`isfinite` is False for NaN and infinity, and True for a number": finite == [False, False, True],
        "without a guard one bad batch spoils the weights": not weights_after(guards=False).isfinite().any(),
        "with it they stay good": weights_after(guards=True).isfinite().all().item(),
    }
