"""What a score is worth: evaluate models whose answers are known, on small loaders whose batches are known."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from labkit.doctor.nested import leaves, mapped
from labkit.doctor.probe.evaluation_answers import always_a_share, known_answer, nearly_right
from labkit.doctor.program import Program
from labkit.doctor.records import Recording

BATCHES, MOST_ROWS, LARGEST_BATCH = 3, 2_000, 64
MOST_PLACES = 6
SECONDS = 2.0  # if three small batches take longer, the batches of the loader's sizes are left out


@dataclass
class ScoresEvidence:
    """What the evaluation says of models whose answers are known.

    right, wrong: scores of a model that is always right, and of one that is always wrong. first, last: scores of models
    that are right in the first or the last of three equal batches only. again: of the wrong model, evaluated after the
    right one by the same function. narrow: of a model that is always right, by a small margin; clear: by a larger one.
    one_batch: of the right model, on the first batch alone. mixed: of a model that gives each sample the right answer
    of another one (None where these are the same). places: in how many of the first places the right class may
    stand to count as well as in the first.
    sizes: batches of the validation loader, (full, last, how many). right_uneven: score of the right model on batches
    of these sizes. share_of_last: what the last, smaller batch counts for there. as_it_is, at_once: scores of the
    program's model on these batches, and on the same samples in a single batch. reads: how many batches of the loader
    it was given the evaluation reads. of_training: share of the samples it reads that are training samples and no
    validation samples.
    """

    right: float | None = None
    wrong: float | None = None
    first: float | None = None
    last: float | None = None
    again: float | None = None
    narrow: float | None = None
    clear: float | None = None
    one_batch: float | None = None
    mixed: float | None = None
    places: int | None = None
    sizes: tuple[int, int, int] | None = None
    right_uneven: float | None = None
    share_of_last: float | None = None
    as_it_is: float | None = None
    at_once: float | None = None
    reads: int | None = None
    of_training: float | None = None


class Batches:
    """A loader of batches that are given; it knows which one was read last. dataset: as many samples as they have."""

    def __init__(self, batches: list[Any], dataset: Any = None, bounded: bool | None = None):
        self.batches = batches
        self.current: int = -1
        self.read = 0
        self.bounded = bounded
        count = sum(map(size_of, batches))
        with contextlib.suppress(Exception):  # a data set without a length
            dataset = Subset(dataset, [number % len(dataset) for number in range(count)])
        self.dataset = dataset if dataset is not None else range(count)
        self.batch_size = size_of(batches[0])

    def __iter__(self) -> Iterator[Any]:
        for number, batch in enumerate(self.batches):
            self.current = number
            self.read += 1
            yield batch
        self.current = -1

    def __len__(self) -> int:
        return len(self.batches)

    def number_of(self, inputs: Any) -> int:
        """Return which batch some inputs of the model are from: by their memory, else the batch that was read last."""
        for number, batch in enumerate(self.batches):
            if any(isinstance(leaf, Tensor) and leaf.data_ptr() == inputs.data_ptr() for leaf in leaves(batch)):
                return number
        if self.current < 0:
            raise ValueError("no batch is being read")
        return self.current


def size_of(batch: Any) -> int:
    """Return how many samples a batch has."""
    return next(len(leaf) for leaf in leaves(batch) if isinstance(leaf, Tensor) and leaf.dim())


def rows(batch: Any, which: Tensor) -> Any:
    """Return some samples of a batch; raise ValueError if its tensors do not have a row for each sample."""
    count = size_of(batch)
    if any(not isinstance(leaf, Tensor) or leaf.dim() == 0 or len(leaf) != count for leaf in leaves(batch)):
        raise ValueError("not one row for each sample")
    return mapped(batch, lambda tensor: tensor[which])


def small_loader(loader: Any, largest: int = LARGEST_BATCH) -> Batches | None:
    """Return a loader of three equal batches with samples of another; None if these cannot be cut."""
    with contextlib.suppress(Exception):  # whatever the user's loader raises
        batch = next(iter(loader))
        count = size_of(batch)
        size = min(largest, count)
        cut = [rows(batch, torch.arange(k * size, (k + 1) * size) % count) for k in range(BATCHES)]
        return Batches(cut, getattr(loader, "dataset", None))
    return None


def look_at_scores(program: Program, recording: Recording) -> ScoresEvidence:
    """Evaluate models whose answers are known; fields that cannot be measured stay None."""
    seen, begin = ScoresEvidence(), time.thread_time()
    if program.evaluate is None:
        return seen
    with contextlib.suppress(Exception):  # whatever the user's pieces raise: what is known until then is kept
        bounded = _three_batches(program, seen)
        if time.thread_time() - begin < SECONDS and seen.right is not None:
            _uneven_batches(program, recording, seen, bounded)
    with contextlib.suppress(Exception):
        if seen.reads == 0:
            seen.of_training = _share_of_training(program, recording)
    return seen


def _three_batches(program: Program, seen: ScoresEvidence) -> bool | None:
    """Evaluate on three equal batches; return whether outputs are always between 0 and 1."""
    loader = small_loader(program.val_loader)
    one, other = program.copy(), program.copy()
    with contextlib.suppress(Exception):  # a model that is called in another way
        loader.bounded = always_a_share(program.copy().model.eval(), (loader.batches[0][0],))
    right = _score(one, loader, lambda number: 10.0)
    seen.reads = loader.read
    wrong = _score(other, loader, lambda number: -10.0)
    if right is None or wrong is None:
        return None
    seen.right, seen.wrong = right, wrong
    seen.again = _score(one, loader, lambda number: -10.0)
    seen.first = _score(program.copy(), loader, lambda number: 10.0 if number == 0 else -10.0)
    seen.last = _score(program.copy(), loader, lambda number: 10.0 if number == BATCHES - 1 else -10.0)
    seen.narrow = _score(program.copy(), loader, lambda number: 0.2)
    seen.clear = _score(program.copy(), loader, lambda number: 1.5)
    seen.one_batch = _score(program.copy(), Batches(loader.batches[:1], loader.dataset, loader.bounded), lambda _: 10.0)
    if right > wrong:
        if any(not torch.equal(batch[1], batch[1].roll(1, 0)) for batch in loader.batches):
            of_another = lambda outputs, targets: known_answer(outputs, targets.roll(1, 0), 10.0, loader.bounded)  # noqa: E731
            seen.mixed = _score(program.copy(), loader, give=of_another)
        _places(program, loader, seen)
    return loader.bounded


def _places(program: Program, loader: Batches, seen: ScoresEvidence) -> None:
    """Let some wrong classes stand before the right one: does that cost anything?"""
    for better in range(1, MOST_PLACES):
        if _score(program.copy(), loader, give=partial(nearly_right, better=better)) != seen.right:
            seen.places = better
            return


def _uneven_batches(program: Program, recording: Recording, seen: ScoresEvidence, bounded: bool | None) -> None:
    loader = program.val_loader
    sizes = batch_sizes(loader)
    if sizes is None:
        return
    full, last, number = seen.sizes = sizes
    if not 0 < last < full or number < 2 or full * number > MOST_ROWS:
        return
    samples = [batch for batch in loader]
    if [size_of(batch) for batch in samples] != [full] * (number - 1) + [last]:
        return
    uneven = Batches(samples, loader.dataset, bounded)
    seen.right_uneven = _score(program.copy(), uneven, lambda number: 10.0)
    wrong = _score(program.copy(), uneven, lambda number: -10.0)
    only = _score(program.copy(), uneven, lambda place: 10.0 if place == number - 1 else -10.0)
    if None not in (seen.right_uneven, wrong, only) and seen.right_uneven != wrong:
        seen.share_of_last = (only - wrong) / (seen.right_uneven - wrong)
    joined = Batches([_joined(samples)], loader.dataset)
    trained = recording.program
    seen.as_it_is, seen.at_once = _score(trained.copy(), uneven), _score(trained.copy(), joined)


def batch_sizes(loader: Any) -> tuple[int, int, int] | None:
    """Return the size of a loader's batches, of the last one, and their number; None if it does not tell."""
    if not isinstance(loader, DataLoader) or loader.batch_size is None or not hasattr(loader.dataset, "__len__"):
        return None
    count = len(loader.sampler)
    rest = 0 if loader.drop_last else count % loader.batch_size
    return loader.batch_size, rest or loader.batch_size, len(loader)


def _joined(batches: list[Any]) -> Any:
    parts = [[leaf for leaf in leaves(batch)] for batch in batches]
    joined = iter([torch.cat(column) for column in zip(*parts, strict=True)])
    return mapped(batches[0], lambda _: next(joined))


def _score(
    program: Program,
    loader: Batches,
    strength: Callable[[int], float] | None = None,
    give: Callable[[Any, Tensor], Any] | None = None,
) -> float | None:
    """Evaluate, with the model's outputs replaced if one of the two is given.

    strength: number of a batch -> right answers if it is above 0, else wrong ones. give: (outputs, targets) -> outputs.
    """
    loader.read, answered = 0, []

    def answer(module: Any, inputs: Any, outputs: Any) -> Any:
        number = loader.number_of(inputs[0])
        targets = loader.batches[number][1]
        answered.append(True)
        return give(outputs, targets) if give else known_answer(outputs, targets, strength(number), loader.bounded)

    replaced = strength is not None or give is not None
    hook = program.model.register_forward_hook(answer) if replaced else None
    try:
        score = float(program.score(loader))
    except Exception:  # whatever the user's evaluation raises, or an answer that fits no target
        return None
    finally:
        if hook is not None:
            hook.remove()
    return score if score == score and (answered or not replaced) else None


def _share_of_training(program: Program, recording: Recording) -> float | None:
    """Return the share of evaluated samples that are training samples and no validation samples."""
    read = {mark for call in recording.evaluation_forwards[:4] for mark in _marks(call.inputs[0])}
    known = [
        {mark for batch in _some(loader) for mark in _marks(batch[0])}
        for loader in (program.train_loader, program.val_loader)
    ]
    return sum(mark in known[0] and mark not in known[1] for mark in read) / len(read) if read else None


def _some(loader: Any) -> Iterator[Any]:
    count = 0
    for batch in loader:
        yield batch
        count += size_of(batch)
        if count > MOST_ROWS:
            return


def _marks(inputs: Tensor) -> set[float]:
    flat = inputs.detach().reshape(len(inputs), -1).double()
    weights = torch.linspace(1, 2, flat.shape[1], dtype=torch.float64)
    return {round(value, 6) for value in (flat @ weights).tolist()}
