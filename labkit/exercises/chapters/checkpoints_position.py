"""Chapter 06, second part: which batches are still to come."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise


class _Loader:
    """Gives the numbers of samples, in another order in each epoch, from any batch on."""

    def __init__(self, samples: int, batch_size: int) -> None:
        self.samples, self.batch_size = samples, batch_size

    def __len__(self) -> int:
        return -(-self.samples // self.batch_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Loader) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"a loader of {self.samples} samples in {len(self)} batches"

    def at(self, epoch: int, batch: int) -> Iterator[Tensor]:
        """Give the batches of an epoch, in the order of that epoch, from `batch` on."""
        order = torch.randperm(self.samples, generator=torch.Generator().manual_seed(epoch))
        yield from order.split(self.batch_size)[batch:]


def run_batches_to_go(answer: Any, loader: _Loader, epoch: int, batch: int, epochs: int) -> Any:
    """Ask for the batches that are to come, and return them as a list."""
    families.need_function(answer)
    result = answer(loader, epoch, batch, epochs)
    return result if result is ... else list(result)


def _to_go(
    first: Callable[[int], int] = lambda batch: batch,
    later: Callable[[int], int] = lambda batch: 0,
    numbers: Callable[[int, int], range] = range,
    order_of: Callable[[int], int] = lambda number: number,
) -> Callable[[_Loader, int, int, int], list[Tensor]]:
    """Return an answer with its own first batch of this epoch, of later ones, its own epochs, and their orders."""

    def batches_to_go(loader: _Loader, epoch: int, batch: int, epochs: int) -> list[Tensor]:
        found = []
        for number in numbers(epoch, epochs):
            found += loader.at(order_of(number), first(batch) if number == epoch else later(batch))
        return found

    return batches_to_go


BATCHES_TO_GO = Exercise(
    name="batches_to_go",
    prompt="A training of `epochs` epochs was cut when `epoch` of them were finished, and `batch` batches of the next. "
    "Return the list of all batches that are still to come, in their order. `loader.at(epoch, batch)` gives the "
    "batches of one epoch from `batch` on; both count from 0, and each epoch has an order of its own.",
    stub='''def batches_to_go(loader, epoch, batch, epochs):
    """Return the batches that a resumed training has to take."""
    return ...  # your turn''',
    solved='''def batches_to_go(loader, epoch, batch, epochs):
    """Return the batches that a resumed training has to take."""
    found = []
    for number in range(epoch, epochs):
        found += loader.at(number, batch if number == epoch else 0)
    return found''',
    hints=(
        "Two kinds of epochs: the one in hand, of which a part is done, and those after it, which begin at batch 0.",
        "With `epoch` epochs finished, the one in hand has the number `epoch`, since counting begins at 0.",
        "One loop over `range(epoch, epochs)` covers both, and a finished training too: then it is empty.",
    ),
    cases=lambda generator: [
        (_Loader(10, 4), 1, 2, 3),
        (_Loader(9, 3), 0, 1, 2),
        (_Loader(8, 4), 2, 2, 4),
        (_Loader(8, 4), 3, 0, 3),
    ],
    run=run_batches_to_go,
    praise="No batch twice, none left out, wherever the cut was.",
    misconceptions=(
        Misconception(
            "the epoch begins again",
            _to_go(first=lambda batch: 0),
            "The first batches of this epoch are trained on twice. Most programs that save once an epoch resume so, "
            "and it is why they only ever resume at the start of one.",
        ),
        Misconception(
            "the rest of the epoch is left out",
            _to_go(numbers=lambda epoch, epochs: range(epoch + 1, epochs)),
            "You begin with the next epoch, so what was left of this one is never seen. With `epoch` *finished* "
            "epochs, the one in hand has that number.",
        ),
        Misconception(
            "the last batch twice",
            _to_go(first=lambda batch: max(0, batch - 1)),
            "`batch` counts finished batches, and counting begins at 0: the first that is not done has the number "
            "`batch`.",
        ),
        Misconception(
            "one batch is lost",
            _to_go(first=lambda batch: batch + 1),
            "`batch` batches are done, with the numbers 0 to `batch - 1`. The next has the number `batch`.",
        ),
        Misconception(
            "each epoch begins late",
            _to_go(later=lambda batch: batch),
            "Only the epoch that was cut begins in its middle. You leave out the first batches of all later ones, too.",
        ),
        Misconception(
            "one order for all epochs",
            _to_go(order_of=lambda number: 0),
            "Each epoch has an order of its own: `loader.at(number, …)`. With that of the first, a resume meets other "
            "batches than the training that was not cut. For a `DistributedSampler` it is a forgotten `set_epoch`.",
        ),
        Misconception(
            "one epoch too many",
            _to_go(numbers=lambda epoch, epochs: range(epoch, epochs + 1)),
            "Epochs count from 0, so the last of `epochs` has the number `epochs - 1`; `range` stops before its end by "
            "itself.",
        ),
        Misconception(
            "all epochs once more",
            _to_go(numbers=lambda epoch, epochs: range(epoch, epoch + epochs)),
            "`epochs` is how many the whole training has. Those that are finished are not done again.",
        ),
    ),
)
