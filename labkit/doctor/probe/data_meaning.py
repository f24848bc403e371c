"""Whether the targets say anything about the inputs beside which they stand: a probe without any training.

Kernel ridge regression answers for many targets at once: with K between the samples and H = K (K + penalty)^-1, what is
predicted for sample i from all the others is y - (y - H y) / (1 - diag H). So the targets as given are compared with
shuffled ones, and with the same targets moved on by a few samples, at the price of one matrix product each.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from labkit.doctor.probe.data_reading import Samples, is_class

MOST = 300  # samples of each part
FEWEST = 60
WIDEST = 10_000  # numbers in an input
SHUFFLES = 20
PENALTY = 0.1  # of the mean of the kernel's diagonal


@dataclass
class MeaningEvidence:
    """How well one part of the samples predicts classes of others: shares that are right, None where not examined.

    train, val: each sample from all others of its part. across: validation from training. chance_train, chance_val: the
    best of 20 times with shuffled targets; chance_across: of what is said across, against shuffled ones. renamed: the
    class names of validation, in the order of training's, that make most of them right, and across_renamed: how many
    then.
    """

    samples: int = 0
    train: float | None = None
    val: float | None = None
    across: float | None = None
    chance_train: float = 0.0
    chance_val: float = 0.0
    chance_across: float = 0.0
    renamed: tuple[int, ...] = ()
    across_renamed: float = 0.0


def look_at_meaning(seen: dict[str, Samples | None]) -> MeaningEvidence:
    """Predict classes from inputs, within each part and from one to the other."""
    found = MeaningEvidence()
    train, val = (_usable(seen.get(part)) for part in ("train", "val"))
    if train is None:
        return found
    found.samples = len(train)
    labels = train.targets.flatten().long()
    known, y = labels.unique(return_inverse=True)
    both = val is not None and val.inputs.shape[1:] == train.inputs.shape[1:]
    k = kernel(train.inputs, torch.cat([train.inputs, val.inputs]) if both else train.inputs)
    mine = k[: len(y), : len(y)]
    found.train, found.chance_train = _alone(mine, y, len(known))
    if not both or not torch.isin(val.targets.flatten().long(), known).all():
        return found
    z = torch.searchsorted(known, val.targets.flatten().long())
    found.val, found.chance_val = _alone(k[len(y) :, len(y) :], z, len(known))
    weights = _solve(mine, functional.one_hot(y, len(known)).double())
    said = (k[len(y) :, : len(y)] @ weights).argmax(1)
    found.across = (said == z).double().mean().item()
    found.chance_across = max((said == z[order]).double().mean().item() for order in _shuffled(len(z)))
    found.renamed, found.across_renamed = _renamed(said, z, len(known))
    return found


def _usable(samples: Samples | None) -> Samples | None:
    if samples is None or samples.inputs is None or samples.targets is None or len(samples) < FEWEST:
        return None
    chosen = torch.linspace(0, len(samples) - 1, min(len(samples), MOST)).long()
    inputs, targets = samples.inputs[chosen], samples.targets[chosen]
    if not is_class(targets) or inputs.dim() < 2 or inputs[0].numel() > WIDEST or not inputs.double().isfinite().all():
        return None
    return Samples(inputs, targets)


def kernel(train: Tensor, everything: Tensor) -> Tensor:
    """Return how alike samples are, (n, n): the mean over several views of them; scales are those of training."""
    total = 0.0
    for mine, all_ in zip(views(train), views(everything), strict=True):
        mean, spread = mine.mean(0), mine.std(0)
        rows = (all_ - mean) / torch.where(spread > 1e-6, spread, torch.ones_like(spread))
        first = rows[: len(train)]
        distances = torch.cdist(rows, rows).square()
        width = torch.cdist(first, first).square().median().clamp(min=1e-12)
        length = first.square().sum(1).mean().clamp(min=1e-12)
        total = total + rows @ rows.T / length + (-2 * distances / width).exp()
    return total


def views(inputs: Tensor) -> list[Tensor]:
    """Return samples as rows of numbers: as they are, and by their frequencies, which do not depend on the place."""
    if not inputs.is_floating_point() and inputs.dim() == 2 and inputs.max() < 5000 and inputs.min() >= 0:
        ones = torch.ones(inputs.shape, dtype=torch.double)
        words = torch.zeros(len(inputs), int(inputs.max()) + 1, dtype=torch.double)
        return [words.scatter_add_(1, inputs.long(), ones)]  # how often each word comes
    inputs = inputs.double()
    found = [inputs.flatten(1)]
    if inputs.dim() == 4:
        found.append(torch.fft.rfft2(inputs).abs().flatten(1))
    elif inputs.dim() == 3:
        found.append(torch.fft.rfft(inputs, dim=1).abs().flatten(1))
        found.append(torch.fft.rfft(inputs, dim=2).abs().flatten(1))
    return found


def _solve(k: Tensor, targets: Tensor) -> Tensor:
    penalty = PENALTY * k.diagonal().mean()
    return torch.linalg.solve(k + penalty * torch.eye(len(k), dtype=k.dtype), targets)


def predicted(k: Tensor, targets: Tensor) -> Tensor:
    """Return for each sample what all the others predict, targets (n, m)."""
    hat = _solve(k, k).T
    return targets - (targets - hat @ targets) / (1 - hat.diagonal())[:, None].clamp(min=1e-6)


def _alone(k: Tensor, y: Tensor, classes: int) -> tuple[float, float]:
    orders = [torch.arange(len(y)), *_shuffled(len(y))]
    rows = torch.cat([functional.one_hot(y[order], classes).double() for order in orders], 1)
    said = predicted(k, rows).unflatten(1, (len(orders), classes)).argmax(2)
    right = [(said[:, number] == y[order]).double().mean().item() for number, order in enumerate(orders)]
    return right[0], max(right[1:])


def _shuffled(count: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randperm(count, generator=draw) for _ in range(SHUFFLES)]


def _renamed(said: Tensor, truth: Tensor, classes: int) -> tuple[tuple[int, ...], float]:
    """Return the class that each predicted class is called in validation, and how many are right then.

    The surest pair comes first, and no name is given twice.
    """
    table = torch.zeros(classes, classes)
    table.index_put_((said, truth), torch.ones(len(said)), accumulate=True)
    names, left = [0] * classes, table.clone()
    for _ in range(classes):
        row, column = divmod(int(left.argmax()), classes)
        names[row] = column
        left[row], left[:, column] = -1, -1
    return tuple(names), table[torch.arange(classes), torch.tensor(names)].sum().item() / len(said)
