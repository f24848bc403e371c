"""Networks that are built in an unusual way, on purpose."""

import copy

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset

from tests.faults.networks_c import Attention, Reader, Recurrent, dense, explained, minus_loss, small_cnn
from tests.faults.program import sound
from tests.faults.tasks_c import (
    both,
    clusters,
    handwriting,
    phrases,
    sayings,
    surface,
    tumours,
    vibrations,
    wines,
)


def program(model: nn.Module, data: dict, rate: float = 5e-3, **more) -> dict:
    """Return a program with cross-entropy, and Adam over all that is not frozen."""
    optimizer = optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=rate)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **data, **more}


# frozen parts


def pretrained_body() -> nn.Sequential:
    """Return a network that has seen other pictures, and leave the random numbers as they were."""
    state = torch.get_rng_state()
    model = small_cnn()
    pictures, labels = handwriting()[1].tensors
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    for rows in torch.arange(480).repeat(2).split(40):
        optimizer.zero_grad()
        F.cross_entropy(model(pictures[rows]), labels[rows]).backward()
        optimizer.step()
    model.zero_grad()
    torch.set_rng_state(state)
    model[-1] = nn.Linear(model[-1].in_features, 10)
    return model


@sound("frozen body, the optimizer gets what requires gradients")
def frozen_body_filtered_optimizer() -> dict:
    model = pretrained_body()
    model[:-1].requires_grad_(False)
    return program(model, both(handwriting(800)), rate=0.02)


@sound("frozen body, the optimizer gets all parameters: those without gradients are left alone")
def frozen_body_whole_optimizer() -> dict:
    model = pretrained_body()
    for parameter in model[:-1].parameters():
        parameter.requires_grad = False
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(handwriting(800))}


class FeatureThenHead(nn.Module):
    """Takes features without gradients, as nobody wants to train them."""

    def __init__(self, body: nn.Sequential):
        super().__init__()
        self.body = body.requires_grad_(False)
        self.head = nn.Linear(96, 10)

    def train(self, mode: bool = True):
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, pictures):
        with torch.no_grad():
            features = self.body(pictures)
        return self.head(features)


@sound("features under no_grad, the body stays in evaluation mode")
def features_under_no_grad() -> dict:
    model = FeatureThenHead(pretrained_body()[:-1])
    return program(model, both(handwriting(800)), rate=0.02)


class LowRank(nn.Module):
    """A frozen layer and, beside it, a product of two thin matrices of which the second begins with zeros (LoRA)."""

    def __init__(self, layer: nn.Linear, rank: int = 4):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + F.linear(F.linear(x, self.down), self.up)


@sound("low-rank adapters: zero matrices beside frozen layers", epochs=5)
def low_rank_adapters() -> dict:
    model = dense(10, 48, 48, 4)
    for place in (0, 2, 4):
        model[place] = LowRank(model[place])
    return program(model, both(clusters()), rate=0.01)


class StillNorm(nn.BatchNorm2d):
    """A batch normalisation that always uses what it has stored."""

    def forward(self, x):
        scale = self.weight / (self.running_var + self.eps).sqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


@sound("batch normalisation with frozen statistics, its scale is trained")
def frozen_statistics() -> dict:
    model = nn.Sequential(nn.Conv2d(1, 16, 3), StillNorm(16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10))
    return program(model, both(handwriting(800), batch_size=16))


@sound("word vectors are given and stay; only what reads them learns")
def given_word_vectors() -> dict:
    vectors = torch.randn(30, 24, generator=torch.Generator().manual_seed(41))
    model = nn.Sequential(nn.EmbeddingBag.from_pretrained(vectors, freeze=True), *dense(24, 32, 3))
    return program(model, both(phrases()), rate=0.01)


# initial values


class ZeroEnded(nn.Module):
    """A residual block whose last normalisation begins with a scale of zero: at first it does nothing."""

    def __init__(self, channels: int):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.first_norm, self.second_norm = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        nn.init.zeros_(self.second_norm.weight)

    def forward(self, x):
        inner = self.first_norm(self.first(x)).relu()
        return (x + self.second_norm(self.second(inner))).relu()


@sound("residual branches that begin with zero")
def zero_residual_branches() -> dict:
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        ZeroEnded(12),
        ZeroEnded(12),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 10),
    )
    return program(model, both(handwriting(600)))


@sound("the last layer begins with zeros: every class is equally likely at first")
def zero_last_layer() -> dict:
    model = dense(10, 48, 48, 4)
    nn.init.zeros_(model[-1].weight)
    nn.init.zeros_(model[-1].bias)
    return program(model, both(clusters()))


class Gated(nn.Module):
    """Layers that are faded in by one number each, which begins at zero (ReZero)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([dense(32, 32, 32) for _ in range(6)])
        self.gates = nn.Parameter(torch.zeros(6))
        self.first, self.last = nn.Linear(5, 32), nn.Linear(32, 1)

    def forward(self, x):
        x = self.first(x)
        for gate, layer in zip(self.gates, self.layers, strict=True):
            x = x + gate * layer(x)
        return self.last(x)


@sound("layers faded in by gates that begin at zero", epochs=4)
def gates_at_zero() -> dict:
    more = {"loss_fn": nn.MSELoss(), "evaluate": explained}
    return program(Gated(), both(surface()), rate=3e-3) | more


@sound("orthogonal initial weights of a recurrent layer, small ones of the head")
def orthogonal_recurrence() -> dict:
    model = Recurrent(nn.GRU)
    nn.init.orthogonal_(model.rnn.weight_hh_l0)
    nn.init.normal_(model.head.weight, std=0.01)
    return program(model, both(vibrations()), rate=0.01)


# weights that are shared, bound or made late


class TiedWriter(nn.Module):
    """Predicts the next letter; the same vectors read and write (weight tying)."""

    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(10, 24)
        self.rnn = nn.GRU(24, 24, batch_first=True)
        self.output = nn.Linear(24, 10)
        self.output.weight = self.letters.weight

    def forward(self, text):
        return self.output(self.rnn(self.letters(text))[0]).transpose(1, 2)


@sound("one weight reads and writes", epochs=4)
def tied_weights() -> dict:
    more = {"evaluate": minus_loss(nn.CrossEntropyLoss())}
    return program(TiedWriter(), both(sayings(), batch_size=16), rate=0.02) | more


class Siamese(nn.Module):
    """One branch for both halves of a sample."""

    def __init__(self):
        super().__init__()
        self.branch = dense(15, 16, 8)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        left, right = self.branch(x[:, :15]), self.branch(x[:, 15:])
        return self.head(torch.cat([(left - right).abs(), left * right], 1))


@sound("one branch used twice in a forward pass", epochs=4)
def shared_branch() -> dict:
    return program(Siamese(), both(tumours()))


@sound("spectral normalisation")
def spectral_norm() -> dict:
    model = dense(10, 48, 48, 4)
    for place in (0, 2):
        parametrizations.spectral_norm(model[place])
    return program(model, both(clusters()), rate=0.01)


@sound("weight normalisation, set before the optimizer is made")
def weight_norm() -> dict:
    model = dense(13, 24, 3)
    for layer in list(model)[::2]:
        parametrizations.weight_norm(layer)
    return program(model, both(wines(), batch_size=20), rate=0.01)


@sound("lazy layers that a dry run gave their sizes")
def lazy_layers() -> dict:
    model = nn.Sequential(nn.LazyConv2d(12, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    model(handwriting()[0].tensors[0][:2])
    return program(model, both(handwriting(800)))


@sound("a network made from a configuration, in a ModuleDict; one part for later is frozen")
def parts_by_name() -> dict:
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"read": nn.Linear(10, 32), "decide": nn.Linear(32, 4)})
            self.order = ("read", "decide")

        def forward(self, x):
            for name in self.order[:-1]:
                x = self.parts[name](x).relu()
            return self.parts[self.order[-1]](x)

    return program(Parts(), both(clusters()))


# sequences


class Packed(nn.Module):
    """An LSTM that skips padding."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30, 16, padding_idx=0)
        self.rnn = nn.LSTM(16, 24, batch_first=True)
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        lengths = (x != 0).sum(1).clamp(min=1)
        packed = pack_padded_sequence(self.words(x), lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.rnn(packed)
        return self.head(last[-1])


@sound("packed sequences; the padding's vector never gets a gradient", epochs=4)
def packed_sequences() -> dict:
    return program(Packed(), both(phrases()), rate=0.02)


@sound("attention with a mask over padding, dropout within the encoder", epochs=4)
def masked_attention() -> dict:
    model = Attention()
    model.encoder.dropout.p = 0.1
    return program(model, both(phrases()))


class TimeFirst(nn.Module):
    """A GRU that takes time first: the batch is turned for it and nothing is mixed up."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(3, 24)
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        states, _ = self.rnn(x.transpose(0, 1))
        return self.head(states[-1])


@sound("batch_first=False, done right")
def time_first() -> dict:
    return program(TimeFirst(), both(vibrations()), rate=0.01)


class Causal(nn.Module):
    """Attention that looks only back, over letters."""

    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(10, 24), nn.Embedding(12, 24)
        self.block = nn.TransformerEncoderLayer(24, 2, 48, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(24, 10)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(12), persistent=False)

    def forward(self, text):
        length = text.shape[1]
        x = self.letters(text) + self.places.weight[:length]
        return self.head(self.block(x, src_mask=self.mask[:length, :length], is_causal=True)).transpose(1, 2)


@sound("a causal mask with minus infinity in a buffer", epochs=4)
def causal_attention() -> dict:
    more = {"evaluate": minus_loss(nn.CrossEntropyLoss())}
    return program(Causal(), both(sayings(), batch_size=16), rate=0.01) | more


class Streaming(nn.Module):
    """Reads a long series piece by piece and carries its state on, without its history."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 24, batch_first=True)
        self.head = nn.Linear(24, 1)
        self.state = None

    def forward(self, x):
        state = self.state if self.training and self.state is not None else x.new_zeros(1, len(x), 24)
        states, state = self.rnn(x, state)
        if self.training:
            self.state = state.detach()
        return self.head(states)


@sound("truncated back-propagation: pieces of one series in order, the state detached", epochs=6)
def truncated_in_time() -> dict:
    time = torch.arange(8 * 481) / 8.0
    series = ((0.9 * time).sin() + (0.31 * time).sin()).view(8, 481, 1)
    pieces = series[:, :480].reshape(8, 40, 12, 1).transpose(0, 1).flatten(0, 1)
    nexts = series[:, 1:].reshape(8, 40, 12, 1).transpose(0, 1).flatten(0, 1)
    data = {
        "train_loader": DataLoader(TensorDataset(pieces[:240], nexts[:240]), 8, shuffle=False),
        "val_loader": DataLoader(TensorDataset(pieces[240:], nexts[240:]), 40),
    }
    more = {"loss_fn": nn.MSELoss(), "evaluate": explained}
    return program(Streaming(), data, rate=0.01) | more


# modes


class Uncertain(nn.Module):
    """Drops units also in evaluation, to show how sure it is (Monte Carlo dropout)."""

    def __init__(self):
        super().__init__()
        self.hidden, self.output = nn.Linear(10, 64), nn.Linear(64, 4)

    def forward(self, x):
        return self.output(F.dropout(self.hidden(x).relu(), 0.2, training=True))


@sound("dropout in evaluation on purpose: the mean of twenty passes", epochs=3)
def monte_carlo_dropout() -> dict:
    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            right = [(sum(model(x).softmax(1) for _ in range(20)).argmax(1) == y).float().mean() for x, y in loader]
        return float(sum(right) / len(right))

    return program(Uncertain(), both(clusters()), evaluate=evaluate)


@sound("group normalisation for batches of two", epochs=2)
def tiny_batches_with_group_norm() -> dict:
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(144, 10)
    )
    return program(model, both(handwriting(400), batch_size=2), rate=2e-3)


@sound("batch normalisation first, for inputs of very different ranges", epochs=6)
def norm_for_raw_inputs() -> dict:
    model = nn.Sequential(nn.BatchNorm1d(13), *dense(13, 24, 3))
    return program(model, both(wines(raw=True), batch_size=20), rate=0.01)


@sound("a copy of the beginning is kept for comparison")
def a_copy_that_is_not_trained() -> dict:
    model = Reader()
    return program(model, both(phrases()), rate=0.02, first=copy.deepcopy(model))
