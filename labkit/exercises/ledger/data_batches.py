"""Measurements for the topic "Data": the order, the size and the end of the batches."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.exercises.claims import claim
from labkit.exercises.ledger.data_processes import START
from labkit.exercises.ledger.measuring import bytes_kept_for_backward, error_of


@claim(
    "C152",
    true="Yes. Two worker processes made the batches, each sample came once, and the order was another one. Where "
    'processes start anew (Windows, macOS), protect the start of your program by `if __name__ == "__main__":`.',
    false="If it failed for you, a worker could not start: that is a matter of the program around it. The call itself "
    "delivered stacked batches, each sample once.",
    depends="On nothing that the sentence leaves open: with these four arguments the batches came stacked, shuffled "
    "and complete.",
)
def the_usual_loader_does_what_it_says() -> dict[str, bool]:
    """Read 70 samples of two workers, in batches of 32."""
    data = TensorDataset(torch.arange(70.0)[:, None], torch.arange(70))
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, multiprocessing_context=START)
    batches = list(loader)
    order = torch.cat([labels for _, labels in batches])
    first_inputs, first_labels = batches[0]
    return {
        "a batch holds 32 samples, stacked": first_inputs.shape == (32, 1) and first_labels.shape == (32,),
        "each sample comes once": torch.equal(order.sort().values, torch.arange(70)),
        "the order is shuffled": not torch.equal(order, torch.arange(70)),
        "inputs and labels stay together": all(torch.equal(inputs[:, 0].long(), labels) for inputs, labels in batches),
    }


@claim(
    "C153",
    true="The habit is good, its reason is not. The share of right answers is a sum over samples, and a sum does not "
    "ask for the order: four orders gave the same share.",
    false="You are right about the reason: the metric did not move. Keep the habit nevertheless: without shuffling the "
    "hundredth prediction belongs to the hundredth sample, and you can look at what went wrong.",
    depends="Right. Unshuffled predictions can be traced back; the metric is the same either way. If yours does move, "
    "look for `model.eval()`: in training mode BatchNorm lets the neighbours in a batch matter.",
)
def a_metric_does_not_ask_for_the_order() -> dict[str, bool]:
    """Evaluate one model on 100 samples in order and in three shuffled orders."""
    inputs, labels = torch.randn(100, 5), torch.randint(0, 3, (100,))
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval()

    def answers(shuffle: bool) -> tuple[int, Tensor]:
        with torch.no_grad():
            pairs = [
                (model(x).argmax(dim=1), y) for x, y in DataLoader(TensorDataset(inputs, labels), 16, shuffle=shuffle)
            ]
        guesses, truths = (torch.cat(column) for column in zip(*pairs, strict=True))
        return int((guesses == truths).sum()), guesses

    (right, guesses), *shuffled = (answers(shuffle) for shuffle in (False, True, True, True))
    alone = model(inputs).argmax(dim=1)
    return {
        "on shuffled data the metric moves from pass to pass": any(other != right for other, _ in shuffled),
        "unshuffled, prediction i belongs to sample i, and shuffled it does not": torch.equal(guesses, alone)
        and not any(torch.equal(other, alone) for _, other in shuffled),
    }


def right_after_one_pass(order: Tensor) -> float:
    """Train a linear classifier through one pass in this order; return its share of right answers."""
    draws = torch.Generator().manual_seed(1)
    labels = torch.arange(200) // 50
    inputs = nn.functional.one_hot(labels, 4) + 1.0 + 0.7 * torch.randn(200, 4, generator=draws)
    weight = torch.zeros(4, 4, requires_grad=True)
    for places in order.split(10):
        loss = nn.functional.cross_entropy(inputs[places] @ weight, labels[places])
        (gradient,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight -= 1.0 * gradient
    return float(((inputs @ weight).argmax(dim=1) == labels).float().mean())


@claim(
    "C154",
    true="Yes. Sorted by class, each batch pulled the classifier towards its own class, and the last one had the last "
    "word. Shuffled, every batch was a small picture of the whole.",
    false="If your data are mixed already, you may see no difference. Data from folders come sorted by class, and "
    "there the fixed order cost many right answers.",
    depends="How much it matters depends on the order that the data have. That shuffling makes each epoch another "
    "order, and that a bad fixed order harms, both were measured.",
)
def a_new_order_in_every_epoch() -> dict[str, bool]:
    """Compare the orders of two epochs and of two runs, and train once in sorted and in shuffled order."""

    def orders(seed: int) -> list[list[int]]:
        loader = DataLoader(range(200), batch_size=200, shuffle=True, generator=torch.Generator().manual_seed(seed))
        return [next(iter(loader)).tolist() for _ in range(2)]

    first, second = orders(0)
    return {
        "each epoch has another order of the same samples": first != second and sorted(first) == sorted(second),
        "the orders repeat with the seed of the loader's generator": orders(0) == [first, second] != orders(1),
        "after one pass sorted by class a classifier does worse than after a shuffled one": (
            right_after_one_pass(torch.arange(200)) < right_after_one_pass(torch.tensor(first)) - 0.1
        ),
    }


@claim(
    "C156",
    true="For BatchNorm it is a remedy: a last batch of one sample stopped it. But it also leaves samples out of each "
    "epoch, and from a data set smaller than one batch it leaves nothing at all.",
    false="Often it is not needed: the default is False. But with BatchNorm and 33 samples in batches of 32, training "
    "stopped at the last batch until that was dropped.",
    depends="Right. Use it where a small batch does harm (BatchNorm, fixed shapes); never in evaluation, where each "
    "sample counts; and look whether anything is left.",
)
def dropping_the_last_batch_helps_and_costs() -> dict[str, bool]:
    """Train BatchNorm on 33 samples in batches of 32, and count what is left of 33 and of 20."""
    model = nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4))

    def error(drop_last: bool) -> str:
        return error_of(lambda: [model(x) for x in DataLoader(torch.randn(33, 1), 32, drop_last=drop_last)])

    def samples_seen(count: int) -> int:
        return sum(len(batch) for batch in DataLoader(range(count), 32, drop_last=True))

    return {
        "it saves BatchNorm from a last batch of one sample, which is an error otherwise": "Expected more than 1 value"
        in error(drop_last=False)
        and error(drop_last=True) == "",
        "all samples of the epoch are still seen": samples_seen(33) == 33,
        "a data set smaller than one batch can still be trained on": samples_seen(20) > 0,
    }


def gradient_spread(batch_size: int) -> float:
    """Return the standard deviation of the gradient over 300 random batches out of 4,000 samples."""
    inputs = torch.randn(4000)
    targets, weight = 2 * inputs + torch.randn(4000), 0.0
    places = torch.randint(0, 4000, (300, batch_size))
    return float((2 * (weight * inputs - targets) * inputs)[places].mean(dim=1).std())


@claim(
    "C161",
    true="The two trends hold. The numbers do not: they belong to some model on some card. A batch of 1,024 went "
    "through the small network below, and a batch of 4 came down to the best loss without trouble.",
    false="The numbers are arbitrary, but the trends are there: sixteen times the batch gave about a quarter of the "
    "noise, and the memory that is kept for backward grew in step.",
    depends="Right. Noise falls with the square root of the batch size, memory grows with it. Where too large and too "
    "small begin depends on model, device and learning rate.",
)
def noise_and_memory_follow_the_batch_size() -> dict[str, bool]:
    """Measure noise and memory for several batch sizes, and train with batches of 4."""
    ratio = gradient_spread(16) / gradient_spread(256)
    losses, weight = [], torch.zeros(1, requires_grad=True)
    for _ in range(100):
        inputs = torch.randn(4, 1)
        loss = (inputs * weight - 2 * inputs).square().mean()
        losses.append((weight - 2).square().item())
        (gradient,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight -= 0.1 * gradient
    network = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1))

    def bytes_kept(batch_size: int) -> int:
        return bytes_kept_for_backward(network, torch.randn(batch_size, 10))

    return {
        "a larger batch has a steadier gradient (16 times the size, about a quarter of the noise)": 3 < ratio < 5.5,
        "memory grows with the batch size": bytes_kept(64) > 1.5 * bytes_kept(32),
        "more than 128 samples overflow the memory": error_of(lambda: bytes_kept(1024)) != "",
        "with less than 16 samples the loss fails to settle": losses[-1] > 0.01,
    }
