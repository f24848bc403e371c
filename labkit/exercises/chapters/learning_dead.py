"""Chapter 07, sixth part: units that never answer."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from labkit.exercises import families
from labkit.exercises.declaration import Misconception
from labkit.exercises.exercise import Exercise


def run_share(answer: Any, batches: list[Tensor]) -> Any:
    """Return the share as a plain number."""
    families.need_function(answer)
    result = answer(batches)
    return result.item() if isinstance(result, Tensor) and result.numel() == 1 else result


def _of_all(share: Callable[[Tensor], Tensor]) -> Callable[[list[Tensor]], float]:
    return lambda batches: share(torch.cat(batches)).item()


def _mean_over_batches(batches: list[Tensor]) -> float:
    return sum((one == 0).all(dim=0).float().mean().item() for one in batches) / len(batches)


def _last_batch(batches: list[Tensor]) -> float:
    return (batches[-1] == 0).all(dim=0).float().mean().item()


def _cases(generator: torch.Generator) -> list[tuple]:
    cases = []
    for dead, sizes in ((3, (8, 8, 5)), (0, (6, 2)), (6, (4, 16))):
        batches = [torch.rand(size, 12, generator=generator) for size in sizes]
        for number, one in enumerate(batches):
            one[torch.rand(one.shape, generator=generator) < 0.4] = 0
            one[:, :dead] = 0
            one[:, 6 + number] = 0  # silent in this batch alone
            one[:, 10] = 0
            one[0, 6:10] = 0.5 * (torch.arange(6, 10) != 6 + number)
        batches[0][1, 10], batches[0][2, 11] = 1e-4, 3.0  # one unit answers once, and faintly
        batches[0][3] = 0  # one sample to which nothing answers
        cases.append((batches,))
    return cases


DEAD_SHARE = Exercise(
    name="dead_share",
    prompt="`batches` is a list of what a layer with ReLU gave for several batches, each of shape (B, units), with "
    "different B. A unit is *dead* if it was 0 for every sample of every batch. Return the share of dead units, a "
    "number from 0 to 1.",
    stub='''def dead_share(batches):
    """Return the share of units that are 0 for every sample."""
    return ...  # your turn''',
    solved='''def dead_share(batches):
    """Return the share of units that are 0 for every sample."""
    return (torch.cat(batches) == 0).all(dim=0).float().mean().item()''',
    hints=(
        "All batches become one with `torch.cat`: a row for each sample, a column for each unit.",
        "`(… == 0).all(dim=0)` asks of each column whether all of it is 0.",
        "The mean of True and False, as floats, is a share.",
    ),
    cases=_cases,
    run=run_share,
    praise="Ask it of a few hundred samples: of eight, many a healthy unit is silent.",
    misconceptions=(
        Misconception(
            "the share of zeros",
            _of_all(lambda rows: (rows == 0).float().mean()),
            "About half of what a healthy ReLU gives is 0: that is its work. Dead is a unit that is 0 for *every* "
            "sample.",
        ),
        Misconception(
            "each batch for itself",
            _mean_over_batches,
            "A unit that is silent in one small batch may answer in the next. It is dead only if no batch wakes it.",
        ),
        Misconception(
            "the last batch",
            _last_batch,
            "One batch is few samples. Put all of them together.",
        ),
        Misconception(
            "samples instead of units",
            _of_all(lambda rows: (rows == 0).all(dim=1).float().mean()),
            "`dim=1` asks of each *sample* whether all units are silent. The units are the columns: `dim=0`.",
        ),
        Misconception(
            "the living ones",
            _of_all(lambda rows: (rows != 0).any(dim=0).float().mean()),
            "These are the units that answer. Asked for were the others.",
        ),
        Misconception(
            "how many",
            _of_all(lambda rows: (rows == 0).all(dim=0).float().sum()),
            "A count. Whether 6 are many depends on how many there are: divide.",
        ),
        Misconception(
            "seldom is never",
            _of_all(lambda rows: ((rows == 0).float().mean(dim=0) > 0.9).float().mean()),
            "A unit that answers to one sample in twenty gets a gradient from that one, and lives. Some of the most "
            "useful ones are like that.",
        ),
    ),
)
