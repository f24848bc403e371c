"""Measurements for the topic "Data": random numbers in data sets, augmentation, and what counts as a leak."""

import random
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from labkit.exercises.claims import claim
from labkit.exercises.ledger.data_processes import START


class OwnGenerator(Dataset):
    """Four samples, each drawn from a generator that the data set keeps."""

    def __init__(self) -> None:
        self.draws = random.Random(0)  # one of Python's: torch's does not reach workers that start anew

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return self.draws.random()


class SeededByIndex(OwnGenerator):
    """Four samples, each drawn from a generator that starts anew from the sample's index."""

    def __getitem__(self, index: int) -> float:
        self.draws.seed(index)
        return super().__getitem__(index)


def two_epochs(samples: Dataset, workers: int) -> list[list[float]]:
    """Return what a data set yields in two epochs with this many workers, a sample a batch."""
    loader = DataLoader(samples, batch_size=1, num_workers=workers, multiprocessing_context=START if workers else None)
    return [[sample.item() for sample in loader] for _ in range(2)]


@claim(
    "C166",
    true="It is worse, and the other way round: both workers got a copy of the generator and drew the *same* numbers. "
    "You augment less than you think. What does hold: the numbers follow the number of workers.",
    false="Half right: they do not draw different numbers, they draw equal ones, again in each epoch. Repeatable it is "
    "only as long as nobody changes the number of workers.",
    depends="Right. The copies draw alike, and another number of workers gives a sample other numbers. Derive the "
    "numbers from (seed, epoch, index) and both faults are gone.",
)
def copies_of_a_generator_draw_alike() -> dict[str, bool]:
    """Keep a generator in a data set and read two epochs with two workers and with none."""
    first, second = two_epochs(OwnGenerator(), workers=2)
    alone, _ = two_epochs(OwnGenerator(), workers=0)
    return {
        "the two workers draw different numbers": first[0] != first[1],
        "the next epoch draws different numbers": first != second,
        "with another number of workers a sample gets other numbers": first != alone,
    }


@claim(
    "C167",
    true="Repeatable it is, and too much so: each epoch drew the same numbers for a sample. That is one fixed change "
    "for each picture, hardly an augmentation.",
    false="The idea is sound: workers made no difference any more. Only the epoch is missing in the seed.",
    depends="Right. The index makes the numbers independent of the workers, and the epoch must join it, or else no "
    "epoch brings anything new. Seed by (run seed, epoch, index).",
)
def an_index_alone_repeats_each_epoch() -> dict[str, bool]:
    """Seed by the index, and compare workers and epochs."""
    first, second = two_epochs(SeededByIndex(), workers=2)
    return {
        "the numbers are the same with and without workers": [first, second] == two_epochs(SeededByIndex(), workers=0),
        "different samples get different numbers": len(set(first)) == 4,
        "the next epoch draws other numbers, as augmentation should": first != second,
    }


def patterns_in_noise(count: int = 300) -> tuple[Tensor, Tensor]:
    """Return pictures (count, 8, 8) of ten patterns, blurred by noise, and which pattern each shows (count,)."""
    draws, labels = torch.Generator().manual_seed(0), torch.arange(count) % 10
    patterns = torch.randn(10, 8, 8, generator=draws)
    return patterns[labels] + 1.5 * torch.randn(count, 8, 8, generator=draws), labels


def class_means(inputs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean picture of each class: the simplest classifier takes the nearest."""
    return torch.stack([inputs[labels == label].mean(dim=0) for label in labels.unique()])


def accuracy(means: Tensor, inputs: Tensor, labels: Tensor) -> float:
    """Return the share of inputs whose nearest mean is that of their class."""
    nearest = torch.cdist(inputs.flatten(1), means.flatten(1)).argmin(dim=1)
    return float((nearest == labels).float().mean())


def shifted(inputs: Tensor, draws: torch.Generator) -> Tensor:
    """Return pictures shifted by up to two pixels, each on its own; what leaves on one side returns on the other."""
    steps = torch.randint(-2, 3, (len(inputs), 2), generator=draws).tolist()
    return torch.stack([picture.roll(step, (-2, -1)) for picture, step in zip(inputs, steps, strict=True)])


@claim(
    "C176",
    true="Yes. The same classifier on the same pictures had one value without augmentation, and with it a lower one, "
    "another each time.",
    false="You may know test-time augmentation: the mean over several views of a picture, which is done on purpose and "
    "may even help. One random view for each picture only cost right answers.",
    depends="An average over several views would be a method of its own. A single random change, as in training, made "
    "the metric lower and let it waver.",
)
def augmented_evaluation_is_lower_and_wavers() -> dict[str, bool]:
    """Evaluate one fixed classifier of patterns twice as they are, and three times with random shifts."""
    inputs, labels = patterns_in_noise()
    means, draws = class_means(inputs[:150], labels[:150]), torch.Generator().manual_seed(0)
    clean = [accuracy(means, inputs[150:], labels[150:]) for _ in range(2)]
    augmented = [accuracy(means, shifted(inputs[150:], draws), labels[150:]) for _ in range(3)]
    return {
        "prepared the same way, the pictures give the same accuracy each time": clean[0] == clean[1],
        "with random shifts the accuracy differs from time to time": len(set(augmented)) > 1,
        "with random shifts it is lower": max(augmented) < clean[0] - 0.05,
    }


def trained(evaluate: Callable[[Tensor], None]) -> Tensor:
    """Train a linear classifier of the patterns, evaluating it after each step; return its weights (64, 10)."""
    inputs, labels = patterns_in_noise()
    weights = torch.zeros(64, 10, requires_grad=True)
    for _ in range(10):
        loss = nn.functional.cross_entropy(inputs[:150].flatten(1) @ weights, labels[:150])
        (gradient,) = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            weights -= 0.1 * gradient
            evaluate(weights)
    return weights.detach()


@claim(
    "C177",
    true="It is a mistake, and it has another name. The metric came out too low, while a leak makes it too high; and "
    "the trained weights were the same to the last bit.",
    false="Right. A leak carries something of the validation data into the training: shared statistics, duplicates, "
    "choices by the test score. Augmenting only spoils the measurement.",
    depends="Only an augmentation that mixes in *training* pictures would join the two. Shifting or turning the "
    "validation pictures carried nothing into the weights.",
)
def nothing_flows_into_the_weights() -> dict[str, bool]:
    """Train twice from the same start, validating on pictures as they are and on shifted ones."""
    inputs, labels = (values[150:] for values in patterns_in_noise())
    draws, right = torch.Generator().manual_seed(0), {}

    def plain(weights: Tensor) -> None:
        right["plain"] = int(((inputs.flatten(1) @ weights).argmax(dim=1) == labels).sum())

    def augmented(weights: Tensor) -> None:
        right["augmented"] = int(((shifted(inputs, draws).flatten(1) @ weights).argmax(dim=1) == labels).sum())

    return {
        "the trained weights change by it": not torch.equal(trained(plain), trained(augmented)),
        "the metric comes out too high by it": right["augmented"] > right["plain"],
    }
