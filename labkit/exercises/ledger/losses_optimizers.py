"""Measurements for the topic "Losses and optimizers": what each optimizer makes of a gradient."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR

from labkit.exercises.claims import claim


def ways(optimizer_class: type, gradients: list[float], start: float = 0.0, **options: float) -> list[float]:
    """Give one weight these gradients, an update each, and return how far each update moved it."""
    weight = nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer, places = optimizer_class([weight], lr=0.1, **options), [start]
    for gradient in gradients:
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
        places.append(weight.item())
    return [places[turn] - places[turn + 1] for turn in range(len(gradients))]


def remembers(**options: float) -> bool:
    """Tell whether SGD still moves the weight when the gradient, after one of 1, is 0."""
    return ways(SGD, [1.0, 0.0], **options)[1] != 0


@claim(
    "C202",
    true="It has momentum when you ask for it. By default `momentum` is 0: the weight stopped as soon as the gradient "
    "was 0, and nothing was remembered.",
    false="Too hard: with `momentum=0.9` it is just that, and the weight rolled on. By default it is plain descent.",
    depends="Right. Pass `momentum=0.9` and it has it; leave it out and it has none, and needs no memory for it.",
)
def momentum_must_be_asked_for() -> dict[str, bool]:
    """Take the gradient away after one update, with momentum and by default."""
    return {
        "with `momentum=0.9` the weight rolls on without a gradient": remembers(momentum=0.9),
        "by default it does": remembers(),
    }


@claim(
    "C203",
    true="Yes. Gradients of 1 and of 1000 gave steps of the same size. And AdamW takes weight decay out of that "
    "machinery: it shrank the weight by a thousandth, where Adam made a full step of it.",
    false="You may have seen both give the same curve. Without weight decay they are the same; the improvement is in "
    "how the decay acts.",
    depends="Without weight decay AdamW does what Adam does, so nothing is lost. With it, AdamW is the one that "
    "decays as the number says; prefer it.",
)
def each_gradient_its_own_step() -> dict[str, bool]:
    """Give small and large gradients to Adam and SGD, and then no gradient but weight decay to Adam and AdamW."""
    small, large = (ways(Adam, [gradient])[0] for gradient in (1.0, 1000.0))
    plain_small, plain_large = (ways(SGD, [gradient])[0] for gradient in (1.0, 1000.0))
    decayed, decayed_apart = (ways(each, [0.0], start=10.0, weight_decay=0.01)[0] for each in (Adam, AdamW))
    alike = ways(Adam, [1.0, -2.0, 3.0]) == ways(AdamW, [1.0, -2.0, 3.0], weight_decay=0.0)
    return {
        "Adam makes a step of the same size of a gradient of 1 and of 1000": abs(small - large) < 1e-6,
        "SGD makes one a thousand times as large": abs(plain_large / plain_small - 1000) < 1e-6,
        "AdamW decays a weight of 10 by rate · decay · 10 = 0.01": abs(decayed_apart - 0.01) < 1e-9,
        "Adam makes a full step of 0.1 of the same decay": abs(decayed - 0.1) < 1e-6,
        "without decay the two are the same": alike,
    }


def lowest_error(optimizer_class: type, scales: Tensor, rates: tuple[float, ...]) -> float:
    """Fit a linear rule from noisy answers at each rate; return the smallest error on the answers without noise.

    scales: how large each of the inputs is. SGD runs with momentum and a cosine schedule, Adam as it is.
    """
    torch.manual_seed(0)
    inputs = torch.randn(256, len(scales)) * scales
    answers = inputs @ (torch.randn(len(scales)).sign() / scales)
    noisy, errors, updates = answers + torch.randn(256), [], 150
    for rate in rates:
        weights = nn.Parameter(torch.zeros(len(scales)))
        optimizer = optimizer_class([weights], lr=rate, **({"momentum": 0.9} if optimizer_class is SGD else {}))
        schedule = CosineAnnealingLR(optimizer, updates) if optimizer_class is SGD else None
        for _ in range(updates):
            chosen = torch.randint(0, 256, (16,))
            optimizer.zero_grad()
            functional.mse_loss(inputs[chosen] @ weights, noisy[chosen]).backward()
            optimizer.step()
            if schedule:
                schedule.step()
        errors.append(functional.mse_loss(inputs @ weights, answers).item())
    return min(errors)


@claim(
    "C204",
    true="On inputs of the same size SGD with cosine did end lower. On inputs of very different sizes Adam won, by "
    "far. Convolutional networks are often like the first, transformers like the second.",
    false="For some problems it is a fair recipe, and for convolutional networks it has a long record. Below, one of "
    "the two problems went its way.",
    depends="Right: it depends on the problem. Adam to try things out is hardly ever wrong; what ends best is found "
    "out by training.",
)
def each_wins_once() -> dict[str, bool]:
    """Let both run at a small and a large rate on two problems: inputs of one size, and of very different ones."""
    rates = (0.01, 0.3)
    alike, different = torch.ones(8), torch.logspace(-1.5, 0, 8)
    return {
        "where all inputs are of one size, SGD with cosine ends lower than Adam": lowest_error(SGD, alike, rates)
        < lowest_error(Adam, alike, rates),
        "where some inputs are thirty times as large, it does as well": lowest_error(SGD, different, rates)
        < lowest_error(Adam, different, rates),
    }
