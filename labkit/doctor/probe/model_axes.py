"""Reshapes that mix axes: the same lengths come out, alone or multiplied, but not in the order in which they went in.

`(n, time, features)` viewed as `(n, heads, time, features // heads)` has all the right lengths, and in each place
numbers that belong elsewhere: a reshape only cuts anew, and to change the order of axes they must be turned.
"""

from dataclasses import dataclass
from itertools import combinations, pairwise
from math import prod

from torch import Tensor

Groups = list[list[int]]


@dataclass(frozen=True)
class Turn:
    """What a reshape from `before` to `after` should have been: `x.reshape(cut).permute(order).reshape(after)`."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    cut: tuple[int, ...]
    order: tuple[int, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Return a tensor of shape `before` with its axes turned, in shape `after`."""
        return x.reshape(self.cut).permute(self.order).reshape(self.after)

    def __str__(self) -> str:
        """Return the code; -1 stands for the number of samples, where these stay in front."""
        kept = self.order[0] == 0 and self.after[0] == self.before[0]
        cut, after = (("-1", *shape[1:]) if kept else shape for shape in (self.cut, self.after))
        first = "" if self.cut == self.before else f".reshape({_listed(cut)})"
        joined = tuple(self.cut[place] for place in self.order) != self.after
        return f"x{first}.permute({_listed(self.order)})" + (f".reshape({_listed(after)})" if joined else "")


def _listed(numbers: tuple) -> str:
    return ", ".join(map(str, numbers))


def turn_of(before: tuple[int, ...], after: tuple[int, ...]) -> Turn | None:
    """Return the turn that a reshape seems to mean, None if it only cuts or joins axes that lie beside each other."""
    if len(before) > 6 or len(after) > 6 or prod(before) == 0:
        return None
    if _in_order(before, after):
        return None
    parts = _grouped(before, list(range(len(after))), after)  # each axis before is cut into some of those after
    if parts is not None:
        flat = [place for group in parts for place in group]
        return Turn(before, after, tuple(after[place] for place in flat), tuple(map(flat.index, range(len(flat)))))
    parts = _grouped(after, list(range(len(before))), before)  # each axis after is joined of some of those before
    return None if parts is None else Turn(before, after, before, tuple(place for group in parts for place in group))


def _in_order(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Say whether one shape is the other with axes cut, or joined, where they are."""
    ends = [{prod(shape[:place]) for place in range(len(shape) + 1)} for shape in (before, after)]
    shared = sorted(ends[0] & ends[1])
    return all(
        sum(begin < end < stop for end in ends[0]) == 0 or sum(begin < end < stop for end in ends[1]) == 0
        for begin, stop in pairwise(shared)
    )


def _grouped(lengths: tuple[int, ...], places: list[int], of: tuple[int, ...]) -> Groups | None:
    """Give each length some of the places, in their order, whose lengths multiply to it; None if that cannot be."""
    if not lengths:
        return [] if not places else None
    for chosen in _subsets(places):
        if prod(of[place] for place in chosen) == lengths[0]:
            rest = _grouped(lengths[1:], [place for place in places if place not in chosen], of)
            if rest is not None:
                return [chosen, *rest]
    return None


def _subsets(places: list[int]) -> Groups:
    """Return all choices of places, the smaller ones first; none of them is empty."""
    return [list(chosen) for count in range(1, len(places) + 1) for chosen in combinations(places, count)]
