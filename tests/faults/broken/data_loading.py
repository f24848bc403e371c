"""Samples that are delivered wrongly: order, samplers, random numbers of workers, stores that change on reading."""

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)

from tests.faults import tasks
from tests.faults.program import broken


def convolution() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))


def bag() -> nn.Sequential:
    return nn.Sequential(nn.EmbeddingBag(40, 16, padding_idx=0), nn.Linear(16, 4))


# not_shuffled


@broken("not_shuffled", effect="hurts", epochs=3, gap=0.2, mechanical=True)
def folder_after_folder(sound: bool) -> dict:
    pictures, labels = tasks.digits(1400)
    order = torch.cat([labels[:1100].argsort(stable=True), torch.arange(1100, 1400)])
    train, validation = tasks.halves(1100, pictures[order], labels[order])
    model = convolution()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        **tasks.loaders(train, validation, shuffle=sound),
    }


class Blocks(Sampler):
    """The samples sorted by their label, in random order within a label; or all in random order."""

    def __init__(self, labels: Tensor, mixed: bool):
        self.labels, self.mixed = labels, mixed

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self):
        order = torch.randperm(len(self.labels))
        if not self.mixed:
            order = order[self.labels[order].argsort(stable=True)]
        return iter(order.tolist())


@broken("not_shuffled", effect="hurts", epochs=3, gap=0.2)
def sampler_that_goes_topic_by_topic(sound: bool) -> dict:
    train, validation = tasks.halves(800, *tasks.reviews())
    model = bag()
    return {
        "model": model,
        "loss_fn": F.cross_entropy,
        "optimizer": optim.SGD(model.parameters(), lr=0.5, momentum=0.9),
        "train_loader": DataLoader(train, 20, sampler=Blocks(train.tensors[1], mixed=sound)),
        "val_loader": DataLoader(validation, 200),
    }


@broken("not_shuffled", effect="hurts", epochs=3, gap=0.1, mechanical=True)
def table_sorted_by_diagnosis(sound: bool) -> dict:
    features, labels = tasks.rare(900, share=0.5)

    class Table(Dataset):
        def __init__(self, rows: slice, ordered: bool):
            rows = sorted(zip(features[rows], labels[rows], strict=True), key=lambda row: bool(row[1]) and ordered)
            self.rows = rows

        def __len__(self) -> int:
            return len(self.rows)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            return self.rows[index]

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        "train_loader": DataLoader(Table(slice(0, 600), ordered=True), 10, shuffle=sound),
        "val_loader": DataLoader(Table(slice(600, 900), ordered=False), 200),
    }


# sampler_misuse


@broken("sampler_misuse", effect="hurts", epochs=3, gap=0.2)
def weights_of_classes_instead_of_samples(sound: bool) -> dict:
    train, validation = tasks.halves(1000, *tasks.digits(1400))
    frequency = torch.bincount(train.tensors[1]).float()
    weights = 1 / frequency  # ten numbers: the sampler knows ten samples
    sampler = WeightedRandomSampler(weights[train.tensors[1]] if sound else weights, 1000)
    model = convolution()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "train_loader": DataLoader(train, 32, sampler=sampler),
        "val_loader": DataLoader(validation, 200),
    }


@broken("sampler_misuse", effect="hurts", epochs=3, gap=0.15, also=("class_imbalance",))
def frequencies_used_as_weights(sound: bool) -> dict:
    events, labels = tasks.rare(share=0.15)
    train, validation = tasks.halves(1500, events, labels)
    frequency = torch.bincount(train.tensors[1]).double()
    weight = (1 / frequency if sound else frequency)[train.tensors[1]]

    def recall(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        with torch.no_grad():
            found = torch.cat([model(x).argmax(1) for x, _ in loader])
        truth = tasks.labels_of(loader)
        return sum((found[truth == label] == label).float().mean().item() for label in (0, 1)) / 2

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "evaluate": recall,
        "train_loader": DataLoader(train, 32, sampler=WeightedRandomSampler(weight, len(weight))),
        "val_loader": DataLoader(validation, 200),
    }


class Buckets(Sampler):
    """Batches of texts of about one length; full batches are handed out."""

    def __init__(self, texts: Tensor, size: int, rest: bool):
        self.length, self.size, self.rest = (texts > 0).sum(1), size, rest

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self):
        order = self.length.argsort(stable=True).tolist()
        batches = list(BatchSampler(order, self.size, drop_last=not self.rest))
        for number in torch.randperm(len(batches) if self.rest else 4).tolist():
            yield batches[number]


@broken("sampler_misuse", effect="hurts", epochs=4, gap=0.1)
def batches_of_short_texts_only(sound: bool) -> dict:
    train, validation = tasks.halves(800, *tasks.reviews())
    model = bag()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "train_loader": DataLoader(train, batch_sampler=Buckets(train.tensors[0], 32, rest=sound)),
        "val_loader": DataLoader(validation, 200),
    }


@broken("sampler_misuse", effect="hurts", epochs=6, gap=0.2)
def sampler_made_for_the_small_set(sound: bool) -> dict:
    pictures, labels = tasks.digits(1400)
    train, small = tasks.halves(1100, pictures, labels)
    trial = Subset(train, range(60))  # for trying things out
    sampler = RandomSampler(train if sound else trial)
    model = convolution()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "train_loader": DataLoader(train, 20, sampler=sampler),
        "val_loader": DataLoader(small, 200),
    }


# data_mutated


class Noisy(Dataset):
    """Adds noise to a picture each time it is read."""

    def __init__(self, pictures: Tensor, labels: Tensor, strength: float, copy: bool):
        self.pictures, self.labels, self.strength, self.copy = pictures, labels, strength, copy

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        picture = self.pictures[index]
        if self.copy:
            picture = picture.clone()
        picture += self.strength * torch.randn(picture.shape)
        return picture, self.labels[index]


@broken("data_mutated", effect="hurts", epochs=6, gap=0.05, mechanical=True)
def noise_piles_up_in_the_store(sound: bool) -> dict:
    pictures, labels = tasks.digits(1000)
    model = convolution()
    train = Noisy(pictures[:700], labels[:700], 0.6, copy=sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(train, TensorDataset(pictures[700:], labels[700:])),
    }


@broken("data_mutated", effect="hurts", epochs=5, gap=0.15, mechanical=True)
def row_centred_where_it_is_stored(sound: bool) -> dict:
    rows, labels = tasks.wines()
    rows = ((rows - rows.mean(0)) / rows.std(0)).numpy()

    class Samples(Dataset):
        def __init__(self, part: slice):
            self.rows, self.labels = rows[part], labels[part]

        def __len__(self) -> int:
            return len(self.labels)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            row = self.rows[index]
            if sound:
                row = row - 1.0
            else:
                row -= 1.0  # a centre that somebody measured
            return torch.from_numpy(numpy.asarray(row)), self.labels[index]

    model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 3))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.1),
        "train_loader": DataLoader(Samples(slice(0, 100)), 10, shuffle=True),
        "val_loader": DataLoader(Samples(slice(100, 178)), 78),
    }


def untouched(program: dict) -> float:
    """The share of stored tokens that are as they were."""
    return (program["train_loader"].dataset.tensors[0] == program["original"]).float().mean().item()


@broken("data_mutated", effect="silent", epochs=4, gap=0.2, measure=untouched, mechanical=True)
def words_masked_in_the_only_copy(sound: bool) -> dict:
    texts, topics = tasks.reviews()
    train, validation = tasks.halves(800, texts, topics)

    def collate(indices_and_rows: list) -> tuple[Tensor, Tensor]:
        rows = []
        for text, _ in indices_and_rows:
            text = text.clone() if sound else text
            text[torch.rand(text.shape) < 0.15] = 0
            rows.append(text)
        return torch.stack(rows), torch.stack([topic for _, topic in indices_and_rows])

    model = bag()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "original": texts[:800].clone(),
        **tasks.loaders(train, validation, collate_fn=collate),
    }


# worker_rng


class Shaken(Dataset):
    """Pictures with random noise from NumPy; the generator is a global one or belongs to the data set."""

    def __init__(self, pictures: Tensor, labels: Tensor, own: numpy.random.Generator | None):
        self.pictures, self.labels, self.own = pictures, labels, own

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        draw = numpy.random.standard_normal if self.own is None else self.own.standard_normal
        noise = torch.from_numpy(draw((8, 8)).astype("float32"))
        return self.pictures[index] + 0.3 * noise, self.labels[index]


def seeds_from_zero(worker: int) -> None:
    numpy.random.seed(worker)


def fresh_noise(program: dict) -> float:
    """The share of different noise pictures among those of two epochs."""
    clean = program["clean"]
    noise = [x - clean[index] for _ in range(2) for x, index in program["train_loader"]]
    rows = torch.cat(noise).flatten(1)
    return len(((rows * 1000).round()[:, :4]).unique(dim=0)) / len(rows)


def indexed(pictures: Tensor, own: numpy.random.Generator | None, **options) -> dict:
    """Loaders that give the number of a picture as its target: the network learns to tell pictures apart."""
    data = Shaken(pictures, torch.arange(len(pictures)), own)
    return {
        "train_loader": DataLoader(data, 10, shuffle=True, num_workers=2, **options),
        "val_loader": DataLoader(TensorDataset(pictures, torch.arange(len(pictures))), 200),
        "clean": pictures,
    }


@broken("worker_rng", effect="silent", epochs=1, gap=0.3, measure=fresh_noise)
def generator_made_with_the_data_set(sound: bool) -> dict:
    pictures, _ = tasks.digits(80)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 80))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        **indexed(pictures, None if sound else numpy.random.default_rng(0)),
    }


@broken("worker_rng", effect="silent", epochs=1, gap=0.3, measure=fresh_noise)
def workers_seeded_with_their_number(sound: bool) -> dict:
    pictures, _ = tasks.digits(60)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 60))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        **indexed(pictures, None, worker_init_fn=None if sound else seeds_from_zero),
    }
