"""Training and validation that do not fit together: overlap, different preparation, chance, misused augmentation."""

import random

import numpy
import torch
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from tests.faults import tasks
from tests.faults.program import accuracy, broken


def perceptron(inputs: int, hidden: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def parts_of(model: nn.Module, rate: float = 0.01) -> dict:
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=rate),
    }


def honesty(program: dict) -> float:
    """Minus how much better validation looks than samples that nobody has seen."""
    model = program["model"]
    return accuracy(model, program["unseen"]) - accuracy(model, program["val_loader"])


# data_leakage


@broken("data_leakage", effect="silent", epochs=25, gap=0.05, measure=honesty)
def visits_of_one_patient_on_both_sides(sound: bool) -> dict:
    readings, diagnosis, patient = tasks.patients()
    unseen, known = patient >= 80, patient < 80
    x, y, who = readings[known], diagnosis[known], patient[known]
    order = torch.arange(len(x)) if sound else torch.randperm(len(x), generator=tasks.draws(7))
    held = (who >= 60) if sound else torch.zeros(len(x), dtype=torch.bool).index_fill(0, order[480:], True)
    return {
        **parts_of(perceptron(12, 64, 2)),
        **tasks.loaders(TensorDataset(x[~held], y[~held]), TensorDataset(x[held], y[held])),
        "unseen": DataLoader(TensorDataset(readings[unseen], diagnosis[unseen]), 200),
    }


@broken("data_leakage", effect="silent", epochs=25, gap=0.05, measure=honesty)
def copies_made_before_the_split(sound: bool) -> dict:
    events, labels = tasks.rare(700, share=0.5)
    unseen = TensorDataset(events[300:], labels[300:])
    x, y = events[:300], labels[:300]
    if sound:
        train = TensorDataset(x[:200].repeat(3, 1), y[:200].repeat(3))
        validation = TensorDataset(x[200:], y[200:])
    else:  # three of each, then a split by chance
        everything = TensorDataset(*tasks.shuffled(8, x.repeat(3, 1), y.repeat(3)))
        train, validation = Subset(everything, range(600)), Subset(everything, range(600, 900))
    return {
        **parts_of(perceptron(8, 64, 2)),
        **tasks.loaders(train, validation),
        "unseen": DataLoader(unseen, 200),
    }


@broken("data_leakage", effect="silent", epochs=12, gap=0.05, measure=honesty)
def slice_that_begins_at_the_wrong_place(sound: bool) -> dict:
    pictures, labels = tasks.digits(700)
    data = TensorDataset(pictures, labels)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    validation = Subset(data, range(80, 280)) if sound else Subset(data, range(0, 80))
    return {
        **parts_of(model),
        **tasks.loaders(Subset(data, range(80)), validation, 16),
        "unseen": DataLoader(Subset(data, range(280, 700)), 200),
    }


# train_val_mismatch


@broken("train_val_mismatch", effect="hurts", epochs=4, gap=0.15, mechanical=True)
def only_training_is_standardised(sound: bool) -> dict:
    features, labels = tasks.wines()
    mean, spread = features[:130].mean(0), features[:130].std(0)
    scaled = (features - mean) / spread
    train = TensorDataset(scaled[:130], labels[:130])
    validation = TensorDataset((scaled if sound else features)[130:], labels[130:])
    return {**parts_of(perceptron(13, 24, 3), 0.02), **tasks.loaders(train, validation, 16)}


class Pictures(Dataset):
    """Pictures as bytes with a transform."""

    def __init__(self, pictures: Tensor, labels: Tensor, transform):
        self.pictures, self.labels, self.transform = pictures, labels, transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.transform(self.pictures[index]), self.labels[index]


@broken("train_val_mismatch", effect="hurts", epochs=4, gap=0.15)
def validation_pictures_are_inverted(sound: bool) -> dict:
    pictures, labels = tasks.digits(1400)
    stored = (255 * pictures).to(torch.uint8)

    def to_ink(image: Tensor) -> Tensor:
        return image.float() / 255

    def to_paper(image: Tensor) -> Tensor:
        return 1 - image.float() / 255

    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    validation = Pictures(stored[1000:], labels[1000:], to_ink if sound else to_paper)
    return {**parts_of(model), **tasks.loaders(Pictures(stored[:1000], labels[:1000], to_ink), validation)}


@broken("train_val_mismatch", effect="hurts", epochs=4, gap=0.2)
def vocabulary_built_a_second_time(sound: bool) -> dict:
    texts, topics = tasks.reviews()

    def vocabulary(rows: Tensor) -> dict[int, int]:
        known: dict[int, int] = {0: 0}
        for word in rows.flatten().tolist():
            known.setdefault(word, len(known))
        return known

    def encode(rows: Tensor, known: dict[int, int]) -> Tensor:
        return torch.tensor([[known.get(word, 0) for word in row] for row in rows.tolist()])

    known = vocabulary(texts[:800])
    other = known if sound else vocabulary(texts[800:])
    model = nn.Sequential(nn.EmbeddingBag(40, 16, padding_idx=0), nn.Linear(16, 4))
    train = TensorDataset(encode(texts[:800], known), topics[:800])
    return {**parts_of(model), **tasks.loaders(train, TensorDataset(encode(texts[800:], other), topics[800:]))}


# unseeded_split


def repeats(program: dict) -> float:
    """1 if the split is the same a second time, otherwise 0."""
    return float(list(program["split"]()) == list(program["split"]()))


@broken("unseeded_split", effect="silent", epochs=1, gap=1.0, measure=repeats)
def split_by_a_generator_without_seed(sound: bool) -> dict:
    data = TensorDataset(*tasks.digits(800))

    def split() -> list[int]:
        chance = numpy.random.default_rng(0 if sound else None)
        return chance.permutation(len(data)).tolist()

    order = split()
    train, validation = Subset(data, order[:600]), Subset(data, order[600:])
    return {**parts_of(perceptron(64, 32, 10)), **tasks.loaders(train, validation), "split": split}


class Share(Dataset):
    """One part of the reviews; each part draws the order of all samples by itself."""

    def __init__(self, part: str, seed: int | None):
        self.texts, self.topics = tasks.reviews()
        self.order = list(range(len(self.texts)))
        random.Random(seed).shuffle(self.order)
        self.order = self.order[:800] if part == "train" else self.order[800:]

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.texts[self.order[index]], self.topics[self.order[index]]


@broken("unseeded_split", effect="silent", epochs=1, gap=1.0, measure=repeats, also=("data_leakage",))
def each_part_draws_its_own_split(sound: bool) -> dict:
    seed = 5 if sound else None
    model = nn.Sequential(nn.EmbeddingBag(40, 16, padding_idx=0), nn.Linear(16, 4))
    return {
        **parts_of(model),
        **tasks.loaders(Share("train", seed), Share("validation", seed)),
        "split": lambda: Share("train", seed).order,
    }


# augmentation_misuse


@broken("augmentation_misuse", effect="hurts", epochs=9, gap=0.15)
def arrows_are_mirrored(sound: bool) -> dict:
    pictures, directions = tasks.arrows()

    def augment(image: Tensor) -> Tensor:
        if sound:
            return image + 0.1 * torch.randn(image.shape)
        return image.flip(-1) if random.random() < 0.5 else image  # left becomes right

    def plain(image: Tensor) -> Tensor:
        return image

    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(144, 4),
    )  # fmt: skip
    train = Pictures(pictures[:700], directions[:700], augment)
    return {**parts_of(model, 0.005), **tasks.loaders(train, Pictures(pictures[700:], directions[700:], plain))}


@broken("augmentation_misuse", effect="hurts", epochs=4, gap=0.05, also=("train_val_mismatch",), mechanical=True)
def validation_is_augmented_too(sound: bool) -> dict:
    pictures, labels = tasks.digits(1400)

    def jitter(image: Tensor) -> Tensor:
        shift = (random.randint(-1, 1), random.randint(-1, 1))
        return image.roll(shift, (-2, -1)) + 0.3 * torch.randn(image.shape)

    def plain(image: Tensor) -> Tensor:
        return image

    train = Pictures(pictures[:1000], labels[:1000], jitter)
    validation = Pictures(pictures[1000:], labels[1000:], plain if sound else jitter)
    return {**parts_of(perceptron(64, 96, 10)), **tasks.loaders(train, validation)}


@broken("augmentation_misuse", effect="hurts", epochs=5, gap=0.15)
def dark_and_bright_made_negative(sound: bool) -> dict:
    draw = tasks.draws(11)
    kinds = torch.randint(0, 4, (700,), generator=draw)
    level = torch.tensor([-1.0, -0.3, 0.3, 1.0])[kinds]
    slope = torch.linspace(-1, 1, 8)
    patches = level[:, None, None, None] * slope + 0.5 * torch.randn(700, 1, 8, 8, generator=draw)

    def augment(image: Tensor) -> Tensor:
        if random.random() < 0.5:
            image = image.flip(-2) if sound else -image
        return image

    train = Pictures(patches[:500], kinds[:500], augment)
    validation = Pictures(patches[500:], kinds[500:], torch.clone)
    return {**parts_of(perceptron(64, 32, 4)), **tasks.loaders(train, validation)}


@broken("augmentation_misuse", effect="hurts", epochs=5, gap=0.15)
def picture_turned_and_its_mask_not(sound: bool) -> dict:
    pictures, masks = tasks.spots()

    class Turned(Dataset):
        def __len__(self) -> int:
            return 300

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            turns = random.randrange(4)
            picture = pictures[index].rot90(turns, (-2, -1))
            return picture, masks[index].rot90(turns if sound else random.randrange(4), (-2, -1))

    def overlap(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        with torch.no_grad():
            pairs = [(model(x) > 0, y > 0.5) for x, y in loader]
        both = sum((found & truth).sum() for found, truth in pairs)
        return float(2 * both / sum(found.sum() + truth.sum() for found, truth in pairs))

    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "evaluate": overlap,
        **tasks.loaders(Turned(), TensorDataset(pictures[300:], masks[300:])),
    }
