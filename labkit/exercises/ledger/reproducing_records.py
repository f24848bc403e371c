"""Measurements for the topic "Reproducibility, records, small-batch test": records, and learning a few samples."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from labkit.exercises.claims import claim


@claim(
    "C285",
    true="Yes, and it takes one line each: loader, optimizer and model know these numbers themselves, so that nothing "
    "is written down from memory. Keep them as a file too, since a terminal forgets.",
    false="It may seem enough to have the numbers in the code. Tomorrow the code says something else; what the objects "
    "of *this* run say cannot be out of date.",
    depends="A run of two minutes needs no record, until it turns out to be the best one. All five numbers were there "
    "to be asked for.",
)
def objects_know_their_numbers() -> dict[str, bool]:
    """Build a small training and ask its parts for the five entries of the record."""
    data = TensorDataset(torch.randn(50, 4), torch.zeros(50))
    loader, model = DataLoader(data, batch_size=8), nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    return {
        "the loader knows the size of the data and of a batch": (len(loader.dataset), loader.batch_size) == (50, 8),
        "the optimizer knows its kind and its rate": (type(optimizer).__name__, optimizer.param_groups[0]["lr"])
        == ("AdamW", 0.003),
        "the model's parameters can be counted: 4·3 + 3 and 3·2 + 2": sum(p.numel() for p in model.parameters()) == 23,
    }


def distance_to_three(**options: float) -> float:
    """Move a weight from 0 towards 3 in 20 updates of SGD with these options; return how far it has to go."""
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], **{"lr": 0.05, **options})
    for _ in range(20):
        optimizer.zero_grad()
        (weight - 3).square().sum().backward()
        optimizer.step()
    return (weight - 3).abs().item()


@claim(
    "C286",
    true="Yes. With rate and weight decay changed together the run got better, and you would keep both. One by one it "
    "shows: the rate helped, and the decay did harm.",
    false="It saves runs, and the better result is real. But it does not say to which change it belongs; below, one "
    "of the two did harm, and the joint run hides it.",
    depends="When both changes help, you lose little, but you know that only after you have tried them one by one.",
)
def a_joint_change_hides_a_harmful_one() -> dict[str, bool]:
    """Change the rate and the weight decay of a small training, together and one by one."""
    first, both = distance_to_three(), distance_to_three(lr=0.2, weight_decay=0.1)
    rate, decay = distance_to_three(lr=0.2), distance_to_three(weight_decay=0.1)
    return {
        "with both changed the result is better than before": both < first,
        "only one by one you see that one of them made it worse": rate < first < decay,
        "and that without it the result would be better still": rate < both,
    }


def last_loss(
    labels: Tensor,
    *,
    inputs: Tensor | None = None,
    rate: float = 0.01,
    dropout: float = 0.0,
    steps: bool = True,
    parameters: Callable = nn.Module.parameters,
) -> float:
    """Train a network of two layers on one fixed batch for 100 updates and return the last loss."""
    torch.manual_seed(3)
    if inputs is None:
        inputs = torch.randn(len(labels), 12)
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Dropout(dropout), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(parameters(model), lr=rate)
    for _ in range(100):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        if steps:
            optimizer.step()
    return loss.item()


@claim(
    "C287",
    true="Yes. The loss fell to almost 0, even with labels drawn at random; and as soon as one connection was cut, it "
    "did not. It is the cheapest test there is.",
    false="You may object that 32 samples say nothing about new ones. They do not, and they need not: the test asks "
    "whether data, model, gradients and updates are connected at all.",
    depends="It needs a fixed batch, no augmentation and no dropout; with those conditions, which belong to the test, "
    "a connected training passed and each disconnected one failed.",
)
def connected_parts_learn_a_batch() -> dict[str, bool]:
    """Learn 32 random labels; then cut the update, and then give the optimizer the weights of another model."""
    labels = torch.randint(0, 4, (32,))
    return {
        "a training whose parts are connected comes near 0": last_loss(labels) < 0.1,
        "without updates it does not": last_loss(labels, steps=False) > 1,
        "with an optimizer that has other weights it does not": last_loss(
            labels, parameters=lambda model: nn.Linear(2, 2).parameters()
        )
        > 1,
    }


@claim(
    "C288",
    true="Usually it is the code. But three sound programs failed below: the rate was too small, the labels "
    "contradicted each other, the dropout was too strong. *Surely* is too much.",
    false="A fault in the code does make it fail, as the missing step shows, and it is the first thing to look for. "
    "It is only not the one possible reason.",
    depends="Right. Failing has other causes too, and passing proves less than one hopes: shuffled labels, which "
    "belong to other inputs, were learned just as well.",
)
def sound_code_can_fail_the_test() -> dict[str, bool]:
    """Learn a few samples with a fault, and with sound code under bad conditions."""
    labels, inputs = torch.arange(32) % 4, torch.randn(16, 12).repeat(2, 1)
    contradicting = torch.cat([labels[:16], (labels[:16] + 1) % 4])
    return {
        "a fault in the code, a missing step, makes it fail": last_loss(labels, steps=False) > 1,
        "sound code passes, also with a rate of 1e-6": last_loss(labels, rate=1e-6) < 0.1,
        "also with two labels for the same input": last_loss(contradicting, inputs=inputs) < math.log(2) - 0.01,
        "also with a dropout of 0.9": last_loss(labels, dropout=0.9) < 0.1,
        "labels that were shuffled do not pass": last_loss(labels[torch.randperm(32)]) > 0.1,
    }
