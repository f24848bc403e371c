"""Measurements for the topic "Data": what normalising the inputs does, and whose numbers it takes."""

import math

import torch
from torch import Tensor, nn
from torchvision.models import ResNet18_Weights

from labkit import data
from labkit.exercises.claims import claim, judged

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def standardised(images: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """Return images (count, channels, height, width) minus the mean, divided by the deviation of each channel."""
    return (images - mean[:, None, None]) / deviation[:, None, None]


@claim(
    "C170",
    true="With weights that were pretrained on ImageNet, yes: they carry these numbers with them. Other pictures have "
    "other numbers; the dim ones below kept a mean far from 0.",
    false="They are no magic numbers, but they are right where the weights were trained with them: a pretrained "
    "network has to get the inputs that it knows.",
    depends="Right: they belong to ImageNet's pictures and to the weights trained on them. For a network of your own "
    "compute your own, on the training part only.",
)
def the_numbers_belong_to_imagenet() -> dict[str, bool]:
    """Read the numbers that pretrained weights carry, and normalise dim pictures of drawn shapes by them."""
    preparation = ResNet18_Weights.IMAGENET1K_V1.transforms()
    images = data.shapes(200).images.float() / 255 / 3  # as if little light had fallen on them
    result = standardised(images, *map(torch.tensor, IMAGENET))
    means, deviations = result.mean(dim=(0, 2, 3)), result.std(dim=(0, 2, 3))
    return {
        "weights pretrained on ImageNet come with these numbers": (tuple(preparation.mean), tuple(preparation.std))
        == IMAGENET,
        "dim pictures get mean 0 and deviation 1 by them": bool(
            ((means.abs() < 0.1) & ((deviations - 1).abs() < 0.1)).all()
        ),
    }


def losses(inputs: Tensor, labels: Tensor, rate: float = 0.1) -> list[float]:
    """Train a small network for 60 steps of SGD and return the loss of each step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(inputs.shape[1], 32), nn.ReLU(), nn.Linear(32, 10))
    parameters, history = list(model.parameters()), []
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        history.append(loss.item())
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= rate * gradient
    return history


@claim(
    "C171",
    true="Yes. With raw values the gradients were far too large: the first step threw the weights away, and the "
    "loss leapt up. Standardised, the same network learned with the same steps.",
    false="An optimizer that adapts its steps, such as Adam, hides much of it. Plain SGD does not, and the raw run "
    "below ended far above the other.",
    depends="How much it matters depends on the optimizer. The direction does not: raw began with a huge loss and "
    "ended worse.",
)
def raw_values_train_badly() -> dict[str, bool]:
    """Train one network with one step size on raw values from 0 to 255 and on the same values standardised."""
    labels = torch.arange(200) % 10
    raw = (100 + 40 * torch.randn(10, 64)[labels] + 20 * torch.randn(200, 64)).clamp(0, 255)
    of_raw, of_standardised = losses(raw, labels), losses((raw - raw.mean()) / raw.std(), labels)
    return {
        "with raw values the early loss is many times as large": max(of_raw[:5]) > 10 * max(of_standardised[:5]),
        "it is unsteady: it rises after the first step": of_raw[1] > of_raw[0],
        "after 60 steps the standardised values have the lower loss by far": of_standardised[-1] < of_raw[-1] / 3,
    }


judged(
    "C174",
    "The 50,000 pictures have to be fetched first, and a demonstration needs no network. With them on your disk, "
    "`labkit.data.cifar10()` lets you compute the numbers in one line.",
    true="Yes, over all pixels of the training part. A deviation of about 0.20, which is often printed, is another "
    "quantity: the mean of the deviations within single pictures, which misses how much pictures differ.",
    false="You may know 0.2023, 0.1994, 0.2010 for the deviations. Those are the means of the deviations of single "
    "pictures; over all pixels it is about 0.247, 0.243, 0.261.",
    depends="It depends on the deviation that is meant. For normalising it is the one over all pixels, and for this "
    "the numbers in the sentence are right.",
)


@claim(
    "C175",
    true="Mean and variance are as you say. The shape is not: dark pictures with a few bright places stayed just that, "
    "and nine of ten values lay below the mean.",
    false="The name is misleading, yes, but part of it holds: with the set's own numbers the mean is 0 and the "
    "variance 1, to the last digits.",
    depends="Right: mean 0 and variance 1, and the shape of before. Shifting and scaling bends nothing; no network "
    "needs a bell curve either.",
)
def normalising_keeps_the_shape() -> dict[str, bool]:
    """Normalise black pictures with a tenth of white pixels by their own numbers."""
    pixels = (torch.rand(200, 1, 20, 20) < 0.1).double()
    result = standardised(pixels, pixels.mean().reshape(1), pixels.std().reshape(1))
    below = float((result < 0).double().mean())
    within_one = float((result.abs() < 1).double().mean())
    return {
        "the mean is 0": abs(float(result.mean())) < 1e-9,
        "the variance is 1": abs(float(result.var()) - 1) < 1e-9,
        "half of the values lie below the mean, as in a normal distribution": abs(below - 0.5) < 0.05,
        "68 % lie within one deviation, as in a normal distribution": abs(within_one - math.erf(0.5**0.5)) < 0.05,
    }
