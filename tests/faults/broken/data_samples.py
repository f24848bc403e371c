"""Samples that are wrong in themselves: axes, scales, numbers that are none, repeated and rare samples."""

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from tests.faults import tasks
from tests.faults.program import accuracy, broken


def small_cnn(channels: int, classes: int, width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


def recall(model: nn.Module, loader: DataLoader) -> float:
    """The share of the rare class 1 that is found, averaged with the share of class 0 that is left alone."""
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(x).argmax(1) for x, _ in loader])
    truth = tasks.labels_of(loader)
    return sum((found[truth == label] == label).float().mean().item() for label in (0, 1)) / 2


# axis_mixup


@broken("axis_mixup", effect="hurts", epochs=8, gap=0.15)
def channels_last_pictures_reshaped(sound: bool) -> dict:
    pictures, labels = tasks.signs()
    stored = pictures.permute(0, 2, 3, 1).contiguous().numpy()  # as an image library returns them

    class Pictures(Dataset):
        def __init__(self, start: int, stop: int):
            self.images, self.labels = stored[start:stop], labels[start:stop]

        def __len__(self) -> int:
            return len(self.images)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            image = torch.from_numpy(self.images[index]).float() / 127.5 - 1
            image = image.permute(2, 0, 1) if sound else image.reshape(3, 12, 12)
            return image, self.labels[index]

    model = small_cnn(3, 4)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(Pictures(0, 480), Pictures(480, 600)),
    }


class Listener(nn.Module):
    """A recurrent classifier of (batch, time, sensors)."""

    def __init__(self, sensors: int = 2, classes: int = 4):
        super().__init__()
        self.rnn = nn.GRU(sensors, 24, batch_first=True)
        self.head = nn.Linear(24, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x)[0][:, -1])


@broken("axis_mixup", effect="hurts", epochs=6, gap=0.15)
def time_first_recordings_viewed_as_batch_first(sound: bool) -> dict:
    recordings, labels = tasks.signals(600, 16)
    time_first = recordings.transpose(0, 1).contiguous()  # as the recorder writes them
    length, count, sensors = time_first.shape
    series = time_first.transpose(0, 1) if sound else time_first.view(count, length, sensors)
    model = Listener()
    return {
        "model": model,
        "loss_fn": F.cross_entropy,
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(*tasks.halves(480, series, labels)),
    }


@broken("axis_mixup", effect="hurts", epochs=5, gap=0.15)
def batch_stacked_along_the_last_axis(sound: bool) -> dict:
    features, labels = tasks.wines()
    features = (features - features.mean(0)) / features.std(0)
    train, validation = tasks.halves(130, features, labels)

    def collate(samples: list) -> tuple[Tensor, Tensor]:
        rows, targets = zip(*samples, strict=True)
        if sound:
            return torch.stack(rows), torch.stack(targets)
        columns = torch.stack(rows, dim=-1)  # (features, batch)
        return columns.reshape(len(rows), -1), torch.stack(targets)

    model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 3))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "train_loader": DataLoader(train, 16, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(validation, 16, collate_fn=collate),
    }


# class_imbalance


@broken("class_imbalance", effect="hurts", epochs=6, gap=0.1)
def rare_event_in_plain_cross_entropy(sound: bool) -> dict:
    events, labels = tasks.rare()
    train, validation = tasks.halves(1500, events, labels)
    count = torch.bincount(labels[:1500])
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(weight=count.sum() / (2 * count) if sound else None),
        "optimizer": optim.Adam(model.parameters(), lr=0.005),
        "evaluate": recall,
        **tasks.loaders(train, validation),
    }


@broken("class_imbalance", effect="hurts", epochs=4, gap=0.15)
def few_bright_pixels_in_plain_binary_loss(sound: bool) -> dict:
    pictures, masks = tasks.spots()
    pictures, masks = pictures + 0.2 * torch.randn(pictures.shape, generator=tasks.draws(1)), masks.clone()
    distance = F.avg_pool2d(masks, 3, stride=1, padding=1)
    masks = (distance > 0.99).float()  # only the middle of a spot counts
    share = masks[:300].mean()

    def overlap(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        with torch.no_grad():
            pairs = [(model(x) > 0, y > 0.5) for x, y in loader]
        both = sum((found & truth).sum() for found, truth in pairs)
        return float(2 * both / sum(found.sum() + truth.sum() for found, truth in pairs))

    model = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(pos_weight=((1 - share) / share) if sound else None),
        "optimizer": optim.Adam(model.parameters(), lr=0.005),
        "evaluate": overlap,
        **tasks.loaders(*tasks.halves(300, pictures, masks)),
    }


@broken("class_imbalance", effect="hurts", epochs=4, gap=0.1)
def rare_topic_among_reviews(sound: bool) -> dict:
    texts, topics = tasks.reviews(3000, topics=2, words=16)
    kept = (topics == 0) | (torch.rand(3000, generator=tasks.draws(2)) < 0.06)
    train, validation = tasks.halves(1000, texts[kept], topics[kept])
    weights = 1 / torch.bincount(topics[kept][:1000])[topics[kept][:1000]]
    sampler = torch.utils.data.WeightedRandomSampler(weights, 1000) if sound else None
    embed = nn.EmbeddingBag(16, 12, padding_idx=0)
    model = nn.Sequential(embed, nn.Linear(12, 2))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.005),
        "evaluate": recall,
        **tasks.loaders(train, validation, sampler=sampler, shuffle=not sound),
    }


@broken("class_imbalance", effect="hurts", epochs=4, gap=0.15)
def weights_of_the_loss_are_the_counts(sound: bool) -> dict:
    features, labels = tasks.rare(1200, share=0.15)
    train, validation = tasks.halves(900, features, labels)
    count = torch.bincount(train.tensors[1]).float()
    weight = count.sum() / count if sound else count / count.sum()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(weight=weight),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "evaluate": recall,
        **tasks.loaders(train, validation),
    }


# duplicate_samples


@broken("duplicate_samples", effect="hurts", epochs=4, gap=0.15)
def dataset_that_reads_its_first_items_only(sound: bool) -> dict:
    pictures, labels = tasks.digits(1500)

    class Digits(Dataset):
        def __init__(self, start: int, stop: int, pieces: int = 20):
            self.pictures, self.labels = pictures[start:stop], labels[start:stop]
            self.pieces = pieces

        def __len__(self) -> int:
            return len(self.labels)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            index = index if sound else index % self.pieces
            return self.pictures[index], self.labels[index]

    model = small_cnn(1, 10)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "train_loader": DataLoader(Digits(0, 1200), 32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(pictures[1200:], labels[1200:]), 200),
    }


@broken("duplicate_samples", effect="hurts", epochs=12, gap=0.1)
def one_folder_read_eight_times(sound: bool) -> dict:
    pictures, labels = tasks.digits(1200)
    everything = TensorDataset(pictures.flatten(1), labels)
    folders = [Subset(everything, range(start, start + 30)) for start in range(0, 240, 30)]
    parts = folders if sound else [folders[0] for _ in folders]
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.005),
        **tasks.loaders(ConcatDataset(parts), Subset(everything, range(800, 1200)), 16),
    }


class Lines(IterableDataset):
    """A file of texts, read line by line; each worker reads its own lines if `shared`."""

    def __init__(self, texts: Tensor, topics: Tensor, shared: bool):
        self.texts, self.topics, self.shared = texts, topics, shared

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        start, step = (info.id, info.num_workers) if self.shared and info is not None else (0, 1)
        for index in range(start, len(self.texts), step):
            yield self.texts[index], self.topics[index]


def fresh_share(program: dict) -> float:
    """How many of the samples of an epoch are different ones."""
    rows = torch.cat([x.flatten(1) for x, _ in program["train_loader"]])
    return len(rows.unique(dim=0)) / len(rows)


@broken("duplicate_samples", effect="silent", epochs=1, gap=0.4, measure=fresh_share)
def every_worker_reads_the_whole_stream(sound: bool) -> dict:
    texts, topics = tasks.reviews(1000)
    model = nn.Sequential(nn.EmbeddingBag(40, 16, padding_idx=0), nn.Linear(16, 4))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "train_loader": DataLoader(Lines(texts[:800], topics[:800], shared=sound), 32, num_workers=2),
        "val_loader": DataLoader(TensorDataset(texts[800:], topics[800:]), 200),
    }


# input_scale


@broken("input_scale", effect="hurts", epochs=6, gap=0.1, mechanical=True)
def proline_in_its_own_unit(sound: bool) -> dict:
    analyses, kinds = tasks.wines()
    if sound:
        analyses = (analyses - analyses[:130].mean(0)) / analyses[:130].std(0)
    model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        **tasks.loaders(*tasks.halves(130, analyses, kinds), 16),
    }


@broken("input_scale", effect="hurts", epochs=6, gap=0.15, mechanical=True)
def bytes_into_a_convolution(sound: bool) -> dict:
    pictures, labels = tasks.digits(1400)
    stored = (255 * pictures).to(torch.uint8)

    def collate(samples: list) -> tuple[Tensor, Tensor]:
        x = torch.stack([image for image, _ in samples]).float()
        return x / 255 if sound else x, torch.stack([label for _, label in samples])

    train, validation = tasks.halves(1000, stored, labels)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(432, 10))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "train_loader": DataLoader(train, 32, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(validation, 200, collate_fn=collate),
    }


@broken("input_scale", effect="hurts", epochs=6, gap=0.15, mechanical=True)
def pixels_divided_twice(sound: bool) -> dict:
    pictures, labels = tasks.digits(1500)
    bytes_ = (pictures * 255).flatten(1)

    class Scaled(Dataset):
        def __init__(self, rows: slice):
            self.x, self.y = bytes_[rows] / 255, labels[rows]

        def __len__(self) -> int:
            return len(self.y)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            return self.x[index] if sound else self.x[index] / 255, self.y[index]

    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.1),
        **tasks.loaders(Scaled(slice(0, 1200)), Scaled(slice(1200, 1500))),
    }


@broken("input_scale", effect="hurts", epochs=6, gap=0.2, mechanical=True)
def temperature_in_kelvin_for_a_recurrent_net(sound: bool) -> dict:
    recordings, labels = tasks.signals(600, 16)
    kelvin = 288 + 6 * recordings
    series = (kelvin - 288) / 6 if sound else kelvin
    model = Listener()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(*tasks.halves(480, series, labels)),
    }


# non_finite_data


@broken("non_finite_data", effect="hurts", epochs=2, gap=0.2)
def missing_reading_is_nan(sound: bool) -> dict:
    features, labels = tasks.tumours()
    features = (features - features.mean(0)) / features.std(0)
    features[torch.randint(0, 400, (12,), generator=tasks.draws(3)), 4] = torch.nan
    if sound:
        features = features.nan_to_num(0.0)  # the mean of a standardised column
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 2))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(*tasks.halves(400, features, labels)),
    }


@broken("non_finite_data", effect="hurts", epochs=3, gap=0.2)
def logarithm_of_zero_pixels(sound: bool) -> dict:
    pictures, labels = tasks.digits(1500)

    class Exposures(Dataset):
        def __init__(self, rows: slice):
            self.pictures, self.labels = pictures[rows], labels[rows]

        def __len__(self) -> int:
            return len(self.labels)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            image = self.pictures[index]
            return torch.log1p(image) if sound else torch.log(image), self.labels[index]

    model = small_cnn(1, 10)
    return {
        "model": model,
        "loss_fn": F.cross_entropy,
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(Exposures(slice(0, 1200)), Exposures(slice(1200, 1500))),
    }


def explained(model: nn.Module, loader: DataLoader) -> float:
    """The share of the targets' variance that the model explains, not below -1."""
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(x) for x, _ in loader]).flatten()
    truth = tasks.labels_of(loader).flatten()
    return max(-1.0, 1 - float(((found - truth) ** 2).mean() / truth.var()))


@broken("non_finite_data", effect="hurts", epochs=4, gap=0.3)
def two_harvests_are_infinite(sound: bool) -> dict:
    features, harvest = tasks.crops()
    yields = harvest.numpy().copy()
    area = numpy.ones_like(yields)
    area[[17, 503]] = 0  # two fields without an area
    with numpy.errstate(divide="ignore"):
        yields = yields / area
    kept = numpy.isfinite(yields) if sound else numpy.ones(len(yields), dtype=bool)
    features, yields = features[torch.from_numpy(kept)], torch.from_numpy(yields[kept])
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "evaluate": explained,
        **tasks.loaders(*tasks.halves(900, features, yields)),
    }


@broken("non_finite_data", effect="hurts", epochs=3, gap=0.2)
def constant_column_divided_by_its_spread(sound: bool) -> dict:
    analyses, kinds = tasks.wines()
    analyses = torch.cat([analyses, torch.full((len(analyses), 1), 12.0)], 1)  # all were made in one year
    spread = analyses[:130].std(0)
    spread = spread.clamp(min=1e-6) if sound else spread
    analyses = (analyses - analyses[:130].mean(0)) / spread
    model = nn.Sequential(nn.Linear(14, 24), nn.ReLU(), nn.Linear(24, 3))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "evaluate": accuracy,
        **tasks.loaders(*tasks.halves(130, analyses, kinds), 16),
    }
