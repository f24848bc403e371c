"""Chapter 03, seventh part: a split that keeps groups together."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labkit.exercises.declaration import Misconception
from labkit.exercises.differences import shown
from labkit.exercises.exercise import Exercise
from labkit.exercises.families import WrongKind, need_function

Split = Callable[[Tensor, float, int], tuple[Any, Any]]


def run_split(answer: Any, groups: Tensor, share: float, seed: int) -> Any:
    """Split twice by one seed and once by another: what holds of the two sides."""
    need_function(answer)
    if (first := answer(groups, share, seed)) is ...:
        return ...
    again, other = answer(groups, share, seed), answer(groups, share, seed + 1)
    (train, validation), group_of = _sides(first), dict(enumerate(groups.tolist()))
    seen, held_out = ({group_of.get(index) for index in side} for side in (train, validation))
    leaks = bool(seen & held_out)
    return {
        "all indices are places in `groups`": all(index in group_of for index in train + validation),
        "number of indices": len(train + validation),
        "every sample is on one side, once": sorted(train + validation) == list(group_of),
        "some group is on both sides": leaks,
        "groups in validation": None if leaks else len(held_out),
        "the same seed gives the same split": _sides(again) == (train, validation),
        "another seed gives another split": _sides(other) != (train, validation),
    }


def _sides(answered: Any) -> tuple[list[int], list[int]]:
    """Return the indices on both sides as sorted lists: their order is nobody's concern."""
    if not isinstance(answered, list | tuple) or len(answered) != 2:
        raise WrongKind(f"Asked for are two sets of indices, (train, validation); got {shown(answered)}.")
    try:
        sides = [side.tolist() if isinstance(side, Tensor | np.ndarray) else list(side) for side in answered]
        train, validation = (sorted(operator.index(index) for index in side) for side in sides)
    except TypeError:
        raise WrongKind(f"Indices are whole numbers, in one row for each side; got {shown(answered)}.") from None
    if any(isinstance(index, bool) for side in sides for index in side):
        raise WrongKind("These are masks. Asked for are indices: `torch.nonzero(mask).flatten()` makes them of a mask.")
    return train, validation


def _where(groups: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the samples whose group is not chosen, and those whose group is."""
    held_out = torch.isin(groups, chosen)
    return (~held_out).nonzero().flatten(), held_out.nonzero().flatten()


def _chosen(groups: Tensor, share: float, seed: int) -> Tensor:
    """Draw the groups for validation."""
    names = groups.unique()
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed))
    return names[order[: round(share * len(names))]]


def _samples_instead_of_groups(groups: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed))
    cut = round(share * len(groups))
    return order[cut:], order[:cut]


def _cut_at_one_place(groups: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    cut = len(groups) - round(share * len(groups))
    return torch.arange(cut), torch.arange(cut, len(groups))


def _always_the_last_groups(groups: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    names = groups.unique()
    return _where(groups, names[len(names) - round(share * len(names)) :])


def _without_the_seed(groups: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    names = groups.unique()
    return _where(groups, names[torch.randperm(len(names))[: round(share * len(names))]])


def _names_of_groups(groups: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    chosen = _chosen(groups, share, seed)
    return groups.unique()[~torch.isin(groups.unique(), chosen)], chosen


def _one_of_each_group(groups: Tensor, share: float, seed: int) -> tuple[list[int], list[int]]:
    last = {group: index for index, group in enumerate(groups.tolist())}
    chosen = set(_chosen(groups, share, seed).tolist())
    train = [index for group, index in last.items() if group not in chosen]
    return train, [index for group, index in last.items() if group in chosen]


def _sides_swapped(groups: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
    train, validation = _where(groups, _chosen(groups, share, seed))
    return validation, train


def _groups(generator: torch.Generator, count: int, samples: int) -> Tensor:
    """Return the group of each sample: `count` groups, with drawn numbers for names, and each there at least once."""
    names = 1000 + torch.randperm(9000, generator=generator)[:count]
    more = torch.randint(count, (samples - count,), generator=generator)
    return names[torch.cat([torch.arange(count), more])][torch.randperm(samples, generator=generator)]


SPLIT_GROUPS = Exercise(
    name="split_groups",
    prompt="Several pictures are of one patient: `groups` has the number of the patient for each. Return the indices "
    "`(train, validation)`, with all pictures of a patient on the same side. `share` says how many of the *groups* go "
    "to validation, and `seed` alone decides which.",
    stub='''def split_groups(groups, share, seed):
    """groups: int64 (N,) -> indices (train, validation); a share of the groups is in validation, as seed draws."""
    return ...  # your turn''',
    solved='''def split_groups(groups, share, seed):
    """groups: int64 (N,) -> indices (train, validation); a share of the groups is in validation, as seed draws."""
    names = groups.unique()
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(seed))
    chosen = names[order[: round(share * len(names))]]
    held_out = torch.isin(groups, chosen)
    return torch.nonzero(~held_out).flatten(), torch.nonzero(held_out).flatten()''',
    hints=(
        "Draw among the groups first, then look which samples belong to those that were drawn.",
        "`groups.unique()` lists them, each once. `torch.randperm(n, generator=…)` puts them into a drawn order.",
        "`torch.isin(groups, chosen)` marks the samples of the chosen groups, and `torch.nonzero(mask).flatten()` "
        "gives their indices.",
    ),
    cases=lambda generator: [
        (_groups(generator, 20, 60), 0.25, 0),
        (_groups(generator, 30, 70), 0.1, 7),
        (_groups(generator, 16, 40), 0.5, 3),
    ],
    run=run_split,
    praise="What validation measures now is how the model does on people whom it has never met.",
    misconceptions=(
        Misconception(
            "samples are drawn, not groups",
            _samples_instead_of_groups,
            "Nearly every patient is on both sides. The model recognises the person, validation is splendid, and in "
            "use it fails. Draw among the groups.",
        ),
        Misconception(
            "cut at one place",
            _cut_at_one_place,
            "The last samples go to validation, whoever they show: groups are cut in two, and the seed is not used. "
            "What is stored last is often of another kind besides.",
        ),
        Misconception(
            "always the same groups",
            _always_the_last_groups,
            "No group is cut, and it is always the highest numbers that are held out: the newest patients, say. Let "
            "the seed draw them.",
        ),
        Misconception(
            "another split each time",
            _without_the_seed,
            "The same seed gave two splits: `randperm` drew from the global generator. Start the run again, and what "
            "was training is validation. Make a generator from `seed`.",
        ),
        Misconception(
            "names of groups instead of indices",
            _names_of_groups,
            "These are the numbers of the patients. To take the pictures one needs the *places* at which these "
            "patients stand in `groups`.",
        ),
        Misconception(
            "one sample of each group",
            _one_of_each_group,
            "A dictionary keeps one value for each key, so of each group only the last sample is left. Each sample "
            "must be on one side.",
        ),
        Misconception(
            "the sides swapped",
            _sides_swapped,
            "`share` is that of validation, and training comes first in the pair.",
        ),
    ),
)
