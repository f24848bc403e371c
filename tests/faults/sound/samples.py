"""Data, loaders and evaluations that look unusual and are meant."""

import numpy
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
)

from tests.faults.networks_c import Attention, Reader, Recurrent, dense, explained, small_cnn
from tests.faults.program import sound
from tests.faults.tasks_c import both, clusters, cut, draws, figures, handwriting, phrases, surface, vibrations


def program(model: nn.Module, data: dict, rate: float = 5e-3, **more) -> dict:
    optimizer = optim.Adam(model.parameters(), lr=rate)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **data, **more}


def val_loader(part: Dataset) -> DataLoader:
    return DataLoader(part, 200)


# where samples come from


class Stream(IterableDataset):
    """Gives samples one by one in a new order each time, as from a source without length."""

    def __init__(self, part: TensorDataset):
        self.part = part

    def __iter__(self):
        for place in torch.randperm(len(self.part)).tolist():
            yield self.part[place]


@sound("an IterableDataset: it has no length, and no sampler can shuffle it")
def stream_of_samples() -> dict:
    train, validation = clusters()
    return program(
        dense(10, 32, 4), {"train_loader": DataLoader(Stream(train), 32), "val_loader": val_loader(validation)}
    )


class Endless(IterableDataset):
    """Draws new samples for ever; an epoch is what the loader is told to take."""

    def __init__(self, samples: int):
        self.samples = samples

    def __iter__(self):
        for _ in range(self.samples):
            x = torch.randn(8)
            yield x, (x[0] * x[1] > 0).long()


@sound("new samples are drawn all the time, no sample comes twice", epochs=5)
def samples_drawn_on_the_way() -> dict:
    x = torch.randn(400, 8, generator=draws(51))
    validation = TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())
    data = {"train_loader": DataLoader(Endless(1000), 32), "val_loader": val_loader(validation)}
    return program(dense(8, 48, 48, 2), data, rate=0.01)


class Files(Dataset):
    """Bytes as they lie in a file, turned into numbers when a sample is asked for."""

    def __init__(self, part: TensorDataset, mean: float, deviation: float):
        pictures, self.labels = part.tensors
        self.bytes = (pictures * 255).round().to(torch.uint8).numpy()
        self.mean, self.deviation = mean, deviation

    def __len__(self):
        return len(self.bytes)

    def __getitem__(self, place):
        picture = torch.from_numpy(self.bytes[place].astype(numpy.float32) / 255)
        return (picture - self.mean) / self.deviation, int(self.labels[place])


@sound("bytes scaled by each sample, both parts with the statistics of training; labels are Python numbers")
def bytes_scaled_by_the_sample() -> dict:
    train, validation = handwriting(800)
    statistics = float(train.tensors[0].mean()), float(train.tensors[0].std())
    return program(small_cnn(), both((Files(train, *statistics), Files(validation, *statistics))))


@sound("inputs from 0 to 1 that nobody has centred")
def inputs_from_zero_to_one() -> dict:
    model = dense(64, 48, 10)
    return program(nn.Sequential(nn.Flatten(), model), both(handwriting()))


@sound("bytes scaled by the network, in its first lines")
def bytes_scaled_by_the_network() -> dict:
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = small_cnn()

        def forward(self, pictures):
            return self.body(pictures.float() / 127.5 - 1)

    parts = [
        TensorDataset((pictures * 255).round().to(torch.uint8), labels)
        for pictures, labels in (part.tensors for part in handwriting())
    ]
    return program(Scaled(), both(tuple(parts)), rate=0.01)


@sound("one-hot inputs: most are zero")
def one_hot_inputs() -> dict:
    parts = [TensorDataset(F.one_hot(x, 30).float(), y) for x, y in (part.tensors for part in phrases())]

    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(30, 24, batch_first=True)
            self.head = nn.Linear(24, 3)

        def forward(self, x):
            return self.head(self.rnn(x)[0].mean(1))

    return program(Counts(), both(tuple(parts)), rate=0.02)


@sound("counts of words: wide, sparse, some columns always zero")
def counted_words() -> dict:
    parts = [TensorDataset(F.one_hot(x, 60).sum(1).float(), y) for x, y in (part.tensors for part in phrases())]
    return program(dense(60, 32, 3), both(tuple(parts)))


@sound("double precision throughout")
def double_precision() -> dict:
    parts = [TensorDataset(x.double(), y.double()) for x, y in (part.tensors for part in surface())]
    more = {"loss_fn": nn.HuberLoss(), "evaluate": explained}
    return program(dense(5, 32, 32, 1).double(), both(tuple(parts))) | more


@sound("targets and outputs without a second axis, squeezed in the network")
def outputs_squeezed() -> dict:
    parts = [TensorDataset(x, y[:, 0]) for x, y in (part.tensors for part in surface())]
    model = nn.Sequential(*dense(5, 48, 48, 1), nn.Flatten(0))
    return program(model, both(tuple(parts))) | {"loss_fn": nn.MSELoss(), "evaluate": explained}


# how they are drawn


def rare_class() -> tuple[TensorDataset, TensorDataset]:
    """Return points of which one in ten is in class 1."""
    (x, y), (val_x, val_y) = (part.tensors for part in clusters(2))
    kept = (y == 0) | (torch.arange(len(y)) % 8 == 0)
    return TensorDataset(x[kept], y[kept]), TensorDataset(val_x, val_y)


def balanced_accuracy(model, loader) -> float:
    model.eval()
    with torch.no_grad():
        found, true = (torch.cat(each) for each in zip(*[(model(x).argmax(1), y) for x, y in loader], strict=True))
    return float(sum((found[true == label] == label).float().mean() for label in true.unique()) / len(true.unique()))


@sound("a weighted sampler draws the rare class as often as the other: samples come several times")
def weighted_sampler() -> dict:
    train, validation = rare_class()
    labels = train.tensors[1]
    weights = 1.0 / torch.bincount(labels)[labels]
    sampler = WeightedRandomSampler(weights, len(labels), replacement=True)
    data = {"train_loader": DataLoader(train, 32, sampler=sampler), "val_loader": val_loader(validation)}
    return program(dense(10, 32, 2), data, rate=0.01, evaluate=balanced_accuracy)


@sound("the rare class five times in a ConcatDataset")
def rare_class_repeated() -> dict:
    train, validation = rare_class()
    rare = Subset(train, (train.tensors[1] == 1).nonzero().flatten().tolist())
    return program(dense(10, 32, 2), both((ConcatDataset([train, *4 * [rare]]), validation)), rate=0.01)


@sound("a part of the samples in each epoch, drawn without replacement")
def half_an_epoch() -> dict:
    train, validation = clusters()
    sampler = RandomSampler(train, num_samples=640)
    data = {"train_loader": DataLoader(train, 32, sampler=sampler), "val_loader": val_loader(validation)}
    return program(dense(10, 32, 4), data, rate=0.01)


@sound("batches of samples of like length, in random order", epochs=4)
def batches_of_like_length() -> dict:
    train, validation = phrases()
    order = (train.tensors[0] != 0).sum(1).argsort(stable=True)
    batches = order.split(30)

    class ByLength(torch.utils.data.Sampler):
        def __iter__(self):
            for place in torch.randperm(len(batches)).tolist():
                yield batches[place].tolist()

        def __len__(self):
            return len(batches)

    data = {"train_loader": DataLoader(train, batch_sampler=ByLength()), "val_loader": val_loader(validation)}
    return program(Attention(), data)


@sound("the data set takes a list of places and gives a whole batch")
def whole_batches_from_the_data_set() -> dict:
    train, validation = handwriting(800)
    sampler = BatchSampler(RandomSampler(train), 32, drop_last=False)
    data = {"train_loader": DataLoader(train, sampler=sampler, batch_size=None), "val_loader": val_loader(validation)}
    return program(small_cnn(), data, rate=0.01)


@sound("validation data lie sorted by class; the order does not matter there")
def sorted_validation() -> dict:
    train, validation = clusters()
    x, y = validation.tensors
    order = y.argsort(stable=True)
    data = {
        "train_loader": DataLoader(train, 32, shuffle=True, drop_last=True),
        "val_loader": DataLoader(TensorDataset(x[order], y[order]), 50, shuffle=False),
    }
    return program(dense(10, 32, 4), data)


@sound("no shuffle=True, but the samples were mixed beforehand")
def mixed_beforehand() -> dict:
    train, validation = vibrations()
    data = {"train_loader": DataLoader(train, 30), "val_loader": val_loader(validation)}
    return program(Recurrent(nn.GRU), data, rate=0.02)


@sound("no validation data at all")
def no_validation() -> dict:
    train, _ = clusters()
    return program(dense(10, 32, 4), {"train_loader": DataLoader(train, 32, shuffle=True), "val_loader": None})


@sound("everything in one batch", epochs=40)
def one_batch_an_epoch() -> dict:
    train, validation = clusters()
    data = {"train_loader": DataLoader(train, len(train)), "val_loader": val_loader(validation)}
    return program(dense(10, 32, 4), data, rate=0.01)


# augmentation


class Shifted(Dataset):
    """Pictures moved by a pixel at random, for training only."""

    def __init__(self, part: TensorDataset):
        self.part = part

    def __len__(self):
        return len(self.part)

    def __getitem__(self, place):
        picture, label = self.part[place]
        right, down = torch.randint(-1, 2, (2,)).tolist()
        return picture.roll((down, right), (1, 2)), label


@sound("pictures moved at random in training, still ones in validation", epochs=4)
def moved_in_training_only() -> dict:
    train, validation = handwriting(600)
    return program(small_cnn(), both((Shifted(train), validation)), rate=0.01)


@sound("every training picture also upside down and dimmed, always in the same way", epochs=9)
def fixed_variants_in_training() -> dict:
    train, validation = figures(120)
    pictures, labels = train.tensors
    train = TensorDataset(torch.cat([pictures, pictures.flip(2), 0.7 * pictures]), labels.repeat(3))
    return program(small_cnn(3, 4), both((train, validation), batch_size=20), rate=0.01)


class NoisySensor(nn.Module):
    """Adds noise to what it reads, in training only."""

    def __init__(self):
        super().__init__()
        self.reader = Recurrent(nn.LSTM)

    def forward(self, x):
        return self.reader(x + 0.3 * torch.randn_like(x) if self.training else x)


@sound("noise is added by the network, and only in training")
def noise_in_training_only() -> dict:
    return program(NoisySensor(), both(vibrations()), rate=0.02)


class Flipped:
    """A collate function with a switch: mirrors a whole batch, sometimes."""

    def __init__(self, chance: float):
        self.chance = chance

    def __call__(self, samples):
        pictures, labels = torch.utils.data.default_collate(samples)
        return (pictures.flip(3) if torch.rand(()) < self.chance else pictures), labels


@sound("batches mirrored in the collate function of training", epochs=14)
def mirrored_batches() -> dict:
    train, validation = figures(160)
    data = {
        "train_loader": DataLoader(train, 20, shuffle=True, collate_fn=Flipped(0.5)),
        "val_loader": DataLoader(validation, 40, collate_fn=Flipped(0.0)),
    }
    return program(small_cnn(3, 4), data, rate=0.01)


# batches of another form


class Customers(Dataset):
    """A dict a sample: numbers, a category, and whether the customer stays."""

    def __init__(self, count: int, seed: int):
        draw = draws(seed)
        self.numbers = torch.randn(count, 4, generator=draw)
        self.kind = torch.randint(0, 5, (count,), generator=draw)
        wish = self.numbers[:, 0] * (self.kind.float() - 2) + self.numbers[:, 1]
        self.stays = (wish > 0).long()

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, place):
        return {"numbers": self.numbers[place], "kind": self.kind[place], "stays": self.stays[place]}


class Mixed(nn.Module):
    """Takes numbers and a category."""

    def __init__(self):
        super().__init__()
        self.kinds = nn.Embedding(5, 6)
        self.body = dense(10, 32, 2)

    def forward(self, numbers, kind):
        return self.body(torch.cat([numbers, self.kinds(kind)], 1))


@sound("batches are dicts, and the network takes two inputs", epochs=4)
def batches_as_dicts() -> dict:
    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch["numbers"], batch["kind"]), batch["stays"])
        loss.backward()
        optimizer.step()
        return loss.item()

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            right = [(model(b["numbers"], b["kind"]).argmax(1) == b["stays"]).float().mean() for b in loader]
        return float(sum(right) / len(right))

    data = both((Customers(1000, 52), Customers(400, 53)))
    return program(Mixed(), data, rate=0.01, train_step=train_step, evaluate=evaluate)


def lengths_and_words(samples):
    """Pad phrases of different length to the longest of the batch: ((words, lengths), labels)."""
    words = [words[words != 0] for words, _ in samples]
    labels = torch.stack([label for _, label in samples])
    padded = nn.utils.rnn.pad_sequence(words, batch_first=True)
    return (padded, torch.tensor([len(each) for each in words])), labels


class MeanOfWords(nn.Module):
    """The mean of the words' vectors, from a pair of words and lengths."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 16, padding_idx=0)
        self.head = nn.Linear(16, 3)

    def forward(self, pair):
        words, lengths = pair
        return self.head(self.words(words).sum(1) / lengths[:, None])


@sound("inputs are a tuple; batches have different lengths")
def inputs_as_tuples() -> dict:
    return program(MeanOfWords(), both_collated(phrases(), lengths_and_words), rate=0.02)


def both_collated(pair, collate) -> dict:
    return {
        "train_loader": DataLoader(pair[0], 30, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(pair[1], 100, collate_fn=collate),
    }


@sound("a third entry of the batch weighs the samples")
def weighted_samples() -> dict:
    train, validation = clusters()
    weights = 0.5 + torch.rand(len(train), generator=draws(54))

    def train_step(model, batch, loss_fn, optimizer):
        inputs, targets, importance = batch
        optimizer.zero_grad()
        losses = F.cross_entropy(model(inputs), targets, reduction="none")
        loss = (importance * losses).sum() / importance.sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    train_loader = DataLoader(TensorDataset(*train.tensors, weights), 32, shuffle=True)
    data = {"train_loader": train_loader, "val_loader": val_loader(validation)}
    return program(dense(10, 32, 4), data, train_step=train_step)


@sound("triplets: two of one class and a stranger", epochs=4)
def triplets() -> dict:
    x, y = handwriting()[0].tensors
    draw = draws(55)
    weight = torch.ones(10, len(y)).masked_fill(y != torch.arange(10)[:, None], 0)
    anchors = torch.randperm(len(y), generator=draw)[:800]
    friends = torch.multinomial(weight[y[anchors]], 1, generator=draw).flatten()
    strangers = torch.multinomial(1 - weight[y[anchors]], 1, generator=draw).flatten()
    pair = cut(600, x[anchors], x[friends], x[strangers])
    margin = nn.TripletMarginLoss(margin=1.0)

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(*(model(part) for part in batch))
        loss.backward()
        optimizer.step()
        return loss.item()

    def evaluate(model, loader):
        model.eval()
        right = []
        with torch.no_grad():
            for anchor, friend, stranger in loader:
                anchor, friend, stranger = model(anchor), model(friend), model(stranger)
                right.append(((anchor - friend).norm(dim=1) < (anchor - stranger).norm(dim=1)).float().mean())
        return float(sum(right) / len(right))

    more = {"loss_fn": margin, "train_step": train_step, "evaluate": evaluate}
    return program(small_cnn(classes=8), both(pair)) | more


# hard and easy tasks


@sound("one label in four is wrong: the ceiling is low, and nothing else is amiss")
def noisy_labels() -> dict:
    train, validation = clusters()
    x, y = train.tensors
    wrong = torch.rand(len(y), generator=draws(56)) < 0.25
    noisy = torch.where(wrong, torch.randint(0, 4, y.shape, generator=draws(57)), y)
    return program(dense(10, 32, 4), both((TensorDataset(x, noisy), validation)))


@sound("an easy task: every sample is right after one epoch")
def easy_task() -> dict:
    draw = draws(58)
    y = torch.randint(0, 2, (900,), generator=draw)
    x = torch.randn(900, 6, generator=draw) + 6 * (y[:, None] - 0.5)
    return program(dense(6, 16, 2), both(cut(600, x, y)))


@sound("a linear model for a linear task", epochs=5)
def linear_model() -> dict:
    draw = draws(59)
    x = torch.randn(1000, 6, generator=draw)
    y = x @ torch.randn(6, 1, generator=draw) + 0.1 * torch.randn(1000, 1, generator=draw)
    more = {"loss_fn": nn.MSELoss(), "evaluate": explained}
    return program(nn.Linear(6, 1), both(cut(700, x, y)), rate=0.02) | more


@sound("words that come often and words that hardly come")
def rare_words() -> dict:
    return program(Reader(words=200), both(phrases()), rate=0.02)
