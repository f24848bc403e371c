"""Measurements for the topic "Data": random numbers in data sets, augmentation, and what counts as a leak."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from labkit import data
from labkit.exercises.claims import claim
from labkit.exercises.ledger.data_processes import START


class OwnGenerator(Dataset):
    """Four samples, each drawn from a generator that the data set keeps."""

    def __init__(self) -> None:
        self.draws = torch.Generator().manual_seed(0)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return torch.rand(1, generator=self.draws).item()


class SeededByIndex(OwnGenerator):
    """Four samples, each drawn from a generator that starts anew from the sample's index."""

    def __getitem__(self, index: int) -> float:
        self.draws.manual_seed(index)
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
    true="Yes. The same classifier on the same digits had one value without augmentation, and with it a lower one, "
    "another each time.",
    false="You may know test-time augmentation: the mean over several views of a picture, which is done on purpose and "
    "may even help. One random view for each picture only cost right answers.",
    depends="An average over several views would be a method of its own. A single random change, as in training, made "
    "the metric lower and let it waver.",
)
def augmented_evaluation_is_lower_and_wavers() -> dict[str, bool]:
    """Evaluate one fixed classifier of digits twice as they are, and three times with random shifts."""
    digits = data.digits()
    inputs, labels = digits.images[:600].float(), digits.labels[:600]
    means, draws = class_means(inputs[:300], labels[:300]), torch.Generator().manual_seed(0)
    clean = [accuracy(means, inputs[300:], labels[300:]) for _ in range(2)]
    random = [accuracy(means, shifted(inputs[300:], draws), labels[300:]) for _ in range(3)]
    return {
        "prepared the same way, the digits give the same accuracy each time": clean[0] == clean[1],
        "with random shifts the accuracy differs from time to time": len(set(random)) > 1,
        "with random shifts it is lower": max(random) < clean[0] - 0.05,
    }


def trained(evaluate: Callable[[nn.Module], None]) -> Tensor:
    """Train a small classifier of digits, looking at the evaluation after each step; return its weights."""
    digits = data.digits()
    inputs, labels = digits.images[:300].float().flatten(1) / 255, digits.labels[:300]
    model = nn.Linear(inputs.shape[1], 10, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(10):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        with torch.no_grad():
            evaluate(model)
    return model.weight.detach()


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
    """Train twice from the same start, validating on digits as they are and on shifted ones."""
    digits = data.digits()
    inputs, labels = digits.images[300:450].float() / 255, digits.labels[300:450]
    draws, right = torch.Generator().manual_seed(0), {"clean": 0.0, "augmented": 0.0}

    def validate(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[nn.Module], None]:
        def evaluate(model: nn.Module) -> None:
            right[name] = float((model(change(inputs).flatten(1)).argmax(dim=1) == labels).float().mean())

        return evaluate

    clean = trained(validate("clean", lambda pictures: pictures))
    augmented = trained(validate("augmented", lambda pictures: shifted(pictures, draws)))
    return {
        "the trained weights change by it": not torch.equal(clean, augmented),
        "the metric comes out too high by it": right["augmented"] > right["clean"],
    }
