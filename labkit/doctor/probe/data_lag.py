"""Whether targets stand beside the inputs some places before or after their own: a row was lost on one side.

Two samples that are alike as inputs should be alike as targets. In each window of rows this likeness is compared,
with the targets as they stand and moved on by up to MOST_LAG places; then the best way through all windows is found, on
which the lag changes slowly. Where targets are right, that way is lag 0 from the first window to the last.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader

from labkit.doctor.probe.data_meaning import WIDEST, kernel
from labkit.doctor.probe.data_reading import Samples, has_places, is_class, read, root

MOST = 600  # rows from the first on
WINDOW, STEP = 24, 12
MOST_LAG = 40
CHANGE = 3  # places that the lag may change from one window to the next
SHUFFLES = 8
NEIGHBOURS = 0.2  # likeness of rows that follow each other, where 1 is that of a row with itself


@dataclass
class LagEvidence:
    """How alike targets of like inputs are, summed over the windows.

    own: as they stand. best: on the best way, by_chance: the largest that shuffled targets give. lags: of the best way,
    window by window.
    """

    samples: int = 0
    own: float = 0.0
    best: float = 0.0
    by_chance: float = 0.0
    lags: tuple[int, ...] = ()


def look_at_lag(loader: Any) -> LagEvidence | None:
    """Look at the first rows of the data set under a loader, in the order in which they are stored."""
    samples = stored(loader)
    if samples is None:
        return None
    like = _centred(kernel(samples.inputs, samples.inputs))
    alike = _likeness(samples.targets)
    if max(_of_neighbours(like), _of_neighbours(alike)) > NEIGHBOURS:
        return None  # a series, or sorted rows: a neighbour's target fits nearly as well
    table = _table(like, alike)
    found = LagEvidence(len(samples), table[:, MOST_LAG].sum().item())
    found.best, found.lags = best_way(table)
    if found.own < 0.8 * found.best:
        draw = torch.Generator().manual_seed(0)
        orders = [torch.randperm(len(samples), generator=draw) for _ in range(SHUFFLES)]
        found.by_chance = max(best_way(_table(like, alike[order][:, order]))[0] for order in orders)
    return found


def stored(loader: Any) -> Samples | None:
    """Return the first rows of the data set that is under all subsets; None where they cannot be compared."""
    if not has_places(loader) or loader.batch_sampler is None:
        return None
    dataset = root(loader.dataset, [])[0]
    samples = read(DataLoader(dataset), list(range(min(MOST, len(dataset)))), seconds=0.3)
    x, y = samples.inputs, samples.targets
    if x is None or y is None or len(x) < 2 * MOST_LAG + 4 * WINDOW or x.dim() < 2:
        return None
    if max(x[0].numel(), y[0].numel()) > WIDEST or not x.double().isfinite().all() or not y.double().isfinite().all():
        return None
    return samples


def moved(samples: Samples, lags: tuple[int, ...]) -> Samples:
    """Return the rows of the windows, each with the target that stands its lag further on."""
    begins = torch.arange(len(lags)) * STEP + MOST_LAG
    rows = (begins[:, None] + torch.arange(STEP) + (WINDOW - STEP) // 2).flatten()
    return Samples(samples.inputs[rows], samples.targets[rows + torch.tensor(lags).repeat_interleave(STEP)])


def _centred(k: Tensor) -> Tensor:
    k = k - k.mean(0) - k.mean(1)[:, None] + k.mean()
    return k / k.diagonal().mean().clamp(min=1e-12)


def _likeness(targets: Tensor) -> Tensor:
    rows = functional.one_hot(targets.flatten().long()) if is_class(targets) and targets.min() >= 0 else targets
    rows = rows.double().flatten(1) if rows.dim() > 1 else rows.double()[:, None]
    rows = (rows - rows.mean(0)) / rows.std(0).clamp(min=1e-9)
    return _centred(rows @ rows.T)


def _of_neighbours(likeness: Tensor) -> float:
    return likeness.diagonal(1).mean().item()


def _table(like: Tensor, alike: Tensor) -> Tensor:
    """Return (windows, lags): how well the likeness of inputs and that of targets go together in each window."""
    begins = torch.arange(MOST_LAG, len(like) - WINDOW - MOST_LAG + 1, STEP)
    rows = begins[:, None] + torch.arange(WINDOW)
    inner = like[rows[:, :, None], rows[:, None, :]] * (1 - torch.eye(WINDOW, dtype=like.dtype))
    columns = [
        (inner * alike[(rows + lag)[:, :, None], (rows + lag)[:, None, :]]).sum((1, 2))
        for lag in range(-MOST_LAG, MOST_LAG + 1)
    ]
    return torch.stack(columns, 1)


def best_way(table: Tensor) -> tuple[float, tuple[int, ...]]:
    """Return the largest sum from the first row to the last, and the lags of the columns on the way."""
    total, came_from = table[0], []
    for row in table[1:]:
        around = functional.pad(total, (CHANGE, CHANGE), value=-torch.inf).unfold(0, 2 * CHANGE + 1, 1).max(1)
        came_from.append(torch.arange(len(row)) + around.indices - CHANGE)
        total = row + around.values
    column = int(total.argmax())
    way = [column]
    for back in reversed(came_from):
        way.append(int(back[way[-1]]))
    return total.max().item(), tuple(place - MOST_LAG for place in reversed(way))
