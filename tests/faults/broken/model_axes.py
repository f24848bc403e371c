"""Models that mix up axes, remember other samples, or are taught the wrong step of a sequence."""

import torch
from torch import Tensor, nn, optim

from tests.faults.program import broken
from tests.faults.tasks_b import colours, loaders, topics, waves
from tests.faults.tunes import Composer, loss_of_notes, right_notes, tune_loaders


def adam(model: nn.Module, lr: float = 5e-3) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=lr)


# axis_mixup


class FromChannelsLast(nn.Module):
    """Takes pictures as they are stored, (N, 12, 12, 3)."""

    def __init__(self, permute: bool):
        super().__init__()
        self.convolve = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU())
        self.out = nn.Linear(6, 4)
        self.permute = permute

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 3, 1, 2) if self.permute else x.view(-1, 3, 12, 12)
        return self.out(self.convolve(x).mean((2, 3)))


@broken("axis_mixup", effect="hurts", epochs=4, gap=0.1)
def channels_last_viewed_as_channels_first(sound: bool) -> dict:
    model = FromChannelsLast(permute=sound)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model), **loaders(colours())}


class WaveReader(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.rnn = nn.LSTM(2, 20, **options)
        self.out = nn.Linear(20, 4)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.rnn(x)
        return self.out(states[:, -1])


@broken("axis_mixup", effect="hurts", epochs=5, gap=0.2)
def batch_read_as_time(sound: bool) -> dict:
    model = WaveReader(batch_first=True) if sound else WaveReader()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model, 1e-2),
        **loaders(waves(length=16)),
    }


class Attention(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.words = nn.Embedding(30, 16, padding_idx=0)
        self.score = nn.Linear(16, 1)
        self.out = nn.Linear(16, 5)
        self.dim = dim

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words)
        scores = self.score(x).masked_fill((words == 0)[:, :, None], -1e9)
        return self.out((torch.softmax(scores, dim=self.dim) * x).sum(1))


def alone_as_together(program: dict) -> float:
    """Return minus the largest change of an answer when the sample is the only one of its batch."""
    model = program["model"].eval()
    x, _ = next(iter(program["val_loader"]))
    with torch.no_grad():
        alone = torch.cat([model(each[None]) for each in x[:20]])
        return -(model(x)[:20] - alone).abs().max().item()


@broken("axis_mixup", effect="silent", epochs=4, gap=0.5, measure=alone_as_together)
def attention_over_the_batch(sound: bool) -> dict:
    model = Attention(dim=1 if sound else 0)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model, 1e-2), **loaders(topics())}


@broken("axis_mixup", effect="hurts", epochs=6, gap=0.1)
def time_first_reshaped_to_batch_first(sound: bool) -> dict:
    model = Composer(reshape=not sound)
    optimizer = adam(model, 2e-2)
    return {
        "model": model,
        "loss_fn": loss_of_notes,
        "optimizer": optimizer,
        "evaluate": right_notes,
        **tune_loaders(),
    }
