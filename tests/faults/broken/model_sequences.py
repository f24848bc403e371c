"""Sequences that are taught the wrong step, and models that remember other samples."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from tests.faults.program import broken
from tests.faults.tasks_b import (
    balances,
    colours,
    generator,
    loaders,
    split,
    tides,
    topics,
    waves,
)
from tests.faults.tunes import Composer, loss_of_notes, right_notes, tune_loaders


def adam(model: nn.Module, lr: float = 5e-3) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=lr)


# target_shift


@broken("target_shift", effect="hurts", epochs=6, gap=0.1)
def targets_are_the_inputs(sound: bool) -> dict:
    model = Composer()
    return {
        "model": model,
        "loss_fn": loss_of_notes,
        "optimizer": adam(model, 2e-2),
        "evaluate": right_notes,
        **tune_loaders(ahead=1 if sound else 0),
    }


@broken("target_shift", effect="hurts", epochs=6, gap=0.1)
def targets_rolled_the_other_way(sound: bool) -> dict:
    model = Composer()

    def train_step(model, batch, loss_fn, optimizer):
        notes, _ = batch
        following = notes.roll(-1 if sound else 1, dims=1)
        optimizer.zero_grad()
        loss = loss_fn(model(notes)[:, 1:-1], following[:, 1:-1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": loss_of_notes,
        "optimizer": adam(model, 2e-2),
        "train_step": train_step,
        "evaluate": right_notes,
        **tune_loaders(),
    }


class Backwards(nn.Module):
    """Encoder and decoder that say a word of three letters backwards; letter 0 opens the answer."""

    def __init__(self, opened: bool):
        super().__init__()
        self.letters = nn.Embedding(9, 16)
        self.encoder = nn.GRU(16, 48, batch_first=True)
        self.decoder = nn.GRU(16, 48, batch_first=True)
        self.out = nn.Linear(48, 9)
        self.opened = opened

    def forward(self, word: Tensor, answer: Tensor) -> Tensor:
        _, state = self.encoder(self.letters(word))
        if self.opened:
            answer = F.pad(answer[:, :-1], (1, 0))
        states, _ = self.decoder(self.letters(answer), state)
        return self.out(states)

    @torch.no_grad()
    def say(self, word: Tensor) -> Tensor:
        _, state = self.encoder(self.letters(word))
        letter, said = torch.zeros_like(word[:, :1]), []
        for _ in range(word.shape[1]):
            states, state = self.decoder(self.letters(letter), state)
            letter = self.out(states).argmax(2)
            said.append(letter)
        return torch.cat(said, 1)


@broken("target_shift", effect="hurts", epochs=6, gap=0.3)
def decoder_reads_its_targets(sound: bool) -> dict:
    model = Backwards(opened=sound)
    words = torch.randint(1, 9, (1100, 3), generator=generator(21))

    def train_step(model, batch, loss_fn, optimizer):
        word, answer = batch
        optimizer.zero_grad()
        loss = loss_fn(model(word, answer).transpose(1, 2), answer)
        loss.backward()
        optimizer.step()
        return loss.item()

    def evaluate(model, loader):
        model.eval()
        return torch.cat([model.say(word) == answer for word, answer in loader]).float().mean().item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model, 1e-2),
        "train_step": train_step,
        "evaluate": evaluate,
        **loaders(split(900, words, words.flip(1)), batch_size=25),
    }


class Forecast(nn.Module):
    """Predicts a level from the window before it."""

    def __init__(self):
        super().__init__()
        self.filters = nn.Conv1d(1, 12, 5)
        self.out = nn.Linear(12 * 8, 1)

    def forward(self, window: Tensor) -> Tensor:
        return self.out(torch.tanh(self.filters(window[:, None])).flatten(1)).squeeze(1)


@broken("target_shift", effect="hurts", epochs=5, gap=0.3)
def last_known_level_is_the_target(sound: bool) -> dict:
    """The level to predict comes three steps later; by one index the training asks for a level of the window."""
    model = Forecast()
    train, validation = tides()
    if not sound:
        windows, _ = train.tensors
        train = TensorDataset(windows, windows[:, -1])

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return -torch.cat([(model(x) - y).abs() for x, y in loader]).mean().item()

    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": adam(model),
        "evaluate": evaluate,
        **loaders((train, validation)),
    }


# state_carried_over


class Summing(nn.Module):
    """Tells from a short series whether it is more positive than negative."""

    def __init__(self, carry: bool):
        super().__init__()
        self.rnn = nn.GRU(1, 12, batch_first=True)
        self.out = nn.Linear(12, 2)
        self.carry = carry
        self.state: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        _, state = self.rnn(x, self.state)
        if self.carry:
            self.state = state.detach()  # as in the tutorial on language models, where the batches follow each other
        return self.out(state.squeeze(0))


@broken("state_carried_over", effect="hurts", epochs=10, gap=0.05)
def hidden_state_kept_between_shuffled_batches(sound: bool) -> dict:
    model = Summing(carry=not sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model, 2e-2),
        **loaders(balances(), batch_size=100, drop_last=True),
    }


class CachedEye(nn.Module):
    """Fixed random features, which are slow, so that they are computed once."""

    def __init__(self, cached: bool):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 24, 3), nn.ReLU(), nn.Conv2d(24, 24, 3), nn.ReLU())
        self.features.requires_grad_(False)
        self.norm = nn.LayerNorm(24)
        self.out = nn.Linear(24, 4)
        self.cache: dict[torch.Size, Tensor] | None = {} if cached else None

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.seen(x)))

    def seen(self, x: Tensor) -> Tensor:
        if self.cache is None:
            return self.features(x.permute(0, 3, 1, 2)).mean((2, 3))
        if x.shape not in self.cache:
            self.cache[x.shape] = self.features(x.permute(0, 3, 1, 2)).mean((2, 3))
        return self.cache[x.shape]


@broken("state_carried_over", effect="hurts", epochs=5, gap=0.2)
def features_cached_by_shape(sound: bool) -> dict:
    model = CachedEye(cached=not sound)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = optim.Adam(trained, lr=3e-2)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(colours())}


class HandmadeCell(nn.Module):
    """A recurrent layer written by hand."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 10)
        self.back = nn.Linear(10, 10)
        self.out = nn.Linear(10, 4)

    def start(self) -> list[Tensor]:
        return [torch.zeros(1, 10)]

    def forward(self, x: Tensor) -> Tensor:
        return self.read(x, self.start())

    def read(self, x: Tensor, states: list[Tensor]) -> Tensor:
        time = torch.linspace(-1, 1, x.shape[1])
        for value, now in zip(x.unbind(1), time, strict=True):
            value = torch.cat([value, now.expand(len(value), 1)], 1)
            states.append(torch.tanh(self.cell(value) + self.back(states[-1])))
        return self.out(states[-1])


class HandmadeCellThatRemembers(HandmadeCell):
    """The same with the states as an attribute."""

    def __init__(self):
        super().__init__()
        self.states = super().start()

    def start(self) -> list[Tensor]:
        return self.states


@broken("state_carried_over", effect="raises", epochs=1, also=("graph_retained",))
def states_kept_with_their_graph(sound: bool) -> dict:
    model = HandmadeCell() if sound else HandmadeCellThatRemembers()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": adam(model),
        **loaders(waves(length=8), batch_size=100, drop_last=True),
    }


class Talk(nn.Module):
    """Finds the topic of a sentence; the mood of earlier ones may be given as well."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 12, padding_idx=0)
        self.out = nn.Linear(12, 5)

    def answer(self, words: Tensor, moods: list[Tensor]) -> Tensor:
        meaning = self.words(words).sum(1)
        logits = self.out(meaning + sum(moods))
        moods.append(meaning.detach().mean(0))
        return logits


@broken("state_carried_over", effect="hurts", epochs=5, gap=0.1)
def list_as_default_argument(sound: bool) -> dict:
    class AnyTalk(Talk):
        def forward(self, words: Tensor, moods: list[Tensor] | None = None) -> Tensor:
            return self.answer(words, [] if moods is None else moods)

    class OneTalk(Talk):
        def forward(self, words: Tensor, moods: list[Tensor] = []) -> Tensor:  # noqa: B006
            return self.answer(words, moods)

    model = AnyTalk() if sound else OneTalk()
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model, 1e-2), **loaders(topics())}
