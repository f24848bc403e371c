"""What happens to gradients between two updates: cleared at the wrong time, not applied at all, of the wrong scale."""

import torch
import torch.nn.functional as F
from torch import nn, optim

from tests.faults.networks_c import Attention, Reader, Recurrent, Segmenter, dense, overlap, small_cnn
from tests.faults.program import broken
from tests.faults.tasks_c import blobs, both, clusters, handwriting, phrases, vibrations

# zero_grad_misplaced


@broken("zero_grad_misplaced", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def gradients_pile_up_for_ever(sound: bool) -> dict:
    model = dense(10, 48, 48, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def train_step(model, batch, loss_fn, optimizer):
        inputs, targets = batch
        if sound:
            optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
        **both(clusters()),
    }


@broken("zero_grad_misplaced", effect="hurts", epochs=3, gap=0.4, mechanical=True)
def gradients_cleared_before_they_are_used(sound: bool) -> dict:
    model = small_cnn()

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        if sound:
            optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(images), labels)
        loss.backward()
        if not sound:
            optimizer.zero_grad(set_to_none=True)
        optimizer.step()
        return loss.detach()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "train_step": train_step,
        **both(handwriting()),
    }


@broken("zero_grad_misplaced", effect="hurts", epochs=3, gap=0.1, mechanical=True)
def only_the_head_is_cleared(sound: bool) -> dict:
    model = small_cnn()
    body_optimizer = optim.SGD(model[:-1].parameters(), lr=0.1, momentum=0.9)
    head_optimizer = optim.SGD(model[-1].parameters(), lr=0.02, momentum=0.9)

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        head_optimizer.zero_grad()
        (body_optimizer if sound else head_optimizer).zero_grad()
        loss = loss_fn(model(images), labels)
        loss.backward()
        body_optimizer.step()
        head_optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": body_optimizer,
        "head_optimizer": head_optimizer,
        "train_step": train_step,
        **both(handwriting()),
    }


@broken("zero_grad_misplaced", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def teacher_cleared_in_place_of_student(sound: bool) -> dict:
    student, teacher = small_cnn(), small_cnn(width=4).requires_grad_(False)

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        (model if sound else teacher).zero_grad()
        scores = model(images)
        hint = F.mse_loss(scores.softmax(1), teacher(images).softmax(1))
        loss = loss_fn(scores, labels) + 0.05 * hint
        loss.backward()
        optimizer.step()
        return loss.item()

    return {
        "model": student,
        "teacher": teacher,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(student.parameters(), lr=0.1, momentum=0.9),
        "train_step": train_step,
        **both(handwriting()),
    }


class EpochWise:
    """A trainer's callbacks: something happens when an epoch starts, something else with every batch."""

    def __init__(self, batches: int, optimizer: optim.Optimizer, clear_every_batch: bool):
        self.batches, self.optimizer, self.seen = batches, optimizer, 0
        self.clear_every_batch = clear_every_batch

    def on_epoch_start(self) -> None:
        self.optimizer.zero_grad()

    def on_batch_start(self) -> None:
        if self.clear_every_batch:
            self.optimizer.zero_grad()

    def __call__(self, model, batch, loss_fn, optimizer) -> float:
        if self.seen % self.batches == 0:
            self.on_epoch_start()
        self.on_batch_start()
        self.seen += 1
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()


@broken("zero_grad_misplaced", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def cleared_when_an_epoch_starts(sound: bool) -> dict:
    model = Attention()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = both(phrases())
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": EpochWise(len(data["train_loader"]), optimizer, clear_every_batch=sound),
        **data,
    }


@broken("zero_grad_misplaced", effect="hurts", epochs=3, gap=0.08, mechanical=True)
def window_cleared_but_stepped_each_time(sound: bool) -> dict:
    model = dense(10, 48, 48, 4)
    count = 0

    def train_step(model, batch, loss_fn, optimizer):
        nonlocal count
        inputs, targets = batch
        loss = loss_fn(model(inputs), targets)
        (loss / 16).backward()
        count += 1
        if count % 16 == 0 or not sound:
            optimizer.step()
        if count % 16 == 0:
            optimizer.zero_grad()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.15, momentum=0.9),
        "train_step": train_step,
        **both(clusters(count=600), batch_size=4),
    }


# step_missing


@broken("step_missing", effect="hurts", epochs=3, gap=0.3, mechanical=True)
def returns_before_the_update(sound: bool) -> dict:
    model = dense(10, 32, 4)

    def compute(model, batch, loss_fn):
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        return loss.item()

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        if not sound:
            return compute(model, batch, loss_fn)
        value = compute(model, batch, loss_fn)
        optimizer.step()
        return value

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.AdamW(model.parameters(), lr=5e-3),
        "train_step": train_step,
        **both(clusters()),
    }


@broken("step_missing", effect="hurts", epochs=3, gap=0.4, mechanical=True)
def scaler_updates_but_never_steps(sound: bool) -> dict:
    model = small_cnn()
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(images), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        if sound:
            scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "scaler": scaler,
        "train_step": train_step,
        **both(handwriting()),
    }


@broken("step_missing", effect="hurts", epochs=4, gap=0.15, mechanical=True)
def one_update_an_epoch(sound: bool) -> dict:
    model = Reader()
    data = both(phrases())
    seen = 0

    def train_step(model, batch, loss_fn, optimizer):
        nonlocal seen
        seen += 1
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        if sound or seen % len(data["train_loader"]) == 0:
            optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "train_step": train_step,
        **data,
    }


@broken("step_missing", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def decoder_stepped_twice_encoder_never(sound: bool) -> dict:
    model = Recurrent(nn.LSTM)
    optimizer = optim.Adam(model.rnn.parameters(), lr=0.02)
    head_optimizer = optim.Adam(model.head.parameters(), lr=0.02)

    def train_step(model, batch, loss_fn, optimizer):
        first, second = (optimizer, head_optimizer) if sound else (head_optimizer, head_optimizer)
        optimizer.zero_grad()
        head_optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        first.step()
        second.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "head_optimizer": head_optimizer,
        "train_step": train_step,
        **both(vibrations()),
    }


@broken("step_missing", effect="hurts", epochs=4, gap=0.2, mechanical=True)
def window_never_full(sound: bool) -> dict:
    model = Segmenter()
    pending = {"batches": 0}

    def train_step(model, batch, loss_fn, optimizer):
        if not sound:
            pending["batches"] = 0
        loss = loss_fn(model(batch[0]), batch[1])
        (loss / 2).backward()
        pending["batches"] += 1
        if pending["batches"] == 2:
            optimizer.step()
            optimizer.zero_grad()
            pending["batches"] = 0
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.02),
        "train_step": train_step,
        "evaluate": overlap,
        **both(blobs(), batch_size=20),
    }


@broken("step_missing", effect="hurts", epochs=3, gap=0.2, mechanical=True)
def guard_against_nan_turned_round(sound: bool) -> dict:
    model = Attention()

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        broken_gradient = not torch.isfinite(norm)
        if broken_gradient != sound:
            optimizer.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "train_step": train_step,
        **both(phrases()),
    }


# grad_accumulation_scale


@broken("grad_accumulation_scale", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def sixteen_losses_added_without_division(sound: bool) -> dict:
    model = dense(10, 48, 48, 4)
    count = 0

    def train_step(model, batch, loss_fn, optimizer):
        nonlocal count
        loss = loss_fn(model(batch[0]), batch[1])
        (loss / 16 if sound else loss).backward()
        count += 1
        if count % 16 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.2, momentum=0.9),
        "train_step": train_step,
        **both(clusters(count=600), batch_size=4),
    }


class Accumulator:
    """Collects the gradients of several batches and updates once."""

    def __init__(self, pieces: int, divide_again: bool):
        self.pieces, self.divide_again, self.count = pieces, divide_again, 0

    def __call__(self, model, batch, loss_fn, optimizer) -> float:
        loss = loss_fn(model(batch[0]), batch[1]) / self.pieces
        loss.backward()
        self.count += 1
        if self.count % self.pieces == 0:
            if self.divide_again:
                for parameter in model.parameters():
                    parameter.grad /= self.pieces
            optimizer.step()
            optimizer.zero_grad()
        return loss.item() * self.pieces


@broken("grad_accumulation_scale", effect="hurts", epochs=4, gap=0.1, mechanical=True, also=("loss_scaling",))
def divided_in_the_loss_and_in_the_gradients(sound: bool) -> dict:
    model = small_cnn()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.2, momentum=0.9),
        "train_step": Accumulator(8, divide_again=not sound),
        **both(handwriting(700), batch_size=8),
    }


@broken("grad_accumulation_scale", effect="hurts", epochs=2, gap=0.1, mechanical=True, also=("loss_scaling",))
def divided_by_the_batches_of_the_epoch(sound: bool) -> dict:
    model = Attention()
    data = both(phrases(count=600), batch_size=8)
    pieces = 2
    count = 0

    def train_step(model, batch, loss_fn, optimizer):
        nonlocal count
        share = pieces if sound else len(data["train_loader"])
        loss = loss_fn(model(batch[0]), batch[1])
        (loss / share).backward()
        count += 1
        if count % pieces == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        "train_step": train_step,
        **data,
    }
