"""Measurements for the topic "Training loop": what is summed up in an epoch, and on which device it is computed."""

from unittest import mock

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


def is_mean_of_what_was_seen(weighted: bool, samples: int = 10, drop_last: bool = False) -> bool:
    """Sum up the losses of one pass over batches of 4, divide as the sentence says, and compare with the true mean.

    weighted: each loss times the size of its batch, divided by the size of the data; else divided by the batches.
    """
    data = TensorDataset(torch.arange(float(samples)))
    loader = DataLoader(data, batch_size=4, drop_last=drop_last)
    total, seen = 0.0, []
    for (inputs,) in loader:
        loss = inputs.mean()
        total += loss.item() * (inputs.size(0) if weighted else 1)
        seen += inputs.tolist()
    mean = total / (len(loader.dataset) if weighted else len(loader))
    return abs(mean - sum(seen) / len(seen)) < 1e-6


@claim(
    "C209",
    true="It is exact also with a smaller last batch, that is its strength. But with `drop_last=True` it divides by "
    "samples that were never seen, and the mean is too small.",
    false="Too hard: for the usual loader the formula gave the true mean, where many another does not. Only a loader "
    "that drops samples breaks it.",
    depends="Right: it is exact as long as each sample is seen. Count what you have seen, `seen += inputs.size(0)`, "
    "and divide by that; then no setting of the loader can break it.",
)
def dropped_samples_are_not_seen() -> dict[str, bool]:
    """Compute the mean of ten samples in batches of 4, with the last batch kept and dropped."""
    return {
        "with equal batches it is the mean of what was seen": is_mean_of_what_was_seen(True, samples=8),
        "with a smaller last batch it is": is_mean_of_what_was_seen(True),
        "with `drop_last=True` it is": is_mean_of_what_was_seen(True, drop_last=True),
    }


@claim(
    "C210",
    true="Only if all batches are of one size. Ten samples in batches of 4 leave two for the last, and these two "
    "counted as much as four.",
    false="With equal batches it is exact, and `drop_last=True` makes them equal. It is the small last batch that "
    "spoils it.",
    depends="Right. Weight each batch by its number of samples and you need not think about it any more.",
)
def a_small_batch_counts_too_much() -> dict[str, bool]:
    """Average the losses of batches, all of the same size, and with a smaller last one."""
    return {
        "with equal batches it is the mean of what was seen": is_mean_of_what_was_seen(False, samples=8),
        "with a smaller last batch it is": is_mean_of_what_was_seen(False),
    }


@claim(
    "C214",
    true="Yes. The model had moved, the batch had not, and the error names both devices. And the assignment matters: "
    "`inputs.to(device)` alone returned a tensor that nobody kept.",
    false="You may expect that the model fetches its inputs. It never does; below, the same call failed before the "
    "assignment and went through after it.",
    depends="On a CPU alone nobody notices, as there is only one place. The line costs nothing there, and the program "
    "is ready for a GPU.",
)
def the_batch_has_to_move_too() -> dict[str, bool]:
    """Give a model on CUDA, without numbers, a batch of the CPU: as it is, moved without and with assignment."""
    with FakeTensorMode():
        model, inputs = nn.Linear(4, 2, device="cuda"), torch.ones(3, 4)
        error = error_of(lambda: model(inputs))
        inputs.to("cuda")
        error_without_assignment = error_of(lambda: model(inputs))
        inputs = inputs.to("cuda")
        error_after_assignment = error_of(lambda: model(inputs))
    return {
        "a batch on another device than the model raises an error": "cuda" in error and "cpu" in error,
        "`inputs.to(device)` without an assignment does not help": error_without_assignment != "",
        "`inputs = inputs.to(device)` does": error_after_assignment == "",
    }


def one_loss(device: str, target_device: str | None = None) -> str:
    """Compute a loss, without numbers, from a model and a batch on `device`, and return the error, if any.

    target_device: where the targets are, if not there.
    """
    with FakeTensorMode():
        model, inputs = nn.Linear(4, 2, device=device), torch.ones(3, 4, device=device)
        targets = torch.ones(3, 2, device=target_device or device)
        return error_of(lambda: functional.mse_loss(model(inputs), targets))


@claim(
    "C215",
    true="Yes. With one choice that is passed on, the same function ran on each device. With the device written in two "
    "places, changing one of them was an error.",
    false="Writing `'cuda'` where you need it looks shorter. The day it changes, one place is forgotten, as below, "
    "and on a machine without a GPU all of them are wrong.",
    depends="In a notebook a single global `device` is one place too. As an argument it is better still: a test can "
    "then call the function for the CPU.",
)
def one_place_decides() -> dict[str, bool]:
    """Run one function for several devices, and once with a second place that was forgotten."""
    return {
        "with the device as an argument one function runs on each": not any(map(one_loss, ("cpu", "cuda", "meta"))),
        "with the device in two places, changing one is an error": one_loss("cuda", target_device="cpu") != "",
    }


@claim(
    "C216",
    true="It was the line for years, and on NVIDIA and AMD it still does. As on an Apple machine, it chose the "
    "CPU, with a GPU standing idle.",
    false="Yes, not any more. `torch.accelerator.current_accelerator(check_available=True)` found the other device "
    "too; where it returns None, take the CPU.",
    depends="For your own machine it may be all you need. As a rule for programs that others run, it is out of date: "
    "it knows one kind of device.",
)
def it_knows_one_kind_of_gpu() -> dict[str, bool]:
    """Run both lines as on a machine with an Apple GPU."""
    with (
        mock.patch.object(torch.cuda, "is_available", lambda: False),
        mock.patch.object(torch._C, "_accelerator_getAccelerator", lambda: torch.device("mps")),
        mock.patch.object(torch.mps, "is_available", lambda: True, create=True),
    ):
        old = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        new = torch.accelerator.current_accelerator(check_available=True)
    return {
        "it chooses the GPU of an Apple machine": old.type != "cpu",
        "torch has no line that finds that GPU": new is None or new.type != "mps",
    }


@claim(
    "C217",
    true="Yes: `max` over a dimension returns values and places, and the place of the largest logit is the class. "
    "`outputs.argmax(dim=1)` says the same and reads better.",
    false="You may look for probabilities first. The largest logit is the largest probability, so the place is the "
    "same with and without softmax.",
    depends="For outputs of shape (samples, classes), which the sentence means, it is always so. For pictures of "
    "classes, (samples, classes, height, width), it gives the class of each pixel.",
)
def the_second_result_is_the_class() -> dict[str, bool]:
    """Compare both ways on random logits, and read two rows by eye."""
    outputs = torch.randn(50, 10)
    values, places = outputs.max(1)
    seen = torch.tensor([[0.0, 5.0, 1.0], [2.0, 1.0, 0.0]]).max(1)[1].tolist()
    return {
        "the second result is the place of the largest output": seen == [1, 0],
        "it is what `argmax(dim=1)` returns": torch.equal(places, outputs.argmax(dim=1)),
        "the first result is the output there": torch.equal(values, outputs[torch.arange(50), places]),
        "softmax does not change the class": torch.equal(places, outputs.softmax(1).argmax(1)),
    }


@claim(
    "C218",
    true="It is how it is done, and it is a running figure: the first batches were scored by a model that had learned "
    "nothing yet. The model at the end of the epoch was better than its own training accuracy.",
    false="Summing up correct predictions and samples is how most loops do it, and it costs nothing. What you get is "
    "only not the accuracy of the model that you have at the end.",
    depends="Right. For watching it is good enough. To compare with validation, run the training set once more in "
    "evaluation mode: one model, no dropout.",
)
def a_running_figure() -> dict[str, bool]:
    """Sum up the accuracy over one epoch, and then score all training samples by the model of the end."""
    inputs = torch.randn(640, 8)
    labels = inputs[:, :4].argmax(dim=1)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 4))
    optimizer, correct, seen = torch.optim.Adam(model.parameters(), lr=0.01), 0, 0
    for few_inputs, few_labels in zip(inputs.split(32), labels.split(32), strict=True):
        outputs = model(few_inputs)
        optimizer.zero_grad()
        functional.cross_entropy(outputs, few_labels).backward()
        optimizer.step()
        correct, seen = correct + (outputs.argmax(1) == few_labels).sum().item(), seen + len(few_labels)
    with torch.no_grad():
        at_the_end = (model.eval()(inputs).argmax(1) == labels).double().mean().item()
    return {
        "summed up over the batches, each sample counts once": seen == len(inputs),
        "the sum is the accuracy of the model at the end of the epoch": abs(correct / seen - at_the_end) < 0.05,
    }
