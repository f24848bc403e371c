"""Which samples an epoch takes, and in what order. A sampler is a function (seed, epoch) -> order: int64 (count,).

It is a pure function of these two numbers, so the order is the same for any number of workers and after a resume.
Every epoch must have the same number of samples. A function of your own serves as well.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from labkit import randomness
from labkit.errors import DataError
from labkit.table import Table

Sampler = Callable[[int, int], Tensor]  # (seed, epoch) -> the samples to take, in order: int64 (count,)


def shuffled(count: int) -> Sampler:
    """Return a sampler that takes each of `count` samples once, in another order in every epoch."""
    return lambda seed, epoch: randomness.permutation(count, seed, epoch)


def in_order(count: int) -> Sampler:
    """Return a sampler that takes each of `count` samples once, in the order of the data."""
    return lambda seed, epoch: torch.arange(count)


def subset(indices: Tensor | Sequence[int], shuffle: bool = True) -> Sampler:
    """Return a sampler that takes the samples at `indices` and no others, each once."""
    chosen = _whole_numbers(indices, "indices")
    order = shuffled(len(chosen)) if shuffle else in_order(len(chosen))
    return lambda seed, epoch: chosen[order(seed, epoch)]


def weighted(weights: Tensor | Sequence[float], count: int | None = None, replacement: bool = True) -> Sampler:
    """Return a sampler that draws sample i with a probability in proportion to weights[i].

    count: how many to draw in an epoch, as many as there are samples if not given.
    With `replacement` a sample may come several times. Without it none does: the weights then only say who comes
    early, and an epoch over all samples has the shares that the data have.
    Raises DataError for weights that are no such thing, and for a count that cannot be drawn.
    """
    try:
        weights = torch.as_tensor(weights, dtype=torch.float64).flatten()
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"weights must be numbers, one for each sample, got {type(weights).__name__}.") from None
    if len(weights) == 0 or not (weights.isfinite().all() and (weights >= 0).all() and weights.sum() > 0):
        raise DataError("weights must be finite numbers of 0 or more, one for each sample, and not all 0.")
    count = len(weights) if count is None else count
    most = None if replacement else int((weights > 0).sum())
    if type(count) is not int or count < 1 or (most is not None and count > most):
        limit = "" if most is None else f" and at most {most}, since replacement=False takes no sample twice"
        raise DataError(f"count={count!r}: draw at least 1 sample{limit}.")

    def order(seed: int, epoch: int) -> Tensor:
        draws = torch.Generator().manual_seed(randomness.seed_for(seed, "weighted", epoch))
        if replacement:
            ends = weights.cumsum(0)  # sample i owns the stretch from ends[i - 1] to ends[i]
            places = torch.rand(count, dtype=torch.float64, generator=draws) * ends[-1]
            return torch.searchsorted(ends, places, right=True).clamp(max=int(weights.nonzero()[-1]))
        # Whoever waits shortest comes first: exponential waiting times with these rates (Efraimidis, Spirakis, 2006).
        waits = torch.empty(len(weights), dtype=torch.float64).exponential_(generator=draws) / weights
        return waits.argsort(stable=True)[:count]

    return order


def balanced(labels: Tensor | Sequence[int], count: int | None = None) -> Sampler:
    """Return a sampler that takes every class equally often, up to one sample.

    labels: the class of each sample. count: how many to take in an epoch, as many as there are samples if not given.
    A class with too few samples begins anew, in another order, when all of them were taken: so none comes twice more
    often than another of its class. (Weights of 1 / class size give equal shares on average only.)
    """
    labels = _whole_numbers(labels, "labels")
    count = len(labels) if count is None else count
    if type(count) is not int or count < 1:
        raise DataError(f"count={count!r}: take at least 1 sample.")
    members = [torch.nonzero(labels == label).flatten() for label in labels.unique()]

    def order(seed: int, epoch: int) -> Tensor:
        draws = randomness.generator(seed, "balanced", epoch)
        favoured = torch.randperm(len(members), generator=draws).tolist()  # who gets one more when it does not divide
        taken = []
        for turn, place in enumerate(favoured):
            wanted, own = (count - turn + len(members) - 1) // len(members), members[place]
            rounds = [own[torch.randperm(len(own), generator=draws)] for _ in range(-(-wanted // len(own)))]
            taken += [torch.cat(rounds)[:wanted]] if rounds else []
        together = torch.cat(taken)
        return together[torch.randperm(len(together), generator=draws)]

    return order


def sampled_shares(
    sampler: Sampler, labels: Tensor | Sequence[int], classes: Sequence[str] = (), seed: int = 0, epochs: int = 1
) -> Table:
    """Return what a sampler really gives, class by class, counted over its first epochs.

    For each class: the samples it has, its share of the data, its share of what is drawn, how many of its samples came
    at all, and how often the most frequent one came.
    """
    labels = _whole_numbers(labels, "labels")
    if type(epochs) is not int or epochs < 1:
        raise DataError(f"epochs={epochs!r}: count over at least 1 epoch.")
    if classes and not 0 <= int(labels.min()) <= int(labels.max()) < len(classes):
        raise DataError(
            f"classes has {len(classes)} names, and labels run from {int(labels.min())} to {int(labels.max())}."
        )
    drawn = torch.cat([checked(sampler, seed, epoch, len(labels)) for epoch in range(epochs)])
    times = torch.bincount(drawn, minlength=len(labels))
    rows = []
    for label in labels.unique().tolist():
        own = times[labels == label]
        rows.append(
            {
                "class": classes[label] if classes else str(label),
                "samples": len(own),
                "share of the data": len(own) / len(labels),
                "share of the draws": float(own.sum()) / len(drawn),
                "came at all": int((own > 0).sum()),
                "most often": int(own.max()),
            }
        )
    left_out = int((times == 0).sum())
    span = "1 epoch" if epochs == 1 else f"{epochs} epochs"
    return Table(rows, f"{len(drawn):,} draws in {span}; {left_out:,} of {len(labels):,} samples never came.")


def checked(sampler: Sampler, seed: int, epoch: int, length: int) -> Tensor:
    """Return the order of one epoch: int64 (count,), all from 0 to length - 1. Raises DataError if it is not that."""
    if not callable(sampler):
        raise DataError(
            f"sampler must be a function (seed, epoch) that returns indices, such as labkit.data.balanced(labels), "
            f"got {type(sampler).__name__}."
        )
    try:
        order = sampler(seed, epoch)
    except TypeError as error:
        raise DataError(f"A sampler is called as sampler(seed, epoch), and this one failed: {error}.") from error
    order = _whole_numbers(order, "What the sampler returns")
    if order.min() < 0 or order.max() >= length:
        raise DataError(
            f"The sampler asks for samples {int(order.min())} to {int(order.max())}, but the data set has {length}: "
            f"indices run from 0 to {length - 1}. Was it made for another part?"
        )
    return order


def _whole_numbers(values: Tensor | Sequence[int], name: str) -> Tensor:
    try:
        numbers = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{name} must be whole numbers in one row, got {type(values).__name__}.") from None
    if numbers.ndim != 1 or len(numbers) == 0 or numbers.is_floating_point() or numbers.dtype == torch.bool:
        found = f"{numbers.dtype} of shape {tuple(numbers.shape)}"
        raise DataError(f"{name} must be whole numbers in one row, at least one, got {found}.")
    return numbers.to(torch.int64)
