"""Models that overwrite, in place, what autograd still needs."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim

from tests.faults.program import broken
from tests.faults.tasks_b import digits, loaders, topics, waves, yields


class Memory(nn.Module):
    """A recurrent layer written by hand; its states lie in one tensor."""

    def __init__(self, one_tensor: bool):
        super().__init__()
        self.enter = nn.Linear(2, 16)
        self.remain = nn.Linear(16, 16)
        self.out = nn.Linear(16, 4)
        self.one_tensor = one_tensor

    def forward(self, x: Tensor) -> Tensor:
        if self.one_tensor:
            states = x.new_zeros(x.shape[1] + 1, len(x), 16)
            for time in range(x.shape[1]):
                states[time + 1] = torch.tanh(self.enter(x[:, time]) + self.remain(states[time]))
            return self.out(states[1:].mean(0))
        state, states = x.new_zeros(len(x), 16), []
        for value in x.unbind(1):
            state = torch.tanh(self.enter(value) + self.remain(state))
            states.append(state)
        return self.out(torch.stack(states).mean(0))


class WordAttention(nn.Module):
    """Weighs the words of a padded sentence."""

    def __init__(self, way: str):
        super().__init__()
        self.words = nn.Embedding(30, 16, padding_idx=0)
        self.score = nn.Linear(16, 1)
        self.out = nn.Linear(16, 5)
        self.way = way

    def forward(self, words: Tensor) -> Tensor:
        x, padding = self.words(words), words == 0
        scores = self.score(x).squeeze(2)
        if self.way == "after":
            weights = torch.softmax(scores, dim=1)
            weights.masked_fill_(padding, 0.0)
            weights = weights / weights.sum(1, keepdim=True)
        else:
            weights = torch.softmax(scores.masked_fill(padding, -1e9), dim=1)
        return self.out((weights[:, :, None] * x).sum(1))


@broken("inplace_autograd", effect="raises", epochs=2)
def attention_masked_after_softmax_in_place(sound: bool) -> dict:
    model = WordAttention("before" if sound else "after")
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(topics())}


@broken("inplace_autograd", effect="raises", epochs=2)
def states_written_into_one_tensor(sound: bool) -> dict:
    model = Memory(one_tensor=not sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=1e-2),
        **loaders(waves(length=10)),
    }


@broken("inplace_autograd", effect="raises", epochs=2)
def squash_then_rectify_in_place(sound: bool) -> dict:
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.Sigmoid(), nn.Hardtanh(0.1, 0.9, inplace=not sound), nn.Flatten(), nn.Linear(288, 10)
    )
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(digits())}


def gradient_error(program: dict) -> float:
    """Return minus the relative difference of the loss's slope along the gradient to the slope by two loss values."""
    model, loss_fn = program["model"].double().eval(), program["loss_fn"]
    x, y = next(iter(program["val_loader"]))
    x = x.double() if x.is_floating_point() else x
    y = y.double() if y.is_floating_point() else y
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss_fn(model(x), y), parameters)
    length = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    values = []
    with torch.no_grad():
        for step in (1e-6, -2e-6):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter += step * gradient / length
            values.append(loss_fn(model(x), y).item())
    return -abs((values[0] - values[1]) / 2e-6 - length) / length


class Sharpened(nn.Module):
    """Compares a picture with learned examples; the agreement is sharpened before it counts."""

    def __init__(self, by_data: bool):
        super().__init__()
        self.look = nn.Sequential(nn.Flatten(), nn.Linear(64, 24))
        self.examples = nn.Parameter(torch.randn(24, 10))
        self.by_data = by_data

    def forward(self, x: Tensor) -> Tensor:
        agreement = F.normalize(self.look(x), dim=1) @ F.normalize(self.examples, dim=0)
        if self.by_data:
            agreement.data.pow_(3).mul_(20)
            return agreement
        return 20 * agreement.pow(3)


@broken("inplace_autograd", effect="silent", epochs=3, gap=0.2, measure=gradient_error)
def activations_changed_behind_autograd(sound: bool) -> dict:
    model = Sharpened(by_data=not sound)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(digits())}


class Growth(nn.Module):
    """Yields grow exponentially with an inner value, up to a limit."""

    def __init__(self, by_data: bool):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
        self.by_data = by_data

    def forward(self, x: Tensor) -> Tensor:
        growth = torch.exp(self.body(x).squeeze(1))
        if self.by_data:
            growth.data.clamp_(0.5, 2.0).sub_(1.0)
            return growth
        return growth.clamp(0.5, 2.0) - 1.0


@broken("inplace_autograd", effect="silent", epochs=3, gap=0.2, measure=gradient_error)
def output_clamped_behind_autograd(sound: bool) -> dict:
    model = Growth(by_data=not sound)

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return -torch.cat([(model(x) - y).square() for x, y in loader]).mean().item()

    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "evaluate": evaluate,
        **loaders(yields()),
    }
