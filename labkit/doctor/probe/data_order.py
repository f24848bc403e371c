"""How samples are delivered: in which order, which of them, put together how, and whether the store stays as it is."""

from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor

from labkit import randomness
from labkit.doctor.copying import copied, reachable
from labkit.doctor.loading import workers_of
from labkit.doctor.probe.data_reading import Samples, as_tensor, has_places, order_of, pair, prints, read, root, size
from labkit.doctor.program import Program

EPOCHS = 3


@dataclass
class OrderEvidence:
    """What was seen of the delivery of training samples.

    samples: in the data set. drawn, different: places that three epochs gave, and how many different ones.
    single, batches: batches of one class only, of all batches that were read. runs, classes: stretches of equal labels
    in the order drawn, and classes. random: whether a validation sample differs from one reading to the next.
    collated: "", "labels" (a row stands beside the label of another sample) or "numbers" (rows have numbers of other
    samples). mutated: shape of a stored tensor that reading changes, so that other samples come out; None if none.
    """

    samples: int = 0
    drawn: int = 0
    different: int = 0
    single: int = 0
    batches: int = 0
    runs: int = 0
    classes: int = 0
    random: bool = False
    collated: str = ""
    mutated: tuple[int, ...] | None = None


def look_at_order(program: Program, loaders: dict[str, Any]) -> OrderEvidence:
    """Look at the order and the parts of the training batches, and read some validation samples twice."""
    found, train, val = OrderEvidence(), loaders["train"], loaders["val"]
    if val is not None and has_places(val):
        found.random = _is_random(val)
    if not has_places(train):
        return found
    found.samples = size(train)
    orders = [order_of(train, seed) for seed in range(EPOCHS)]
    if not all(orders):
        return found
    places = [place for order in orders for batch in order for place in batch]
    found.drawn, found.different = len(places), len(set(places))
    _labels_in_order(train, orders[0], found)
    if train.batch_sampler is not None:
        found.collated = _collated(train, orders[0][0])
        if workers_of(program.train_loader) == 0:
            found.mutated = _mutated(program, orders[0][0])
    return found


def _labels_in_order(loader: Any, order: list[list[int]], found: OrderEvidence) -> None:
    """Read labels of 20 batches that are spread over the epoch."""
    chosen = order[:: max(1, len(order) // 20)]
    kept = [batch[:16] for batch in chosen if len(batch) >= 4]
    samples = read(loader, [place for batch in kept for place in batch], seconds=0.2)
    if samples.classes is None or len(samples) < sum(map(len, kept)):
        return
    labels = samples.classes.flatten().split([len(batch) for batch in kept])
    found.batches = len(labels)
    found.single = sum(len(batch.unique()) == 1 for batch in labels)
    row = torch.cat(labels)
    found.runs, found.classes = int((row[1:] != row[:-1]).sum()) + 1, len(row.unique())


def _is_random(loader: Any) -> bool:
    """Say whether the same places give other inputs the second time, and targets that are no pictures themselves."""
    places = [number * size(loader) // 4 for number in range(4)] * 2
    samples = read(loader, places)
    if samples.inputs is None or len(samples) < 8:
        return False
    targets = samples.targets
    if targets is not None and targets.shape == samples.inputs.shape and targets.is_floating_point():
        return False  # a picture to be restored: noise is the task
    return not torch.equal(samples.inputs[:4].nan_to_num(), samples.inputs[4:].nan_to_num())


def _collated(loader: Any, places: list[int]) -> str:
    """Compare a batch with the samples it was made of."""
    if len(places) < 4 or _is_random(loader):
        return ""
    alone = read(loader, places)
    with randomness.frozen_randomness(0):
        inputs, targets = pair(loader.collate_fn([loader.dataset[place] for place in places]))
    if alone.inputs is None or len(alone) < len(places) or not isinstance(inputs, Tensor):
        return ""
    if inputs.shape != alone.inputs.shape or inputs.dtype != alone.inputs.dtype:
        return ""
    before, after = prints(alone.inputs), prints(inputs)
    if before == after or len(set(before)) < len(before):
        return ""
    if set(before) == set(after):
        targets = as_tensor(targets)
        came_from = [before.index(row) for row in after]
        if alone.targets is None or targets is None or targets.shape != alone.targets.shape:
            return ""
        return "labels" if not torch.equal(targets, alone.targets[came_from]) else ""
    same_numbers = torch.equal(inputs.flatten().sort().values, alone.inputs.flatten().sort().values)
    rows = torch.equal(inputs.flatten(1).sort(1).values, alone.inputs.flatten(1).sort(1).values)
    return "numbers" if same_numbers and not rows and inputs.unique().numel() > len(inputs) else ""


def _store(loader: Any) -> list[Any]:
    """Return all tensors and arrays that data set and collate function lead to, in a fixed order."""
    pieces = {"dataset": loader.dataset, "collate": loader.collate_fn}
    return [thing for thing in reachable(pieces) if isinstance(thing, Tensor | numpy.ndarray)]


def _kept(store: list[Any]) -> list[Tensor]:
    return [torch.as_tensor(thing).detach().clone() for thing in store]


def _deliver(loader: Any, places: list[int], seed: int = 0) -> Samples:
    with randomness.frozen_randomness(seed):
        inputs, targets = pair(loader.collate_fn([loader.dataset[place] for place in places]))
    return Samples(as_tensor(inputs), as_tensor(targets))


def _mutated(program: Program, places: list[int]) -> tuple[int, ...] | None:
    """Read a batch three times; if the store changed after the first time, ask a fresh copy that has the changed store.

    What is filled once (a cache) is no mutation, and neither is what changes without being delivered.
    """
    places = places[:8]
    used, fresh, changed = (copied({"loader": program.train_loader})["loader"] for _ in range(3))
    store = _store(used)
    if sum(thing.nbytes for thing in store) > 64 * 2**20:
        return None
    _deliver(used, places)
    once = _kept(store)
    _deliver(used, places, seed=1)  # what is masked at other places is seen by other random numbers only
    _deliver(used, places, seed=2)
    later = _kept(store)
    moved = [
        number
        for number, (old, new) in enumerate(zip(once, later, strict=True))
        if old.shape == new.shape and not torch.equal(old.nan_to_num(), new.nan_to_num())
    ]
    target = _store(changed)
    if not moved or len(target) != len(later):
        return None
    with torch.no_grad():
        for number in moved:
            torch.as_tensor(target[number]).copy_(later[number])
    one, other = _deliver(fresh, places), _deliver(changed, places)
    for left, right in ((one.inputs, other.inputs), (one.targets, other.targets)):
        if left is not None and right is not None and left.shape == right.shape and not _close(left, right):
            return tuple(later[moved[0]].shape)
    return None


def _close(left: Tensor, right: Tensor) -> bool:
    return torch.allclose(left.double().nan_to_num(), right.double().nan_to_num(), rtol=1e-4, atol=1e-5)


def shared_places(train: Any, val: Any) -> int:
    """Return how many samples of one data set both loaders point at."""
    first, mine = root(train.dataset, list(range(size(train))))
    second, other = root(val.dataset, list(range(size(val))))
    if first is not second or (train.sampler is not None and hasattr(train.sampler, "indices")):
        return 0
    return len(set(mine) & set(other))
