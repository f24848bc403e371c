"""Training steps, optimizers and schedules that look unusual and are meant."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim import lr_scheduler, swa_utils
from torch.utils.checkpoint import checkpoint

from tests.faults.networks_c import Attention, Reader, Recurrent, Segmenter, dense, explained, overlap, small_cnn
from tests.faults.program import accuracy, sound
from tests.faults.tasks_c import blobs, both, clusters, handwriting, phrases, surface, vibrations, wines


def plain(model, batch, loss_fn, optimizer) -> float:
    optimizer.zero_grad()
    loss = loss_fn(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss.item()


def classifier(model: nn.Module, optimizer: optim.Optimizer, data: dict, **more) -> dict:
    return {"model": model, "loss_fn": nn.CrossEntropyLoss(), "optimizer": optimizer, **data, **more}


# accumulation


@sound("accumulation over four batches, the loss divided by four")
def four_batches_an_update() -> dict:
    model = small_cnn()
    count = 0

    def train_step(model, batch, loss_fn, optimizer):
        nonlocal count
        loss = loss_fn(model(batch[0]), batch[1])
        (loss / 4).backward()
        count += 1
        if count % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return classifier(model, optim.Adam(model.parameters(), lr=0.01), both(handwriting(700), 8), train_step=train_step)


@sound("accumulation: the last, partial window of an epoch is used too", epochs=4)
def partial_window_is_used() -> dict:
    model = Recurrent(nn.GRU)
    data = both(vibrations(count=600), batch_size=16)
    batches = len(data["train_loader"])
    place = 0

    def train_step(model, batch, loss_fn, optimizer):
        nonlocal place
        window = min(5, batches - place // 5 * 5)
        if place % 5 == 0:
            optimizer.zero_grad(set_to_none=False)
        loss = loss_fn(model(batch[0]), batch[1])
        (loss / window).backward()
        place += 1
        if place % 5 == 0 or place == batches:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        place %= batches
        return loss.item()

    return classifier(model, optim.Adam(model.parameters(), lr=0.02), data, train_step=train_step)


@sound("a large batch cut into pieces inside the step, gradients of sums")
def batch_in_pieces() -> dict:
    model = dense(10, 48, 4)

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        total = 0.0
        for inputs, targets in zip(batch[0].split(16), batch[1].split(16), strict=True):
            loss = F.cross_entropy(model(inputs), targets, reduction="sum") / len(batch[0])
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total

    optimizer = optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    return classifier(model, optimizer, both(clusters(), 64), train_step=train_step)


# optimizers and groups


@sound("two optimizers for two parts of a network")
def two_optimizers() -> dict:
    model = Reader()
    sparse = optim.Adagrad(model.words.parameters(), lr=0.3)
    head = optim.Adam(model.head.parameters(), lr=0.01)

    def train_step(model, batch, loss_fn, optimizer):
        for each in (sparse, head):
            each.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        for each in (sparse, head):
            each.step()
        return loss.item()

    return classifier(model, sparse, both(phrases()), train_step=train_step, head_optimizer=head)


@sound("rows of an embedding as sparse gradients, SparseAdam beside Adam")
def sparse_gradients() -> dict:
    model = nn.Sequential(nn.EmbeddingBag(30, 16, sparse=True), nn.Linear(16, 3))
    rows, rest = optim.SparseAdam(model[0].parameters(), lr=0.02), optim.Adam(model[1].parameters(), lr=0.01)

    def train_step(model, batch, loss_fn, optimizer):
        rows.zero_grad()
        rest.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        rows.step()
        rest.step()
        return loss.item()

    return classifier(model, rest, both(phrases()), train_step=train_step, rows=rows)


@sound("no weight decay for biases and normalisation")
def weight_decay_groups() -> dict:
    model = Attention()
    groups = [
        {"params": [weight for weight in model.parameters() if weight.ndim > 1], "weight_decay": 0.1},
        {"params": [weight for weight in model.parameters() if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    return classifier(model, optim.AdamW(groups, lr=3e-3), both(phrases()))


@sound("a slow body and a head that learns ten times as fast")
def two_rates() -> dict:
    model = small_cnn()
    pretend_pretraining(model)
    model[-1] = nn.Linear(model[-1].in_features, 10)
    groups = [{"params": model[:-1].parameters(), "lr": 1e-3}, {"params": model[-1].parameters(), "lr": 1e-2}]
    return classifier(model, optim.Adam(groups), both(handwriting()))


def pretend_pretraining(model: nn.Module) -> None:
    """Train for a moment on other pictures, as a body that somebody else has trained."""
    pictures, labels = handwriting()[1].tensors
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    for rows in torch.arange(400).split(40):
        optimizer.zero_grad()
        F.cross_entropy(model(pictures[rows]), labels[rows] // 2).backward()
        optimizer.step()
    model.zero_grad()


@sound("SGD with a rate of 0.1, momentum and weight decay")
def sgd_with_momentum() -> dict:
    model = small_cnn()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    return classifier(model, optimizer, both(handwriting()))


@sound("Adadelta, whose usual rate is 1.0")
def adadelta_rate_of_one() -> dict:
    model = small_cnn()
    return classifier(model, optim.Adadelta(model.parameters(), lr=1.0), both(handwriting(), 16))


@sound("Rprop on whole batches: only signs count", epochs=12)
def rprop_on_everything() -> dict:
    model = dense(13, 24, 3)
    return classifier(model, optim.Rprop(model.parameters(), lr=0.01), both(wines(), 120))


@sound("LBFGS with a closure", epochs=4)
def lbfgs_with_closure() -> dict:
    model = dense(13, 16, 3, activation=nn.Tanh)

    def train_step(model, batch, loss_fn, optimizer):
        inputs, targets = batch

        def closure():
            optimizer.zero_grad()
            loss = loss_fn(model(inputs), targets) + 1e-3 * sum(w.square().sum() for w in model.parameters())
            loss.backward()
            return loss

        return optimizer.step(closure).item()

    optimizer = optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
    return classifier(model, optimizer, both(wines(), 120), train_step=train_step)


@sound("sharpness-aware minimisation: two backward passes an update", epochs=4)
def sharpness_aware() -> dict:
    model = dense(10, 32, 4)

    def train_step(model, batch, loss_fn, optimizer):
        inputs, targets = batch
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        weights = [weight for weight in model.parameters() if weight.grad is not None]
        norm = torch.stack([weight.grad.norm() for weight in weights]).norm()
        climbs = [0.05 * weight.grad / (norm + 1e-12) for weight in weights]
        with torch.no_grad():
            for weight, climb in zip(weights, climbs, strict=True):
                weight.add_(climb)
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        with torch.no_grad():
            for weight, climb in zip(weights, climbs, strict=True):
                weight.sub_(climb)
        optimizer.step()
        return loss.item()

    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return classifier(model, optimizer, both(clusters()), train_step=train_step)


@sound("zero_grad after the step, so that no gradients are left behind")
def cleared_after_the_step() -> dict:
    model = dense(10, 32, 4)

    def train_step(model, batch, loss_fn, optimizer):
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return classifier(model, optim.Adam(model.parameters(), lr=5e-3), both(clusters()), train_step=train_step)


@sound("gradients set to None by hand, model.zero_grad() is not used")
def cleared_by_hand() -> dict:
    model = Segmenter()

    def train_step(model, batch, loss_fn, optimizer):
        for weight in model.parameters():
            weight.grad = None
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {
        "model": model,
        "loss_fn": nn.BCEWithLogitsLoss(),
        "optimizer": optim.Adam(model.parameters(), lr=0.01),
        "train_step": train_step,
        "evaluate": overlap,
        **both(blobs(), batch_size=20),
    }


# schedules


@sound("a warm-up that begins at tiny rates", epochs=4)
def warm_up_from_tiny_rates() -> dict:
    model = Attention()
    optimizer = optim.AdamW(model.parameters(), lr=5e-3)
    schedule = lr_scheduler.LambdaLR(optimizer, lambda update: min(1.0, (update + 1) ** 2 / 1600))

    def train_step(model, batch, loss_fn, optimizer):
        loss = plain(model, batch, loss_fn, optimizer)
        schedule.step()
        return loss

    return classifier(model, optimizer, both(phrases()), train_step=train_step)


@sound("one-cycle, moved with every batch", epochs=4)
def one_cycle_in_every_batch() -> dict:
    model = small_cnn()
    data = both(handwriting())
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    total = 12 * len(data["train_loader"])
    schedule = lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=total, div_factor=5)

    def train_step(model, batch, loss_fn, optimizer):
        loss = plain(model, batch, loss_fn, optimizer)
        schedule.step()
        return loss

    return classifier(model, optimizer, data, train_step=train_step)


@sound("ReduceLROnPlateau sees the accuracy, with mode='max'", epochs=4)
def plateau_of_the_accuracy() -> dict:
    model = Reader()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=2)
    return classifier(model, optimizer, both(phrases()), scheduler=schedule)


@sound("cosine with warm restarts, once an epoch", epochs=5)
def cosine_with_restarts() -> dict:
    model = dense(5, 48, 48, 1)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    return {
        "model": model,
        "loss_fn": nn.MSELoss(),
        "optimizer": optimizer,
        "scheduler": lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2, T_mult=2),
        "evaluate": explained,
        **both(surface()),
    }


@sound("a linear warm-up, then a cosine, joined by SequentialLR", epochs=5)
def warm_up_then_cosine() -> dict:
    model = Recurrent(nn.LSTM)
    optimizer = optim.Adam(model.parameters(), lr=0.02)
    warm_up = lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=2)
    cosine = lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    schedule = lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], milestones=[2])
    return classifier(model, optimizer, both(vibrations()), scheduler=schedule)


# averages, precision, memory


@sound("an exponential average of the weights is evaluated", epochs=4)
def moving_average_evaluated() -> dict:
    model = small_cnn()
    average = copy.deepcopy(model).requires_grad_(False)

    def train_step(model, batch, loss_fn, optimizer):
        loss = plain(model, batch, loss_fn, optimizer)
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
        return loss

    return classifier(
        model,
        optim.Adam(model.parameters(), lr=0.01),
        both(handwriting()),
        train_step=train_step,
        evaluate=lambda model, loader: accuracy(average, loader),
        average=average,
    )


@sound("stochastic weight averaging with its constant rate", epochs=4)
def stochastic_weight_average() -> dict:
    model = dense(10, 32, 32, 4)
    average = swa_utils.AveragedModel(model)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def train_step(model, batch, loss_fn, optimizer):
        loss = plain(model, batch, loss_fn, optimizer)
        average.update_parameters(model)
        return loss

    return classifier(
        model,
        optimizer,
        both(clusters()),
        train_step=train_step,
        evaluate=lambda model, loader: accuracy(average, loader),
        scheduler=swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=2),
        average=average,
    )


@sound("gradients clipped by norm, after backward and before the step")
def clipped_in_place() -> dict:
    model = Recurrent(nn.GRU)

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.item()

    return classifier(model, optim.Adam(model.parameters(), lr=0.02), both(vibrations()), train_step=train_step)


@sound("bfloat16 by autocast, no scaler: bfloat16 needs none")
def bfloat16_without_scaler() -> dict:
    model = small_cnn()

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    return classifier(model, optim.Adam(model.parameters(), lr=0.01), both(handwriting()), train_step=train_step)


@sound("autocast with a scaler: gradients unscaled before clipping")
def scaler_in_the_right_order() -> dict:
    model = dense(10, 48, 4)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def train_step(model, batch, loss_fn, optimizer):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    optimizer = optim.Adam(model.parameters(), lr=0.01)
    return classifier(model, optimizer, both(clusters()), train_step=train_step, scaler=scaler)


class Recomputing(nn.Module):
    """Keeps no activations of its blocks: it computes them again in backward."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(10, 10), nn.ReLU()) for _ in range(3)])
        self.head = nn.Linear(10, 4)

    def forward(self, x):
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)
        return self.head(x)


@sound("gradient checkpointing")
def recomputed_in_backward() -> dict:
    model = Recomputing()
    return classifier(model, optim.Adam(model.parameters(), lr=0.01), both(clusters()))


# more than one network


@sound("generator and discriminator, each with its optimizer", epochs=8, measure=lambda program: spread(program))
def two_players() -> dict:
    generator, critic = dense(4, 24, 2), dense(2, 24, 1)
    generator_optimizer = optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
    critic_optimizer = optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    loss_fn = nn.BCEWithLogitsLoss()

    def train_step(model, batch, loss_fn, optimizer):
        real = batch[0][:, :2] + 4
        false = generator(torch.randn(len(real), 4))
        critic_optimizer.zero_grad()
        yes, no = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        critic_loss = loss_fn(critic(real), yes) + loss_fn(critic(false.detach()), no)
        critic_loss.backward()
        critic_optimizer.step()
        generator_optimizer.zero_grad()
        loss = loss_fn(critic(false), yes)
        loss.backward()
        generator_optimizer.step()
        return loss.item()

    return {
        "model": generator,
        "critic": critic,
        "loss_fn": loss_fn,
        "optimizer": generator_optimizer,
        "critic_optimizer": critic_optimizer,
        "train_step": train_step,
        **both(clusters()),
        "val_loader": None,
    }


def spread(program: dict) -> float:
    """Return how near what was generated has come to its place, at (4, 4)."""
    with torch.no_grad():
        centre = program["model"](torch.randn(500, 4, generator=torch.Generator().manual_seed(1))).mean(0)
    return -float((centre - 4 - clusters()[0].tensors[0][:, :2].mean(0)).norm())


@sound("a frozen teacher in evaluation mode, distillation with a temperature", epochs=4)
def distillation() -> dict:
    torch_state = torch.get_rng_state()
    teacher = dense(10, 64, 4)
    pupil = dense(10, 16, 4)
    fit(teacher, clusters()[0].tensors)
    torch.set_rng_state(torch_state)
    teacher.requires_grad_(False).eval()

    def train_step(model, batch, loss_fn, optimizer):
        with torch.no_grad():
            hints = (teacher(batch[0]) / 2).softmax(1)
        optimizer.zero_grad()
        scores = model(batch[0])
        loss = 0.5 * loss_fn(scores, batch[1]) + 2 * F.kl_div((scores / 2).log_softmax(1), hints, reduction="batchmean")
        loss.backward()
        optimizer.step()
        return loss.item()

    optimizer = optim.Adam(pupil.parameters(), lr=5e-3)
    return classifier(pupil, optimizer, both(clusters()), train_step=train_step, teacher=teacher)


def fit(model: nn.Module, tensors) -> None:
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        F.cross_entropy(model(tensors[0]), tensors[1]).backward()
        optimizer.step()


@sound("two views of a picture, one of them detached: the network teaches itself", epochs=3)
def self_distillation() -> dict:
    model = small_cnn()

    def train_step(model, batch, loss_fn, optimizer):
        images, labels = batch
        optimizer.zero_grad()
        scores = model(images)
        changed = model(images + 0.1 * torch.randn_like(images))
        agree = F.kl_div(changed.log_softmax(1), scores.detach().softmax(1), reduction="batchmean")
        loss = loss_fn(scores, labels) + 0.5 * agree
        loss.backward()
        optimizer.step()
        return loss.item()

    return classifier(model, optim.Adam(model.parameters(), lr=0.01), both(handwriting()), train_step=train_step)


@sound("a value that follows a slow copy of itself (a target network)", epochs=5)
def target_network() -> dict:
    model = dense(5, 32, 1)
    target = copy.deepcopy(model).requires_grad_(False)

    def train_step(model, batch, loss_fn, optimizer):
        states, rewards = batch
        with torch.no_grad():
            values = rewards + 0.5 * target(states)
        optimizer.zero_grad()
        loss = loss_fn(model(states), values)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        return loss.item()

    def evaluate(model, loader):
        return explained(model, [(x, y * math.sqrt(2)) for x, y in loader])

    return {
        "model": model,
        "target": target,
        "loss_fn": nn.MSELoss(),
        "optimizer": optim.Adam(model.parameters(), lr=5e-3),
        "train_step": train_step,
        "evaluate": evaluate,
        **both(surface()),
    }
