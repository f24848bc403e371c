"""Clipping at the wrong moment, and a graph that outlives its step."""

import math

import torch
from torch import nn, optim

from tests.faults.networks_c import Attention, Reader, Recurrent, dense, minus_loss, small_cnn
from tests.faults.program import broken
from tests.faults.tasks_c import both, clusters, handwriting, phrases, sayings, surface, vibrations

# clip_misplaced


@broken("clip_misplaced", effect="hurts", epochs=4, gap=0.2, mechanical=True)
def clipped_after_the_update(sound: bool) -> dict:
    model = dense(5, 64, 64, 1)

    def train_step(model, batch, loss_fn, optimizer):
        x, y = batch
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        if sound:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
        else:
            optimizer.step()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        "train_step": train_step,
        "evaluate": minus_loss(nn.MSELoss()),
        **both(surface(spread=6.0)),
    }


@broken("clip_misplaced", effect="hurts", epochs=3, gap=0.15, mechanical=True)
def clipped_before_the_gradients_exist(sound: bool) -> dict:
    model = Attention()

    def clip():
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)

    def train_step(model, batch, loss_fn, optimizer):
        words, mood = batch
        optimizer.zero_grad()
        loss = loss_fn(model(words), mood)
        if not sound:
            clip()
        loss.backward()
        if sound:
            clip()
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=1.0, momentum=0.9),
        "train_step": train_step,
        **both(phrases()),
    }


@broken("clip_misplaced", effect="hurts", epochs=3, gap=0.2, mechanical=True)
def scaled_gradients_clipped(sound: bool) -> dict:
    model = small_cnn()
    scaler = torch.amp.GradScaler("cpu")

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(images), labels)
        scaler.scale(loss).backward()
        if sound:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "scaler": scaler,
        "train_step": train_step,
        **both(handwriting()),
    }


@broken("clip_misplaced", effect="hurts", epochs=3, gap=0.15, mechanical=True)
def only_the_head_is_clipped(sound: bool) -> dict:
    model = Reader(width=24)

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(50 * model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters() if sound else model.head.bias, 0.1)
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=1.0, momentum=0.9),
        "train_step": train_step,
        **both(phrases()),
    }


# graph_retained


def graph_size(value: object) -> int:
    """Return how many operations a tensor, or a list of tensors, still remembers."""
    starts = value if isinstance(value, list) else [value]
    waiting = [start.grad_fn for start in starts if isinstance(start, torch.Tensor) and start.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return len(seen)


def memory_left(program: dict) -> float:
    return -float(graph_size(program["meter"].held()))


class RunningTotal:
    """The sum of the losses of a training, for the progress bar."""

    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value) -> None:
        self.total += value
        self.count += 1

    def held(self):
        return self.total


@broken("graph_retained", effect="silent", epochs=2, gap=100, measure=memory_left, mechanical=True)
def meter_adds_up_live_losses(sound: bool) -> dict:
    model = dense(10, 32, 32, 4)
    meter = RunningTotal()

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        meter.update(loss.item() if sound else loss)
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=3e-3),
        "meter": meter,
        "train_step": train_step,
        **both(clusters()),
    }


class History:
    """What a training leaves to plot: losses, and what the network thought of each batch."""

    def __init__(self):
        self.losses, self.confidence = [], []

    def held(self) -> list:
        return self.losses + self.confidence


@broken("graph_retained", effect="silent", epochs=2, gap=100, measure=memory_left, mechanical=True)
def history_of_live_outputs(sound: bool) -> dict:
    model = small_cnn()
    meter = History()

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        optimizer.zero_grad()
        scores = model(images)
        loss = loss_fn(scores, labels)
        loss.backward()
        optimizer.step()
        confidence = scores.softmax(1).max(1).values.mean()
        meter.losses.append(loss.item())
        meter.confidence.append(confidence.detach() if sound else confidence)
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=3e-3),
        "meter": meter,
        "train_step": train_step,
        **both(handwriting()),
    }


class SmoothLoss(RunningTotal):
    """A running mean of the loss, in which old batches fade."""

    def update(self, value) -> None:
        self.total = value if self.count == 0 else 0.95 * self.total + 0.05 * value
        self.count += 1


@broken("graph_retained", effect="silent", epochs=2, gap=100, measure=memory_left, mechanical=True)
def smoothed_loss_keeps_every_graph(sound: bool) -> dict:
    model = Recurrent(nn.GRU, width=16)
    meter = SmoothLoss()

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        meter.update(loss.detach() if sound else loss)
        return meter.total.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "meter": meter,
        "train_step": train_step,
        **both(vibrations()),
    }


class Writer(nn.Module):
    """Predicts the next letter, and remembers where the last batch ended."""

    def __init__(self, cut_history: bool):
        super().__init__()
        self.letters = nn.Embedding(10, 16)
        self.rnn = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, 10)
        self.cut_history, self.memory = cut_history, None

    def forward(self, text):
        memory = self.memory if self.training else None
        states, memory = self.rnn(self.letters(text), memory)
        if self.training:
            self.memory = memory.detach() if self.cut_history else memory
        return self.head(states).transpose(1, 2)


@broken("graph_retained", effect="raises", epochs=2, mechanical=True)
def memory_carried_with_its_graph(sound: bool) -> dict:
    model = Writer(cut_history=sound)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        **both(sayings(), batch_size=50),
    }


@broken("graph_retained", effect="raises", epochs=1, mechanical=True)
def penalty_computed_once(sound: bool) -> dict:
    model = dense(10, 32, 32, 4)
    penalties = []

    def penalty(model):
        return 1e-4 * sum(weight.square().sum() for weight in model.parameters())

    def train_step(model, batch, loss_fn, optimizer):
        if sound or not penalties:
            penalties[:] = [penalty(model)]
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1]) + penalties[0]
        loss.backward()
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=3e-3),
        "train_step": train_step,
        **both(clusters()),
    }


class BestLoss:
    """Remembers the lowest loss so far as the target that later ones are compared with."""

    def __init__(self):
        self.best = math.inf
        self.margins = []

    def held(self) -> list:
        return self.margins


@broken("graph_retained", effect="silent", epochs=2, gap=100, measure=memory_left, mechanical=True)
def margins_to_the_best_loss(sound: bool) -> dict:
    model = Reader()
    meter = BestLoss()

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        seen = loss.item() if sound else loss
        meter.margins.append(seen - meter.best if meter.margins else 0 * seen)
        meter.best = min(meter.best, loss.item())
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "meter": meter,
        "train_step": train_step,
        **both(phrases()),
    }
