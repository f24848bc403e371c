"""Healthy programs that were written without a look at the doctor; of the first five it said something false then."""

import random

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.func import functional_call
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tests.faults import tasks
from tests.faults.networks_c import dense
from tests.faults.program import sound


class Views(Dataset):
    """Two random views of each sample, in validation as in training; labels are for the score only."""

    def __init__(self, count: int, number: int):
        draw = tasks.draws(number)
        self.kinds = torch.randint(0, 12, (count,), generator=draw)
        centres = torch.randn(12, 32, generator=tasks.draws(0))
        self.samples = centres[self.kinds] + 0.3 * torch.randn(count, 32, generator=draw)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        views = [self.samples[index] * (torch.rand(32) > 0.2) + 0.2 * torch.randn(32) for _ in range(2)]
        return torch.stack(views), self.kinds[index]


def agreement(directions: Tensor, _: Tensor) -> Tensor:
    both = directions.transpose(0, 1).flatten(0, 1)
    alike = both @ both.T / 0.2
    alike = alike.masked_fill(torch.eye(len(both), dtype=torch.bool), -torch.inf)
    return F.cross_entropy(alike, torch.arange(len(both)).roll(len(both) // 2))


@torch.no_grad()
def nearest(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    directions, kinds = (torch.cat(c) for c in zip(*((model(x)[:, 0], y) for x, y in loader), strict=True))
    return (kinds[(directions @ directions.T).fill_diagonal_(-2).argmax(1)] == kinds).float().mean().item()


class Directions(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = dense(32, 48, 16)

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self.net(x), dim=-1)


@sound("two random views of a sample must agree, in validation too: the loss needs no labels")
def random_views_in_validation() -> dict:
    model = Directions()
    return {
        "model": model,
        "loss_fn": agreement,
        "optimizer": optim.AdamW(model.parameters(), lr=3e-3),
        **tasks.loaders(Views(500, 1), Views(200, 2), 50),
        "evaluate": nearest,
    }


class Pieces:
    """Pieces of sixteen long series in order, and whether a piece is the first."""

    def __init__(self, length: int, number: int):
        self.bits = torch.randint(0, 2, (16, length), generator=tasks.draws(number))
        self.answers = self.bits.clone()
        self.answers[:, 3:] ^= self.bits[:, :-3]

    def __len__(self) -> int:
        return self.bits.shape[1] // 10

    def __iter__(self):
        for number, (bits, answers) in enumerate(zip(self.bits.split(10, 1), self.answers.split(10, 1), strict=True)):
            yield (bits, number == 0), answers


class Continued(nn.Module):
    """A recurrent network whose state goes on from piece to piece, and begins afresh with the first."""

    def __init__(self):
        super().__init__()
        self.bits, self.gru, self.head = nn.Embedding(2, 8), nn.GRU(8, 32, batch_first=True), nn.Linear(32, 2)
        self.state = None

    def forward(self, inputs: tuple[Tensor, bool]) -> Tensor:
        bits, first = inputs
        states, last = self.gru(self.bits(bits), None if first else self.state)
        self.state = last.detach()
        return self.head(states).transpose(1, 2)


@sound("the state goes on from piece to piece of a series; the loader says where it begins", epochs=5)
def series_that_begins_where_the_loader_says() -> dict:
    model = Continued()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "train_loader": Pieces(400, 0),
        "val_loader": Pieces(100, 1),
    }


@sound("a compiled model; the optimizer has the parameters of the module inside")
def compiled_model() -> dict:
    x = torch.randn(800, 12, generator=tasks.draws(0))
    train, validation = tasks.halves(600, x, (x[:, :2].sum(1) > 0).long())
    model = dense(12, 32, 2)
    return {
        "model": torch.compile(model, backend="eager"),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        **tasks.loaders(train, validation, 40),
    }


@torch.no_grad()
def decibels(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    errors = torch.cat([(model(x) - y) ** 2 for x, y in loader])
    return -10 * torch.log10(errors.mean()).item()


@sound("a score in decibels: infinite where there is no error")
def denoised_waves() -> dict:
    slopes = 3 * torch.rand(300, 1, 1, 1, generator=tasks.draws(0))
    places = torch.linspace(0, 3.14, 12)
    clean = torch.sin(slopes * places[:, None] + places)
    noisy = clean + 0.5 * torch.randn(clean.shape, generator=tasks.draws(1))
    model = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 1, 5, padding=2))
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        **tasks.loaders(*tasks.halves(220, noisy, clean), 20),
        "evaluate": decibels,
    }


class Letters(nn.Module):
    def __init__(self, letters: int):
        super().__init__()
        self.letters, self.gru, self.head = (
            nn.Embedding(letters, 24),
            nn.GRU(24, 32, batch_first=True),
            nn.Linear(32, letters),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.gru(self.letters(x))[0]).transpose(1, 2)


@sound("windows of a text: short phrases come again by themselves, in both parts")
def phrases_that_come_again() -> dict:
    draw = random.Random(0)
    nouns, verbs = ["cat", "dog", "rain", "man", "bird", "tree"], ["sat", "ran", "sang", "slept", "fell", "stood"]
    text = " ".join(
        f"the {draw.choice(nouns)} {draw.choice(verbs)} near the {draw.choice(nouns)} and" for _ in range(90)
    )
    letters = sorted(set(text))
    windows = torch.tensor([letters.index(letter) for letter in text]).unfold(0, 21, 7)
    model = Letters(len(letters))
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(*tasks.halves(3 * len(windows) // 4, windows[:, :-1], windows[:, 1:]), 32),
    }


@sound("one gradient step inside the step: functional_call and a second derivative")
def learns_to_adapt() -> dict:
    sizes, phases = (torch.rand(200, 1, 1, generator=tasks.draws(n)) for n in (0, 1))
    x = 6 * torch.rand(200, 20, 1, generator=tasks.draws(2)) - 3
    data = TensorDataset(x, (1 + sizes) * torch.sin(x + 3 * phases))

    def adapted(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        weights = dict(model.named_parameters())
        loss = F.mse_loss(functional_call(model, weights, (x[:10],)), y[:10])
        slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        return functional_call(
            model, {name: w - 0.05 * g for (name, w), g in zip(weights.items(), slopes, strict=True)}, (x[10:],)
        )

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = sum(loss_fn(adapted(model, x, y), y[10:]) for x, y in zip(*batch, strict=True)) / len(batch[0])
        loss.backward()
        optimizer.step()
        return loss.item()

    def evaluate(model, loader):
        errors = [
            F.mse_loss(adapted(model, x, y), y[10:]).item() for batch in loader for x, y in zip(*batch, strict=True)
        ]
        return -sum(errors) / len(errors)

    model = dense(1, 32, 1, activation=nn.Tanh)
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **tasks.loaders(*(TensorDataset(*data[part]) for part in (slice(0, 160), slice(160, 200))), 10),
        "train_step": train_step,
        "evaluate": evaluate,
    }
