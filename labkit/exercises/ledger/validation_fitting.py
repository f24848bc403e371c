"""Measurements for the topic "Validation and metrics": what a gap between training and validation says."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from labkit.exercises.claims import claim

TRAINING, VALIDATION = slice(0, 40), slice(40, 440)


def noisy_task() -> tuple[Tensor, Tensor]:
    """Return 440 inputs and their labels, of which more than one in six is wrong."""
    inputs = torch.randn(440, 10)
    return inputs, (inputs[:, 0] + 0.6 * torch.randn(440) > 0).long()


def fitted(
    task: tuple[Tensor, Tensor],
    *,
    width: int = 64,
    updates: int = 60,
    dropout: float = 0.0,
    weight_decay: float = 0.0,
    noise: float = 0.0,
) -> nn.Sequential:
    """Train a network on the few training samples and return it in evaluation mode."""
    torch.manual_seed(0)
    inputs, labels = (each[TRAINING] for each in task)
    model = nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=weight_decay)
    for _ in range(updates):
        seen = inputs + noise * torch.randn_like(inputs) if noise else inputs
        optimizer.zero_grad()
        functional.cross_entropy(model(seen), labels).backward()
        optimizer.step()
    return model.eval()


def loss_on(model: nn.Module, task: tuple[Tensor, Tensor], part: slice) -> float:
    """Return the loss of a model, in the mode that it is in, on a part of the samples."""
    with torch.no_grad():
        return functional.cross_entropy(model(task[0][part]), task[1][part]).item()


@claim(
    "C219",
    true="Yes. Judged by the training loss, the overfitted network was the best of the three. The validation loss "
    "told them apart: too little, enough, too much.",
    false="The training loss is there for free, and it fell all the time. Just that makes it blind: it fell further "
    "while the network got worse for new samples.",
    depends="With endless data, each sample seen once, the training loss is a validation of its own. Everywhere else a "
    "part has to be kept aside; and a third one, the test set, for the very end.",
)
def validation_tells_them_apart() -> dict[str, bool]:
    """Train the same network for 1, 4 and 60 updates and compare the losses of both parts."""
    task = noisy_task()
    models = [fitted(task, updates=updates) for updates in (1, 4, 60)]
    training, validation = ([loss_on(model, task, part) for model in models] for part in (TRAINING, VALIDATION))
    return {
        "the training loss falls all the time": training == sorted(training, reverse=True),
        "underfitting shows in the validation: more training makes it better": validation[1] < validation[0],
        "overfitting shows there too: still more makes it worse": validation[2] > validation[1],
    }


@claim(
    "C224",
    true="Yes. The network knew its 40 samples by heart, wrong labels included, and failed on new ones. Each of the "
    "four remedies brought the validation loss down.",
    false="A gap can have another cause, such as a mode that was not switched. When that is excluded, this is what "
    "overfitting looks like, and each remedy below helped.",
    depends="Which remedy helps most depends on data and network. More data help always; and stopping at the best "
    "validation loss costs nothing.",
)
def four_remedies() -> dict[str, bool]:
    """Overfit a few samples, then train again with each of the remedies."""
    task = noisy_task()
    plain = fitted(task)
    bad = loss_on(plain, task, VALIDATION)
    remedies = {
        "augmentation, here a little noise": {"noise": 1.0},
        "dropout": {"dropout": 0.7},
        "weight decay": {"weight_decay": 5.0},
        "a smaller network": {"width": 2},
    }
    helped = {
        f"{name} brings it down": loss_on(fitted(task, **remedy), task, VALIDATION) < 0.9 * bad
        for name, remedy in remedies.items()
    }
    return {
        "the loss is near 0 in training and high in validation": loss_on(plain, task, TRAINING) < 0.05 < bad / 10
    } | (helped)


@claim(
    "C225",
    true="Yes, it takes a minute. Measured with dropout on, the same network looked far worse, and a gap of the modes "
    "looks like a gap of the data. Read no curve before the mode is known.",
    false="It sounds too simple to be the cause. The same weights gave two quite different losses on the same samples, "
    "by the mode alone.",
    depends="Without dropout and BatchNorm both modes are one, and then there is nothing to check. You can tell by "
    "looking at the model, and that is the check.",
)
def first_the_mode() -> dict[str, bool]:
    """Measure one network on the same samples in both modes, and watch an evaluation leave its mode behind."""
    task = noisy_task()
    model = fitted(task, dropout=0.5)
    right = loss_on(model.eval(), task, TRAINING)
    wrong = sum(loss_on(model.train(), task, TRAINING) for _ in range(20)) / 20
    model.eval()  # as an evaluation does; then the next epoch begins without `train()`
    left_off = torch.equal(*(model(task[0][:8]) for _ in range(2)))
    return {
        "the same weights have another loss in the other mode": wrong > 1.5 * right,
        "without `train()` after an evaluation, dropout stays off": left_off,
    }


@claim(
    "C226",
    true="Reporting it is honest only while nothing is chosen by it. The best of many epochs is chosen by it: on "
    "labels that nobody can predict, it promised more than the half that is to be had.",
    false="Too hard: evaluating it often does no harm to the model. The last epoch, fixed beforehand, was an honest "
    "figure.",
    depends="Right: looking is free, choosing is not. Choose the epoch by a validation set, and use the test set once, "
    "at the end.",
)
def the_best_epoch_flatters() -> dict[str, bool]:
    """Train on labels drawn at random, so that one half is the truth, and score each epoch on 24 test sets of 100."""
    inputs, labels = torch.randn(2460, 10), torch.randint(0, 2, (2460,))
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer, scores = torch.optim.Adam(model.parameters(), lr=0.03), []
    for _ in range(40):
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs[:60]), labels[:60]).backward()
        optimizer.step()
        with torch.no_grad():
            correct = model(inputs[60:]).argmax(dim=1) == labels[60:]
        scores.append(correct.view(24, 100).double().mean(dim=1))
    by_epoch = torch.stack(scores)  # (epochs, test sets)
    last, best = by_epoch[-1].mean().item(), by_epoch.amax(dim=0).mean().item()
    return {
        "the figure of the last epoch is honest: about one half, as a mean of the test sets": abs(last - 0.5) < 0.03,
        "the figure of the best epoch is as well": abs(best - 0.5) < 0.03,
    }
