"""Measurements for the topic "Data": samplers, and classes of very different size."""

import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, WeightedRandomSampler

from labkit.exercises.claims import claim
from labkit.exercises.ledger.measuring import error_of


def drawn(weights: Tensor, count: int) -> Tensor:
    """Return the samples that a WeightedRandomSampler draws in an epoch of this length, the same each time."""
    sampler = WeightedRandomSampler(weights.tolist(), count, generator=torch.Generator().manual_seed(0))
    return torch.tensor(list(sampler))


@claim(
    "C192",
    true="All three were measured. A sampler yields indices and nothing else, so whatever can be said by an order of "
    "indices is its business; and because it decides the order, it excludes `shuffle=True`.",
    false="Perhaps you know samplers only as the machinery behind `shuffle=True`. That is one of them. Others weight, "
    "or give each process a part of its own.",
    depends="Each use has a sampler of its own, but each was there and did what the sentence says.",
)
def samplers_balance_repeat_and_split() -> dict[str, bool]:
    """Weight by class, weight a single hard sample, and split ten samples over two processes."""
    labels = torch.tensor([0] * 900 + [1] * 100)
    balanced = labels[drawn(1.0 / labels.bincount()[labels], 1000)]
    hard = drawn(torch.tensor([1.0] * 9 + [9.0]), 1000) == 9
    parts = [list(DistributedSampler(range(10), num_replicas=2, rank=rank)) for rank in (0, 1)]
    both = error_of(lambda: DataLoader(range(4), sampler=range(4), shuffle=True))
    return {
        "a sampler balances classes of 900 and 100": 0.4 < float(balanced.float().mean()) < 0.6,
        "a hard example with nine times the weight comes more often": int(hard.sum()) > 300,
        "two processes get parts that share nothing and together are all": sorted(parts[0] + parts[1])
        == list(range(10)),
        "so a sampler and `shuffle=True` exclude each other": "mutually exclusive" in both,
    }


@claim(
    "C193",
    true="Yes: three classes of 300, 200 and 100 came equally often. The price: it draws with replacement, so within "
    "an epoch some samples came several times and others not at all.",
    false="You may have looked at one short epoch, where chance still rules. Over 3,000 draws each of the three "
    "classes had about a third.",
    depends="The shares are equal on average, and in a long epoch nearly so. What does depend is whether you want it: "
    "evaluate on the shares that the world has.",
)
def one_over_the_class_size_evens_out() -> dict[str, bool]:
    """Draw 3,000 samples from classes of 300, 200 and 100."""
    labels = torch.tensor([0] * 300 + [1] * 200 + [2] * 100)
    samples = drawn(1.0 / labels.bincount()[labels], 3000)
    shares = labels[samples].bincount() / 3000
    return {
        f"class {name}, {size} of 600 samples, has about a third of the draws": abs(float(share) - 1 / 3) < 0.05
        for name, size, share in zip("ABC", (300, 200, 100), shares, strict=True)
    }


@claim(
    "C194",
    true="It feels so, as most batches have none. But a shuffled epoch is the whole data set in another order: all ten "
    "positives came in each of the ten epochs.",
    false="Right: shuffling loses nothing. What is true of it: most single batches go without a positive, about 72 % "
    "of those with 32 samples.",
    depends="It cannot happen with any seed: each epoch shows each sample once. Only single batches depend on chance.",
)
def every_epoch_shows_every_positive() -> dict[str, bool]:
    """Shuffle 1,000 samples with ten positives for ten epochs, and count the positives."""
    positive = [1] * 10 + [0] * 990
    loader = DataLoader(positive, batch_size=32, shuffle=True, generator=torch.Generator().manual_seed(0))
    epochs = [[int(batch.sum()) for batch in loader] for _ in range(10)]
    return {
        "an epoch passes without a positive": any(sum(batches) == 0 for batches in epochs),
        "an epoch has fewer than the ten positives": any(sum(batches) < 10 for batches in epochs),
    }


@claim(
    "C195",
    true="The sampler does set the share, and steadily. But 1 / class count makes *all* classes equal, and with two "
    "that is one half, not 30 %.",
    false="The figure is wrong, the tool is not: whatever share you want, weights can set it. With 42 times the "
    "weight of the other class it was 30 %.",
    depends="Right. For a share s of a class that is p of the data, weight it s (1 - p) / (p (1 - s)) times: 42 for "
    "30 % out of 1 %, and 99 for one half.",
)
def one_over_the_count_gives_one_half() -> dict[str, bool]:
    """Draw 20,000 samples from classes of 9,900 and 100, with two kinds of weights."""
    labels = torch.tensor([0] * 9900 + [1] * 100)

    def shares(weights_of_classes: Tensor) -> Tensor:
        return labels[drawn(weights_of_classes[labels], 20000)].float().reshape(4, 5000).mean(dim=1)

    inverse, chosen = shares(1.0 / labels.bincount()), shares(torch.tensor([1.0, 99 * 0.3 / 0.7]))
    return {
        "the share is steady from one quarter of the draws to the next": float(inverse.max() - inverse.min()) < 0.05,
        "weights can set it to 30 %": bool(((chosen - 0.3).abs() < 0.05).all()),
        "1 / class count sets it to about 30 %": bool(((inverse - 0.3).abs() < 0.1).all()),
    }
