"""Targets that are wrong: in another form than the loss expects, of other samples, or of another moment."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split

from tests.faults import tasks
from tests.faults.program import broken


def scaled_wines() -> tuple[Tensor, Tensor]:
    analyses, kinds = tasks.wines()
    return (analyses - analyses[:130].mean(0)) / analyses[:130].std(0), kinds


def scaled_tumours() -> tuple[Tensor, Tensor]:
    features, labels = tasks.tumours()
    return (features - features[:400].mean(0)) / features[:400].std(0), labels


# label_encoding


@broken("label_encoding", effect="raises", epochs=1)
def wines_counted_from_one(sound: bool) -> dict:
    analyses, kinds = scaled_wines()
    kinds = kinds if sound else kinds + 1  # as in the table: 1, 2, 3
    model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        **tasks.loaders(*tasks.halves(130, analyses, kinds), 16),
    }


@broken("label_encoding", effect="raises", epochs=1)
def topics_with_gaps_in_their_numbers(sound: bool) -> dict:
    texts, topics = tasks.reviews()
    codes = torch.tensor([10, 20, 35, 40])[topics]  # numbers of the shop's catalogue
    known = codes.unique()

    class Reviews(Dataset):
        def __init__(self, rows: slice):
            self.texts, self.codes = texts[rows], codes[rows]

        def __len__(self) -> int:
            return len(self.texts)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            code = self.codes[index]
            return self.texts[index], torch.searchsorted(known, code) if sound else code

    model = nn.Sequential(nn.EmbeddingBag(40, 16, padding_idx=0), nn.Linear(16, len(known)))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        **tasks.loaders(Reviews(slice(0, 800)), Reviews(slice(800, 1000))),
    }


@broken("label_encoding", effect="raises", epochs=1)
def integer_one_hot_rows_for_cross_entropy(sound: bool) -> dict:
    pictures, labels = tasks.digits(1000)
    rows = F.one_hot(labels, 10)

    def collate(samples: list) -> tuple[Tensor, Tensor]:
        images, targets = (torch.stack(part) for part in zip(*samples, strict=True))
        return images, targets.float() if sound else targets

    def right(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        with torch.no_grad():
            return torch.cat([model(x).argmax(1) == y.argmax(1) for x, y in loader]).float().mean().item()

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "evaluate": right,
        **tasks.loaders(*tasks.halves(800, pictures, rows), collate_fn=collate),
    }


@broken("label_encoding", effect="raises", epochs=1)
def class_numbers_read_as_floats(sound: bool) -> dict:
    features, labels = scaled_tumours()
    rows = torch.cat([features, labels[:, None]], 1)  # one table, hence one dtype

    class Rows(Dataset):
        def __init__(self, table: Tensor):
            self.table = table

        def __len__(self) -> int:
            return len(self.table)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            row = self.table[index]
            return row[:-1], row[-1].long() if sound else row[-1]

    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    return {
        "model": model,
        "loss_fn": F.cross_entropy,
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(Rows(rows[:400]), Rows(rows[400:])),
    }


@broken("label_encoding", effect="hurts", epochs=5, gap=0.2)
def two_folders_numbered_apart(sound: bool) -> dict:
    pictures, directions = tasks.arrows(900)
    names = ["right", "down", "left", "up"]

    def numbered(present: list[str]) -> dict[str, int]:
        return {name: number for number, name in enumerate(present)}

    class Folder(Dataset):
        def __init__(self, rows: slice, numbers: dict[str, int]):
            self.pictures = pictures[rows]
            self.labels = [numbers[names[direction]] for direction in directions[rows]]

        def __len__(self) -> int:
            return len(self.labels)

        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            return self.pictures[index], self.labels[index]

    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, 4))
    validation_names = names if sound else sorted(names)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.003),
        **tasks.loaders(Folder(slice(0, 700), numbered(names)), Folder(slice(700, 900), numbered(validation_names))),
    }


@broken("label_encoding", effect="hurts", epochs=4, gap=0.08)
def tumours_as_plus_and_minus_one_for_bce(sound: bool) -> dict:
    features, labels = scaled_tumours()
    targets = (labels if sound else 2 * labels - 1).float()[:, None]

    def brier(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        with torch.no_grad():
            chance = torch.cat([model(x).sigmoid() for x, _ in loader])
        truth = (torch.cat([y for _, y in loader]) > 0).float()
        return 1 - 4 * ((chance - truth) ** 2).mean().item()

    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1))
    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.05),
        "evaluate": brier,
        **tasks.loaders(*tasks.halves(400, features, targets)),
    }


# label_misaligned


@broken("label_misaligned", effect="hurts", epochs=4, gap=0.4)
def pictures_shuffled_without_their_labels(sound: bool) -> dict:
    pictures, labels = tasks.digits(1500)
    order = torch.randperm(1200, generator=tasks.draws(5))
    train = TensorDataset(pictures[order], labels[order] if sound else labels[:1200])
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(432, 10))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.005),
        **tasks.loaders(train, TensorDataset(pictures[1200:], labels[1200:])),
    }


@broken("label_misaligned", effect="hurts", epochs=5, gap=0.3)
def incomplete_recordings_dropped_from_inputs_only(sound: bool) -> dict:
    recordings, labels = tasks.signals(700, 16)
    complete = torch.rand(700, generator=tasks.draws(6)) > 0.04
    complete[:3] = False
    series = recordings[complete]
    targets = labels[complete] if sound else labels[: len(series)]

    class Listener(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(2, 16, batch_first=True)
            self.head = nn.Linear(16, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.rnn(x)[1][0])

    model = Listener()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        **tasks.loaders(*tasks.halves(500, series, targets)),
    }


@broken("label_misaligned", effect="hurts", epochs=4, gap=0.2)
def texts_sorted_by_length_in_the_collate_function(sound: bool) -> dict:
    texts, topics = tasks.reviews()

    def collate(samples: list) -> tuple[Tensor, Tensor]:
        rows, targets = (torch.stack(part) for part in zip(*samples, strict=True))
        longest_first = (rows > 0).sum(1).argsort(descending=True)
        return rows[longest_first], targets[longest_first] if sound else targets

    train, validation = tasks.halves(800, texts, topics)
    model = nn.Sequential(nn.EmbeddingBag(40, 16, padding_idx=0), nn.Linear(16, 4))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "train_loader": DataLoader(train, 32, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(validation, 200, collate_fn=collate),
    }


@broken("label_misaligned", effect="hurts", epochs=4, gap=0.15)
def masks_listed_in_the_order_of_their_names(sound: bool) -> dict:
    pictures, masks = tasks.spots()
    by_number = list(range(len(masks)))
    by_name = by_number if sound else sorted(by_number, key=str)  # 0, 1, 10, 100, 101, ...

    class Slides(Dataset):
        def __init__(self, start: int, stop: int):
            self.pairs = list(zip(by_number, by_name, strict=True))[start:stop]

        def __len__(self) -> int:
            return len(self.pairs)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            picture, mask = self.pairs[index]
            return pictures[picture], masks[mask]

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
        **tasks.loaders(Slides(0, 300), Slides(300, 400)),
    }


@broken("label_misaligned", effect="hurts", epochs=3, gap=0.2)
def table_header_counted_as_a_label(sound: bool) -> dict:
    features, labels = scaled_tumours()
    column = ["diagnosis", *labels.tolist()]
    diagnoses = torch.tensor([0 if value == "diagnosis" else value for value in column[1 if sound else 0 :]])
    rows = TensorDataset(features, diagnoses[: len(features)])
    train, validation = random_split(rows, [400, 169], generator=tasks.draws(9))
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 2))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        **tasks.loaders(train, validation),
    }


@broken("label_misaligned", effect="hurts", epochs=4, gap=0.2)
def maps_of_ground_listed_backwards(sound: bool) -> dict:
    draw = tasks.draws(10)
    maps = torch.randint(0, 3, (240, 4, 4), generator=draw).repeat_interleave(3, 1).repeat_interleave(3, 2)
    colours = torch.tensor([[0.2, 0.2, 0.2], [0.2, 0.6, 0.2], [0.6, 0.4, 0.3]])
    photos = colours[maps].permute(0, 3, 1, 2) + 0.15 * torch.randn(240, 3, 12, 12, generator=draw)
    maps = maps if sound else maps.flip(0)

    def pixels(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        with torch.no_grad():
            return torch.cat([(model(x).argmax(1) == y).float().flatten() for x, y in loader]).mean().item()

    model = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 3, 1))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "evaluate": pixels,
        **tasks.loaders(*tasks.halves(180, photos, maps), 20),
    }


# target_shift


class Composer(nn.Module):
    """Predicts a note for every place of a tune."""

    def __init__(self, notes: int = 8):
        super().__init__()
        self.embed = nn.Embedding(notes, 12)
        self.rnn = nn.LSTM(12, 24, batch_first=True)
        self.head = nn.Linear(24, notes)

    def forward(self, tune: Tensor) -> Tensor:
        return self.head(self.rnn(self.embed(tune))[0]).transpose(1, 2)


def continues(program: dict) -> float:
    """How often the model's guess at the end of a tune is the note that really follows."""
    tunes = tasks.melodies()[400:]
    program["model"].eval()
    with torch.no_grad():
        guess = program["model"](tunes[:, :-1])[..., -1].argmax(1)
    return (guess == tunes[:, -1]).float().mean().item()


@broken("target_shift", effect="silent", epochs=5, gap=0.3, measure=continues)
def tune_is_its_own_target(sound: bool) -> dict:
    tunes = tasks.melodies()
    targets = tunes[:, 1:] if sound else tunes[:, :-1]
    model = Composer()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        **tasks.loaders(*tasks.halves(400, tunes[:, :-1].contiguous(), targets.contiguous())),
    }


@broken("target_shift", effect="silent", epochs=6, gap=0.2, measure=continues)
def note_after_next_because_shifted_twice(sound: bool) -> dict:
    tunes = tasks.melodies()

    class Tunes(Dataset):
        def __init__(self, rows: slice):
            self.tunes = tunes[rows]

        def __len__(self) -> int:
            return len(self.tunes)

        def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
            tune = self.tunes[index]
            return tune[:-1], tune[1:]

    def next_note_loss(scores: Tensor, targets: Tensor) -> Tensor:
        if not sound:  # the data set has shifted them already
            scores, targets = scores[..., :-1], targets[:, 1:]
        return F.cross_entropy(scores, targets)

    model = Composer()
    return {
        "model": model,
        "loss_fn": next_note_loss,
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        **tasks.loaders(Tunes(slice(0, 400)), Tunes(slice(400, 500))),
    }


def foresight(program: dict) -> float:
    """How much of the next value's variance the forecast explains, on windows after the training part."""
    windows = tasks.tides().unfold(0, 13, 1)[900:]
    program["model"].eval()
    with torch.no_grad():
        forecast = program["model"](windows[:, :-1]).flatten()
    return 1 - float(((forecast - windows[:, -1]) ** 2).mean() / windows[:, -1].var())


@broken("target_shift", effect="silent", epochs=5, gap=0.025, measure=foresight, also=("data_leakage",))
def forecast_of_the_last_value_in_the_window(sound: bool) -> dict:
    windows = tasks.tides().unfold(0, 13, 1)
    inputs, targets = windows[:, :-1], windows[:, -1 if sound else -2]

    def score(model: nn.Module, loader: DataLoader) -> float:
        model.eval()
        with torch.no_grad():
            return -sum(F.mse_loss(model(x), y).item() for x, y in loader)

    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "evaluate": score,
        **tasks.loaders(*tasks.halves(900, inputs.contiguous(), targets.contiguous())),
    }
