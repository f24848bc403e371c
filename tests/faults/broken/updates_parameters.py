"""Whose parameters are updated, and what happens to them and to the optimizer's memory in between."""

import copy
from collections import defaultdict

import torch
from torch import nn, optim
from torch.nn.utils import parametrizations

from tests.faults.networks_c import (
    Reader,
    Recurrent,
    Segmenter,
    dense,
    explained,
    minus_loss,
    overlap,
    small_cnn,
)
from tests.faults.program import broken
from tests.faults.tasks_c import blobs, both, clusters, handwriting, phrases, surface, tags, tumours, vibrations, wines

# param_not_optimised


@broken("param_not_optimised", effect="hurts", epochs=3, gap=0.3, mechanical=True)
def optimizer_of_another_network(sound: bool) -> dict:
    def make_model():
        return dense(10, 32, 32, 4)

    model = make_model()
    optimizer = optim.Adam((model if sound else make_model()).parameters(), lr=5e-3)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(clusters())}


@broken("param_not_optimised", effect="hurts", epochs=3, gap=0.3, mechanical=True)
def head_replaced_after_the_optimizer_was_made(sound: bool) -> dict:
    model = small_cnn(classes=1000)
    for parameter in model[:-1].parameters():
        parameter.requires_grad = False
    if sound:
        model[-1] = nn.Linear(model[-1].in_features, 10)
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    if not sound:
        model[-1] = nn.Linear(model[-1].in_features, 10)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(handwriting())}


@broken("param_not_optimised", effect="hurts", epochs=3, gap=0.25, mechanical=True)
def a_copy_is_trained_by_the_optimizer_of_the_original(sound: bool) -> dict:
    original = Recurrent(nn.GRU)
    optimizer = optim.Adam(original.parameters(), lr=0.01)
    model = original if sound else copy.deepcopy(original)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(vibrations())}


@broken("param_not_optimised", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def only_the_decoder_learns(sound: bool) -> dict:
    model = Recurrent(nn.LSTM, width=16)
    parts = [model.rnn, model.head] if sound else [model.head]
    optimizer = optim.Adam([weight for part in parts for weight in part.parameters()], lr=0.01)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(vibrations())}


@broken("param_not_optimised", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def groups_by_shape_leave_the_kernels_out(sound: bool) -> dict:
    model = small_cnn()
    free = [weight for weight in model.parameters() if weight.ndim == 1]
    decayed = [weight for weight in model.parameters() if (weight.ndim > 1 if sound else weight.ndim == 2)]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": free, "weight_decay": 0.0}]
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.AdamW(groups, lr=5e-3),
        **both(handwriting()),
    }


@broken("param_not_optimised", effect="hurts", epochs=3, gap=0.1, mechanical=True)
def weight_norm_added_after_the_optimizer(sound: bool) -> dict:
    model = dense(30, 24, 2)

    def add_norm():
        for layer in model:
            if isinstance(layer, nn.Linear):
                parametrizations.weight_norm(layer)

    if sound:
        add_norm()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if not sound:
        add_norm()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "evaluate": minus_loss(nn.CrossEntropyLoss()),
        **both(tumours()),
    }


class Growing(nn.Module):
    """Makes its first layer when it learns how many numbers a sample has."""

    def __init__(self, classes: int):
        super().__init__()
        self.first = None
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(24, classes))

    def prepare(self, inputs: int) -> None:
        if self.first is None:
            self.first = nn.Linear(inputs, 24)

    def forward(self, x):
        self.prepare(x.shape[1])
        return self.rest(self.first(x))


@broken("param_not_optimised", effect="hurts", epochs=4, gap=0.03, mechanical=True)
def first_layer_made_in_the_first_forward(sound: bool) -> dict:
    data = both(tags(), batch_size=20)
    model = Growing(6)
    torch.manual_seed(3)
    if sound:
        model(data["train_loader"].dataset[:2][0])
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    if not sound:
        model(data["train_loader"].dataset[:2][0])
    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optimizer,
        "evaluate": minus_loss(nn.BCEWithLogitsLoss()),
        **data,
    }


@broken("param_not_optimised", effect="hurts", epochs=3, gap=0.1, mechanical=True)
def second_group_never_added(sound: bool) -> dict:
    model = Segmenter()
    optimizer = optim.Adam([{"params": model.output.parameters(), "lr": 0.02}], lr=0.01)
    if sound:
        for part in (model.encoder, model.middle, model.decoder):
            optimizer.add_param_group({"params": part.parameters()})
    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optimizer,
        "evaluate": overlap,
        **both(blobs(), batch_size=20),
    }


@broken("param_not_optimised", effect="hurts", epochs=3, gap=0.1, mechanical=True)
def word_vectors_exchanged_after_the_optimizer(sound: bool) -> dict:
    model = Reader(width=6)
    vectors = 0.1 * torch.randn(30, 6)
    vectors[0] = 0

    def load_vectors():
        model.words = nn.EmbeddingBag.from_pretrained(vectors, freeze=False, mode="mean", padding_idx=0)

    if sound:
        load_vectors()
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    if not sound:
        load_vectors()
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(phrases())}


# optimizer_recreated


@broken("optimizer_recreated", effect="hurts", epochs=3, gap=0.1, mechanical=True)
def momentum_forgotten_with_every_batch(sound: bool) -> dict:
    model = dense(10, 32, 32, 4)

    def train_step(model, batch, loss_fn, optimizer):
        if not sound:
            optimizer = optim.SGD(model.parameters(), lr=0.005, momentum=0.95)
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.005, momentum=0.95),
        "train_step": train_step,
        **both(clusters()),
    }


@broken("optimizer_recreated", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def state_emptied_to_save_memory(sound: bool) -> dict:
    model = small_cnn()

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        if not sound:
            optimizer.state = defaultdict(dict)
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.02, momentum=0.95, nesterov=True),
        "train_step": train_step,
        **both(handwriting()),
    }


class FreshStart:
    """Sets the learning rate back by loading how the optimizer began."""

    def __init__(self, optimizer: optim.Optimizer, only_rate: bool):
        self.only_rate = only_rate
        self.start = copy.deepcopy(optimizer.state_dict())

    def reset(self, optimizer: optim.Optimizer) -> None:
        if self.only_rate:
            for group, start in zip(optimizer.param_groups, self.start["param_groups"], strict=True):
                group["lr"] = start["lr"]
        else:
            optimizer.load_state_dict(self.start)

    def __call__(self, model, batch, loss_fn, optimizer) -> float:
        self.reset(optimizer)
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()


@broken("optimizer_recreated", effect="hurts", epochs=3, gap=0.1, mechanical=True)
def optimizer_set_back_with_its_rate(sound: bool) -> dict:
    model = Reader()
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.95)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": FreshStart(optimizer, only_rate=sound),
        **both(phrases()),
    }


@broken("optimizer_recreated", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def new_adam_for_every_batch(sound: bool) -> dict:
    model = dense(5, 48, 48, 1)

    def make_optimizer():
        return optim.Adam(model.parameters(), lr=0.02)

    keeper = {"optimizer": make_optimizer()}

    def train_step(model, batch, loss_fn, optimizer):
        optimizer = keeper["optimizer"] if sound else make_optimizer()
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": keeper["optimizer"],
        "train_step": train_step,
        "evaluate": explained,
        **both(surface()),
    }


# weights_reset


@broken("weights_reset", effect="hurts", epochs=3, gap=0.3, mechanical=True)
def initialised_in_every_step(sound: bool) -> dict:
    model = dense(10, 32, 32, 4)

    def initialise(layer):
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    model.apply(initialise)

    def train_step(model, batch, loss_fn, optimizer):
        if not sound:
            model.apply(initialise)
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "train_step": train_step,
        **both(clusters()),
    }


@broken("weights_reset", effect="hurts", epochs=4, gap=0.15, mechanical=True, also=("checkpoint_state",))
def pretrained_weights_loaded_every_epoch(sound: bool) -> dict:
    model = small_cnn()
    pretrained = copy.deepcopy(model.state_dict())
    data = both(handwriting())
    seen = 0

    def train_step(model, batch, loss_fn, optimizer):
        nonlocal seen
        start = seen == 0 if sound else seen % len(data["train_loader"]) == 0
        seen += 1
        if start:
            model.load_state_dict(pretrained)
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=3e-3),
        "train_step": train_step,
        **data,
    }


class Forgetful(nn.Module):
    """A GRU that prepares itself for a new batch of series."""

    def __init__(self, whole: bool):
        super().__init__()
        self.whole = whole
        self.rnn = nn.GRU(3, 24, batch_first=True)
        self.head = nn.Linear(24, 3)

    def start(self, batch: int):
        if self.whole:
            self.head.reset_parameters()
        return self.head.weight.new_zeros(1, batch, 24)

    def forward(self, x):
        states, _ = self.rnn(x, self.start(len(x)))
        return self.head(states[:, -1])


@broken("weights_reset", effect="hurts", epochs=3, gap=0.2, mechanical=True)
def reset_means_more_than_the_state(sound: bool) -> dict:
    model = Forgetful(whole=not sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        **both(vibrations()),
    }


@broken("weights_reset", effect="hurts", epochs=3, gap=0.15, mechanical=True)
def slow_weights_copied_back(sound: bool) -> dict:
    model = Reader()
    slow = copy.deepcopy(model).requires_grad_(False)

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(slow.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.02)
                if not sound:
                    new.copy_(old)
        return loss.item()

    return {
        "model": model,
        "slow": slow,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "train_step": train_step,
        **both(phrases()),
    }


@broken("weights_reset", effect="hurts", epochs=5, gap=0.1, mechanical=True, also=("checkpoint_state",))
def best_weights_restored_after_each_batch(sound: bool) -> dict:
    model = dense(13, 24, 3)
    best = {"loss": float("inf"), "weights": copy.deepcopy(model.state_dict())}

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        if loss.item() < best["loss"]:
            best.update(loss=loss.item(), weights=copy.deepcopy(model.state_dict()))
        elif not sound:
            model.load_state_dict(best["weights"])
        return loss.item()

    return {
        "model": model,
        "best": best,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.03, momentum=0.9),
        "train_step": train_step,
        "evaluate": minus_loss(nn.CrossEntropyLoss()),
        **both(wines(), batch_size=6),
    }
