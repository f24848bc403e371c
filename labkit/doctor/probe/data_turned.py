"""Whether random transforms of training turn a sample into one of another class.

A place of the data set is read several times. If one reading is another one mirrored (turned, reversed, negative), this
is a transform in use. Then the same is done to validation samples, and a probe that knows the others says what they are
now: an arrow to the left is one to the right, a cat is still a cat.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from labkit import randomness
from labkit.doctor.probe.data_meaning import PENALTY, kernel
from labkit.doctor.probe.data_reading import Samples, has_places, is_class, read, size, spread_out

PLACES, READINGS = 120, 4
MOST = 300  # validation samples
FEWEST = 40
SEEDS = 8
USED = 0.15  # of the pairs of readings
MOST_CLASSES = 20

PICTURES = {
    "mirrored left to right": lambda x: x.flip(-1),
    "mirrored top to bottom": lambda x: x.flip(-2),
    "turned by 180 degrees": lambda x: x.flip((-2, -1)),
    "turned by 90 degrees": lambda x: x.rot90(1, (-2, -1)),
    "turned by 270 degrees": lambda x: x.rot90(3, (-2, -1)),
    "with rows and columns exchanged": lambda x: x.transpose(-2, -1),
    "made negative": lambda x: -x,
}
SERIES = {"reversed in time": lambda x: x.flip(-2), "made negative": lambda x: -x}
ROWS = {"reversed": lambda x: x.flip(-1), "made negative": lambda x: -x}


@dataclass
class TurnedEvidence:
    """A random transform in use, and what it makes of a class.

    turn: its name, "" if none was seen. used: share of pairs of readings, of one place and label, that differ by it.
    old, new: the class that changes its meaning most, and what it is taken for. before, after: how often validation
    samples of class old are taken for new, as they are and turned. seeds: two for which all samples come alike: as they
    are with one, turned with the other; empty if there are none among the first SEEDS.
    """

    turn: str = ""
    used: float = 0.0
    old: int = 0
    new: int = 0
    before: float = 0.0
    after: float = 0.0
    seeds: tuple[int, ...] = ()


def look_at_turned(train: Any, val: Samples | None) -> TurnedEvidence | None:
    """Look for a transform in use that exchanges classes."""
    if not has_places(train) or train.batch_sampler is None or val is None or val.inputs is None or len(val) < FEWEST:
        return None
    places = spread_out(size(train), PLACES)
    readings = [read(train, places, seed=seed) for seed in range(READINGS)]
    count = min(map(len, readings))
    inputs = torch.stack([reading.inputs[:count] for reading in readings], 1)
    targets = torch.stack([reading.targets[:count] for reading in readings], 1)
    if torch.equal(inputs[:, 0], inputs[:, 1]) or not is_class(val.targets) or not inputs.is_floating_point():
        return None
    turns = {4: PICTURES, 3: SERIES, 2: ROWS}.get(val.inputs.dim(), {})
    same_label = (targets.flatten(2) if targets.dim() > 2 else targets[:, :, None])[:, :, :1]
    same_label = (same_label == same_label.transpose(1, 2)) & ~torch.eye(READINGS, dtype=torch.bool)
    found = TurnedEvidence()
    pairs = count * READINGS * (READINGS - 1)
    used = {
        name: (differ_by(inputs, turn) & same_label).double().sum().item() / pairs
        for name, turn in turns.items()
        if turn(inputs).shape == inputs.shape
    }
    for name in sorted((name for name in used if used[name] > USED), key=used.__getitem__, reverse=True):
        _meaning(name, used[name], turns[name], val, found)
    if found.turn:
        found.seeds = _seeds(train, places[::6], turns[found.turn])
    return found


def _seeds(train: Any, places: list[int], turn: Any) -> tuple[int, ...]:
    """Return two seeds, set anew before each sample, between which nearly all samples differ by a turn."""
    first = read(DataLoader(Steady(train.dataset, 0)), places).inputs
    for seed in range(1, SEEDS):
        other = read(DataLoader(Steady(train.dataset, seed)), places).inputs
        if differ_by(torch.stack([first, other], 1), turn)[:, 0, 1].double().mean() > 0.8:
            return 0, seed
    return ()


class Steady(Dataset):
    """A data set in which each sample is read with the same random numbers: a random transform is always the same."""

    def __init__(self, dataset: Any, seed: int):
        self.dataset, self.seed = dataset, seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: int) -> Any:
        with randomness.frozen_randomness(self.seed):
            return self.dataset[place]


def differ_by(inputs: Tensor, turn: Any) -> Tensor:
    """Return (places, readings, readings): whether reading a, turned, is b by far more than a as it is."""
    flat, turned = _directions(inputs), _directions(turn(inputs))
    alike = flat @ flat.transpose(1, 2)
    alike_turned = turned @ flat.transpose(1, 2)
    return (alike_turned > 0.6) & (alike_turned > alike + 0.15)


def _directions(inputs: Tensor) -> Tensor:
    rows = inputs.double().flatten(2)
    rows = rows - rows.mean(2, keepdim=True)
    return rows / rows.norm(dim=2, keepdim=True).clamp(min=1e-9)


def _meaning(name: str, used: float, turn: Any, val: Samples, found: TurnedEvidence) -> None:
    """Compare what a probe takes validation samples for, as they are and turned."""
    chosen = torch.linspace(0, len(val) - 1, min(len(val), MOST)).long()
    inputs, labels = val.inputs[chosen], val.targets[chosen].flatten().long()
    known, y = labels.unique(return_inverse=True)
    if len(known) > MOST_CLASSES:
        return
    rows = functional.one_hot(y, len(known)).double()
    one, other = (_table(way, inputs, rows, y) for way in (lambda x: x, turn))
    gain = (other - one).fill_diagonal_(-1.0)
    gain[torch.bincount(y) < 8] = -1.0
    old, new = divmod(int(gain.argmax()), len(known))
    if other[old, new] - one[old, new] > found.after - found.before:
        found.turn, found.used = name, used
        found.old, found.new = int(known[old]), int(known[new])
        found.before, found.after = one[old, new].item(), other[old, new].item()


def _table(turn: Any, inputs: Tensor, rows: Tensor, y: Tensor) -> Tensor:
    """Return (classes, classes): how often samples of a class, turned, are taken for another by all but themselves."""
    k = kernel(inputs, torch.cat([inputs, turn(inputs)]))
    count = len(y)
    inner, between = k[:count, :count], k[count:, :count]
    inverse = torch.linalg.inv(inner + PENALTY * inner.diagonal().mean() * torch.eye(count, dtype=k.dtype))
    weights = inverse @ rows
    of_itself = (between * inverse.T).sum(1) / inverse.diagonal()  # what a sample adds to its own prediction
    said = (between @ weights - of_itself[:, None] * weights).argmax(1)
    table = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.double)
    table.index_put_((y, said), torch.ones(count, dtype=torch.double), accumulate=True)
    return table / table.sum(1, keepdim=True)
