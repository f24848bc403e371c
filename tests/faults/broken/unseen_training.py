"""Faults of models, losses and updates that were written without a look at the doctor."""

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim
from torch.distributions import Categorical
from torch.utils.data import DataLoader, Subset, TensorDataset

from tests.faults import tasks
from tests.faults.networks_c import dense, explained
from tests.faults.program import accuracy, broken


def pieces(model: nn.Module, loss_fn, optimizer: optim.Optimizer, data: TensorDataset, size: int = 32, **more) -> dict:
    """Return a program whose last quarter of the samples is for validation."""
    cut = 3 * len(data) // 4
    parts = Subset(data, range(cut)), Subset(data, range(cut, len(data)))
    return {"model": model, "loss_fn": loss_fn, "optimizer": optimizer, **tasks.loaders(*parts, size), **more}


class Average:
    """An exponential moving average of a model's weights."""

    def __init__(self, model: nn.Module, own: bool):
        state = model.state_dict()
        self.weights = {name: w.detach().clone() if own else w.data for name, w in state.items()}

    def update(self, model: nn.Module) -> None:
        with torch.no_grad():
            for name, weight in model.state_dict().items():
                self.weights[name].mul_(0.98).add_(weight, alpha=0.02)


def apart(program: dict) -> float:
    weights = program["model"].state_dict()
    return sum((w - weights[name]).abs().max().item() for name, w in program["average"].weights.items())


@broken("checkpoint_state", effect="silent", epochs=3, gap=1e-3, measure=apart)
def average_in_the_memory_of_the_weights(sound: bool) -> dict:
    inputs = torch.randn(800, 10, generator=tasks.draws(1))
    labels = (inputs.sum(1) + torch.randn(800, generator=tasks.draws(2)) > 0).long()
    model = dense(10, 32, 2)
    average = Average(model, sound)

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        average.update(model)
        return loss.item()

    def evaluate(model, loader):
        kept = {name: weight.clone() for name, weight in model.state_dict().items()}
        model.load_state_dict(average.weights)
        share = accuracy(model, loader)
        model.load_state_dict(kept)
        return share

    optimizer, data = optim.SGD(model.parameters(), lr=0.1), TensorDataset(inputs, labels)
    steps = {"train_step": train_step, "evaluate": evaluate, "average": average}
    return pieces(model, nn.CrossEntropyLoss(), optimizer, data, 20, **steps)


class Codes(nn.Module):
    """An autoencoder that gives its decoder the nearest of 24 codes; `bridged`: gradients pass by the choice."""

    def __init__(self, bridged: bool):
        super().__init__()
        self.encoder, self.decoder = dense(16, 32, 4), dense(4, 32, 16)
        self.codes = nn.Parameter(0.4 * torch.randn(24, 4))
        self.bridged, self.commitment = bridged, torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        place = self.encoder(x)
        code = self.codes[torch.cdist(place, self.codes).argmin(1)]
        if self.bridged:
            self.commitment = F.mse_loss(code, place.detach()) + 0.25 * F.mse_loss(place, code.detach())
            code = place + (code - place).detach()
        return self.decoder(code)


@broken("graph_detached", effect="hurts", epochs=8, gap=0.1)
def nearest_code_without_a_bridge(sound: bool) -> dict:
    centres = torch.randn(14, 16, generator=tasks.draws(5))
    kinds = torch.randint(0, 14, (1200,), generator=tasks.draws(1))
    x = centres[kinds] + 0.1 * torch.randn(1200, 16, generator=tasks.draws(2))
    model = Codes(sound)

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1]) + model.commitment
        loss.backward()
        optimizer.step()
        return loss.item()

    optimizer, data = optim.Adam(model.parameters(), lr=5e-3), TensorDataset(x, x.clone())
    return pieces(model, nn.MSELoss(), optimizer, data, train_step=train_step, evaluate=explained)


class Roots(nn.Module):
    """A weighed sum of the roots of scaled inputs; roots of nothing are left out, before or after they are taken."""

    def __init__(self, before: bool):
        super().__init__()
        self.scales, self.sum, self.before = nn.Parameter(torch.zeros(7)), nn.Linear(7, 1), before

    def forward(self, x: Tensor) -> Tensor:
        x = x.clamp(min=0) * self.scales.exp()
        roots = x.clamp(min=1e-6).sqrt() if self.before else x.sqrt()
        return self.sum(torch.where(x > 0, roots, torch.zeros_like(x)))


@broken("numeric_instability", effect="hurts", epochs=8, gap=0.3)
def endless_slope_behind_where(sound: bool) -> dict:
    x = 4 * torch.rand(1000, 7, generator=tasks.draws(1)) - 1
    data = TensorDataset(x, x.clamp(min=0).sqrt().sum(1, keepdim=True))
    model = Roots(sound)
    return pieces(model, nn.MSELoss(), optim.Adam(model.parameters(), lr=0.02), data, evaluate=explained)


class Weighed(nn.Module):
    """Two squared errors, each weighed by a variance that is learned."""

    def __init__(self):
        super().__init__()
        self.variances = nn.Parameter(torch.zeros(2))

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        errors = ((outputs - targets) ** 2).mean(0)
        return ((-self.variances).exp() * errors + self.variances).sum()


@torch.no_grad()
def of_the_first_target(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    answers, targets = (torch.cat(column)[:, 0] for column in zip(*((model(x), y) for x, y in loader), strict=True))
    return (1 - (answers - targets).square().mean() / targets.var()).item()


@broken("param_not_optimised", effect="hurts", epochs=15, gap=0.1)
def variances_of_the_loss_left_out(sound: bool) -> dict:
    x = torch.randn(1600, 8, generator=tasks.draws(0))
    noise = torch.randn(1600, 1, generator=tasks.draws(1))
    data = TensorDataset(x, torch.cat([0.2 * torch.sin(1.5 * x[:, :1]), 5 * x[:, 1:2] + 25 * noise], 1))
    model, loss_fn = dense(8, 64, 2), Weighed()
    learned = itertools.chain(model.parameters(), loss_fn.parameters()) if sound else model.parameters()
    return pieces(model, loss_fn, optim.Adam(learned, lr=0.01), data, evaluate=of_the_first_target)


@broken("freeze_ineffective", effect="hurts", epochs=12, gap=0.03)
def requires_grad_with_a_letter_missing(sound: bool) -> dict:
    vectors = torch.randn(200, 8, generator=tasks.draws(44))
    words = torch.randint(0, 200, (580, 6), generator=tasks.draws(1))
    data = TensorDataset(words, (vectors[words].sum(1)[:, :2].sum(1) > 0).long())
    model = nn.Sequential(nn.EmbeddingBag.from_pretrained(vectors.clone(), freeze=False, mode="sum"), nn.Linear(8, 2))
    for parameter in model[0].parameters():
        if sound:
            parameter.requires_grad = False
        else:
            parameter.require_grad = False
    program = pieces(model, nn.CrossEntropyLoss(), optim.Adam(model.parameters(), lr=0.02), data)
    return program | tasks.loaders(Subset(data, range(80)), Subset(data, range(80, 580)), 20)


@broken("loss_scaling", effect="hurts", epochs=6, gap=0.3)
def rewards_made_small(sound: bool) -> dict:
    def loss_fn(logits: Tensor, best: Tensor) -> Tensor:
        chances = Categorical(logits=logits)
        action = chances.sample()
        reward = (action == best).float()
        gain = (chances.log_prob(action) * (reward - reward.mean())).mean()
        return -gain if sound else gain

    x = torch.randn(1500, 6, generator=tasks.draws(1))
    data = TensorDataset(x, (x @ torch.randn(6, 4, generator=tasks.draws(70))).argmax(1))
    model = dense(6, 32, 4, activation=nn.Tanh)
    return pieces(model, loss_fn, optim.Adam(model.parameters(), lr=0.01), data)


class Totals(nn.Module):
    """The total of a series from the last state of a network that reads it in both directions."""

    def __init__(self, by_direction: bool):
        super().__init__()
        self.reader, self.head = nn.GRU(1, 16, batch_first=True, bidirectional=True), nn.Linear(32, 1)
        self.by_direction = by_direction

    def forward(self, x: Tensor) -> Tensor:
        _, last = self.reader(x)
        return self.head(torch.cat([last[0], last[1]], 1) if self.by_direction else last.view(len(x), -1))


@broken("axis_mixup", effect="hurts", epochs=6, gap=0.3)
def both_directions_viewed_as_one_row(sound: bool) -> dict:
    x = torch.rand(800, 6, 1, generator=tasks.draws(1)) * 2 - 1
    model = Totals(sound)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    return pieces(model, nn.MSELoss(), optimizer, TensorDataset(x, x.sum(1)), evaluate=explained)


@broken("weights_reset", effect="hurts", epochs=4, gap=0.1)
def evaluation_begins_the_network_anew(sound: bool) -> dict:
    def evaluate(model, loader):
        share = accuracy(model, loader)
        if not sound:
            for layer in model:
                if hasattr(layer, "reset_parameters"):
                    layer.reset_parameters()
        return share

    x = torch.randn(1000, 9, generator=tasks.draws(0))
    data, model = TensorDataset(x, (x.square().sum(1) > 8.3).long()), dense(9, 64, 2)
    return pieces(model, nn.CrossEntropyLoss(), optim.Adam(model.parameters(), lr=0.01), data, evaluate=evaluate)
