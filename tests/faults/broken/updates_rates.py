"""How far an update goes: learning rates, their schedules, and weight decay."""

import torch
from torch import nn, optim
from torch.optim import lr_scheduler

from tests.faults.networks_c import (
    Attention,
    Recurrent,
    Segmenter,
    dense,
    explained,
    minus_loss,
    overlap,
    small_cnn,
)
from tests.faults.program import broken
from tests.faults.tasks_c import blobs, both, clusters, handwriting, phrases, surface, tags, vibrations, visits

# lr_too_high


@broken("lr_too_high", effect="hurts", epochs=3, gap=0.3, mechanical=True)
def plain_sgd_far_too_fast(sound: bool) -> dict:
    model = small_cnn()
    optimizer = optim.SGD(model.parameters(), lr=0.1 if sound else 10.0, momentum=0.9)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(handwriting())}


@broken("lr_too_high", effect="hurts", epochs=3, gap=0.2, mechanical=True)
def adam_with_the_rate_of_sgd(sound: bool) -> dict:
    model = Attention()
    optimizer = optim.Adam(model.parameters(), lr=5e-3 if sound else 2.0)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(phrases())}


@broken("lr_too_high", effect="hurts", epochs=3, gap=0.2, mechanical=True)
def one_group_far_too_fast(sound: bool) -> dict:
    model = Recurrent(nn.GRU)
    rate = 1e-2
    groups = [
        {"params": model.head.parameters()},
        {"params": model.rnn.parameters(), "lr": rate if sound else rate * 100},
    ]
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.AdamW(groups, lr=rate),
        **both(vibrations()),
    }


@broken("lr_too_high", effect="hurts", epochs=3, gap=0.3, mechanical=True)
def regression_too_fast(sound: bool) -> dict:
    model = dense(5, 48, 48, 1, activation=nn.Tanh)
    optimizer = optim.RMSprop(model.parameters(), lr=0.003 if sound else 0.3)
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optimizer,
        "evaluate": explained,
        **both(surface()),
    }


# lr_too_low


@broken("lr_too_low", effect="hurts", epochs=3, gap=0.3, mechanical=True)
def sgd_with_the_rate_of_adam(sound: bool) -> dict:
    model = dense(10, 48, 48, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1 if sound else 1e-5)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(clusters())}


@broken("lr_too_low", effect="hurts", epochs=3, gap=0.3, mechanical=True)
def rate_of_one_millionth(sound: bool) -> dict:
    model = small_cnn()
    optimizer = optim.Adam(model.parameters(), lr=5e-3 if sound else 1e-6)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(handwriting())}


@broken("lr_too_low", effect="hurts", epochs=3, gap=0.1, mechanical=True)
def factor_applied_to_the_new_parts(sound: bool) -> dict:
    model = Segmenter()
    rate = 0.02
    slow, fast = {"lr": rate if sound else rate * 1e-5}, {"lr": rate}
    groups = [
        {"params": model.encoder.parameters(), **fast},
        {"params": [*model.middle.parameters(), *model.decoder.parameters(), *model.output.parameters()], **slow},
    ]
    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optim.Adam(groups),
        "evaluate": overlap,
        **both(blobs(), batch_size=20),
    }


class InverseRoot:
    """The rate of the transformer paper, set by hand: it rises with the updates, then falls."""

    def __init__(self, width: int, warm_up: int):
        self.width, self.warm_up, self.updates = width, warm_up, 0

    def rate(self) -> float:
        self.updates += 1
        return self.width**-0.5 * min(self.updates**-0.5, self.updates * self.warm_up**-1.5)

    def __call__(self, model, batch, loss_fn, optimizer) -> float:
        rate = self.rate()
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()


@broken("lr_too_low", effect="hurts", epochs=4, gap=0.15, mechanical=True, also=("scheduler_misuse",))
def warm_up_longer_than_the_training(sound: bool) -> dict:
    model = Attention()
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98)),
        "train_step": InverseRoot(16, warm_up=300 if sound else 40_000),
        **both(phrases()),
    }


# scheduler_misuse


@broken("scheduler_misuse", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def epochs_counted_in_batches(sound: bool) -> dict:
    model = small_cnn()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.3)

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        if not sound:
            schedule.step()
        return loss.item()

    program = {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
        **both(handwriting()),
    }
    return {**program, "scheduler": schedule} if sound else program


@broken("scheduler_misuse", effect="hurts", epochs=6, gap=0.1, mechanical=True)
def plateau_waits_for_falling_accuracy(sound: bool) -> dict:
    model = small_cnn()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, mode="max" if sound else "min", factor=0.02, patience=0)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": schedule,
        **both(handwriting()),
    }


@broken("scheduler_misuse", effect="hurts", epochs=3, gap=0.15, mechanical=True, also=("lr_too_low",))
def factor_taken_for_a_rate(sound: bool) -> dict:
    model = Recurrent(nn.LSTM)
    rate = 0.01
    optimizer = optim.Adam(model.parameters(), lr=rate)

    def falling(epoch: int) -> float:
        return 0.95**epoch if sound else rate * 0.95**epoch

    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": lr_scheduler.LambdaLR(optimizer, falling),
        **both(vibrations()),
    }


@broken("scheduler_misuse", effect="hurts", epochs=4, gap=0.15, mechanical=True)
def one_cycle_moved_once_an_epoch(sound: bool) -> dict:
    model = dense(10, 48, 48, 4)
    data = both(clusters())
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.05, epochs=4, steps_per_epoch=len(data["train_loader"]), div_factor=1000
    )

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        if sound:
            schedule.step()
        return loss.item()

    program = {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "train_step": train_step,
        **data,
    }
    return program if sound else {**program, "scheduler": schedule}


@broken("scheduler_misuse", effect="hurts", epochs=4, gap=0.1, mechanical=True)
def decay_of_an_epoch_in_every_batch(sound: bool) -> dict:
    model = dense(5, 64, 64, 1)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    data = both(surface())
    decay = lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    state = {"batch": 0}

    def train_step(model, batch, loss_fn, optimizer):
        loss = loss_fn(model(batch[0]), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state["batch"] += 1
        if not sound or state["batch"] % len(data["train_loader"]) == 0:
            decay.step()
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optimizer,
        "train_step": train_step,
        "evaluate": explained,
        **data,
    }


@broken("scheduler_misuse", effect="hurts", epochs=6, gap=0.1, mechanical=True)
def gamma_of_one_thousandth(sound: bool) -> dict:
    model = Attention()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    schedule = lr_scheduler.MultiStepLR(optimizer, milestones=[1, 2] if not sound else [4, 5], gamma=0.01)
    return {
        "model": model,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": schedule,
        **both(phrases()),
    }


# weight_decay_too_high


@broken("weight_decay_too_high", effect="hurts", epochs=4, gap=0.3, mechanical=True)
def decay_of_one(sound: bool) -> dict:
    model = small_cnn()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4 if sound else 0.5)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(handwriting())}


@broken("weight_decay_too_high", effect="hurts", epochs=4, gap=0.2, mechanical=True)
def decoupled_decay_outweighs_the_step(sound: bool) -> dict:
    model = Attention()
    optimizer = optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01 if sound else 40.0)
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **both(phrases())}


class PenalisedLoss:
    """A loss for counts, and a penalty on all weights."""

    def __init__(self, model: nn.Module, strength: float):
        self.model, self.strength = model, strength
        self.counts = nn.PoissonNLLLoss(log_input=True)

    def __call__(self, outputs, targets):
        penalty = sum(weight.square().sum() for weight in self.model.parameters())
        return self.counts(outputs, targets) + self.strength * penalty


@broken("weight_decay_too_high", effect="hurts", epochs=4, gap=0.3, mechanical=True)
def penalty_written_out_and_too_strong(sound: bool) -> dict:
    model = dense(6, 32, 32, 1)
    return {
        "model": model,
        "loss_fn": PenalisedLoss(model, 1e-5 if sound else 1.0),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "evaluate": minus_loss(nn.PoissonNLLLoss(log_input=True)),
        **both(visits()),
    }


@broken("weight_decay_too_high", effect="hurts", epochs=5, gap=0.03, mechanical=True)
def shrunk_by_hand_after_each_update(sound: bool) -> dict:
    model = dense(40, 32, 6)
    shrink = 1 - (1e-5 if sound else 0.1)

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(shrink)
        return loss.item()

    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "train_step": train_step,
        "evaluate": minus_loss(nn.BCEWithLogitsLoss()),
        **both(tags()),
    }
