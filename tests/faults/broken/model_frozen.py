"""Models whose frozen part is not frozen."""

import copy
from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim

from tests.faults.program import broken
from tests.faults.tasks_b import (
    Pair,
    digits,
    loaders,
    rings,
    symptoms,
    topics,
    waves,
)


def adam(model: nn.Module, lr: float = 5e-3) -> optim.Optimizer:
    return optim.Adam(model.parameters(), lr=lr)


# freeze_ineffective


class Tuned(nn.Module):
    """A backbone that was trained elsewhere, and a new head."""

    def __init__(self, backbone: nn.Module, width: int, classes: int):
        super().__init__()
        self.backbone = copy.deepcopy(backbone)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def trained_elsewhere(backbone: Callable[[], nn.Sequential], pair: Pair) -> nn.Sequential:
    """Return a backbone that has learned the task with some head; the caller's random numbers stay as they are."""
    x, y = pair[0].tensors
    loss_fn = F.cross_entropy if y.dim() == 1 else F.binary_cross_entropy_with_logits
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(backbone(), nn.LazyLinear(10 if y.dim() == 1 else y.shape[1]))
        model(x[:4])
        optimizer = adam(model, 1e-2)
        for rows in torch.randint(len(x), (60, 64)):
            optimizer.zero_grad()
            loss_fn(model(x[rows]), y[rows]).backward()
            optimizer.step()
    return model[0]


def perceptron(inputs: int, norm: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 24), nn.ReLU(), nn.Linear(24, 24), norm, nn.ReLU())


@lru_cache
def of_digits() -> nn.Sequential:
    def backbone() -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten())

    return trained_elsewhere(backbone, digits())


@lru_cache
def of_rings() -> nn.Sequential:
    return trained_elsewhere(lambda: perceptron(8, nn.BatchNorm1d(24)), rings())


@lru_cache
def of_symptoms() -> nn.Sequential:
    return trained_elsewhere(lambda: perceptron(12, nn.Identity()), symptoms())


@lru_cache
def of_waves() -> nn.Sequential:
    return trained_elsewhere(lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 32), nn.Tanh()), waves())


@lru_cache
def of_topics() -> nn.Sequential:
    return trained_elsewhere(lambda: nn.Sequential(nn.EmbeddingBag(30, 16, padding_idx=0)), topics())


def drift(program: dict) -> float:
    """Return minus the distance of the backbone's parameters from where they were."""
    parameters = dict(program["model"].backbone.named_parameters())
    return -sum((parameters[name] - value).norm().item() for name, value in program["start"].items())


def with_start(program: dict) -> dict:
    named = program["model"].backbone.named_parameters()
    return program | {"start": {name: value.detach().clone() for name, value in named}}


@broken("freeze_ineffective", effect="silent", epochs=2, gap=0.1, measure=drift, mechanical=True)
def requires_grad_set_on_the_module(sound: bool) -> dict:
    model = Tuned(of_digits(), 128, 10)
    if sound:
        model.backbone.requires_grad_(False)
    else:
        model.backbone.requires_grad = False
    return with_start({"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model), **loaders(digits())})


class TunedInEval(Tuned):
    """Keeps the backbone in evaluation mode, so that it stays as it is."""

    def train(self, mode: bool = True) -> nn.Module:
        super().train(mode)
        self.backbone.eval()
        return self


@broken("freeze_ineffective", effect="silent", epochs=2, gap=0.1, measure=drift, mechanical=True)
def evaluation_mode_taken_for_freezing(sound: bool) -> dict:
    model = TunedInEval(of_rings(), 24, 3)
    if sound:
        model.backbone.requires_grad_(False)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = optim.Adam(trained, lr=5e-3)
    return with_start({"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **loaders(rings())})


@broken("freeze_ineffective", effect="silent", epochs=4, gap=0.1, measure=drift, mechanical=True)
def frozen_by_zero_gradients_under_weight_decay(sound: bool) -> dict:
    model = Tuned(of_symptoms(), 24, 5)
    optimizer = optim.AdamW((model.head if sound else model).parameters(), lr=1e-2, weight_decay=0.05)

    def train_step(model, batch, loss_fn, optimizer):
        readings, ailments = batch
        model.zero_grad()
        loss = loss_fn(model(readings), ailments)
        loss.backward()
        for parameter in model.backbone.parameters():
            parameter.grad.zero_()  # the backbone stays as it is
        optimizer.step()
        return loss.item()

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            return torch.cat([(model(x) > 0) == (y > 0.5) for x, y in loader]).float().mean().item()

    return with_start(
        {
            "model": model,
            "loss_fn": nn.BCEWithLogitsLoss(),
            "optimizer": optimizer,
            "train_step": train_step,
            "evaluate": evaluate,
            **loaders(symptoms()),
        }
    )


@broken("freeze_ineffective", effect="silent", epochs=2, gap=0.1, measure=drift, mechanical=True)
def frozen_through_the_state_dict(sound: bool) -> dict:
    model = Tuned(of_waves(), 32, 4)
    if sound:
        frozen = [value for name, value in model.named_parameters() if name.startswith("backbone")]
    else:
        frozen = [value for name, value in model.state_dict().items() if name.startswith("backbone")]
    for value in frozen:
        value.requires_grad = False
    optimizer = optim.RMSprop(filter(lambda value: value.requires_grad, model.parameters()), lr=1e-3)
    program = {"model": model, "loss_fn": F.cross_entropy, "optimizer": optimizer, "frozen": frozen}
    return with_start(program | loaders(waves()))


@broken("freeze_ineffective", effect="silent", epochs=3, gap=0.1, measure=drift, mechanical=True)
def evaluation_thaws_the_backbone(sound: bool) -> dict:
    model = Tuned(of_topics(), 16, 5)
    model.backbone.requires_grad_(False)

    def evaluate(model: Tuned, loader) -> float:
        model.eval().requires_grad_(False)  # no gradients, less memory
        right = torch.cat([model(x).argmax(1) == y for x, y in loader])
        (model.head if sound else model).requires_grad_(True)
        return right.float().mean().item()

    program = {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": adam(model, 1e-2), "evaluate": evaluate}
    return with_start(program | loaders(topics()))


class SettleThenFreeze:
    """A step that trains the whole model for some batches, and from then on its head alone."""

    def __init__(self, batches: int, keep_gradients: bool):
        self.left = batches
        self.keep_gradients = keep_gradients
        self.frozen: dict[str, Tensor] = {}

    def __call__(self, model: Tuned, batch, loss_fn, optimizer) -> float:
        if self.left == 0:
            model.backbone.requires_grad_(False)
            self.frozen = {name: value.clone() for name, value in model.backbone.named_parameters()}
        self.left -= 1
        optimizer.zero_grad(set_to_none=not self.keep_gradients)
        x, y = batch
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()


def drift_since_freezing(program: dict) -> float:
    return drift({"model": program["model"], "start": program["train_step"].frozen})


@broken("freeze_ineffective", effect="silent", epochs=3, gap=0.1, measure=drift_since_freezing, mechanical=True)
def frozen_with_momentum_left(sound: bool) -> dict:
    """Gradients that are zero, and not None, let momentum and weight decay of the frozen part go on."""
    model = Tuned(of_digits(), 128, 10)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-2),
        "train_step": SettleThenFreeze(batches=6, keep_gradients=not sound),
        **loaders(digits()),
    }
