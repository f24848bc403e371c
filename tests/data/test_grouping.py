"""Splits by group: no group in two parts, near to the shares that were asked for, and decided by the seed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.data.grouping import class_balance, split_by_group
from labkit.data.images import ImageSet
from labkit.errors import DataError


def numbered(labels: list[int], class_count: int = 3) -> ImageSet:
    """Return pictures that carry their own number, so that they can be found again."""
    numbers = torch.arange(len(labels))
    images = torch.stack([numbers // 256, numbers % 256], dim=1).to(torch.uint8).view(-1, 1, 1, 2)
    return ImageSet(images, torch.tensor(labels), [f"class {label}" for label in range(class_count)], "numbered")


def numbers(part: ImageSet) -> list[int]:
    high, low = part.images.flatten(1).long().unbind(1)
    return (high * 256 + low).tolist()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(pairs=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=6, max_size=60), data=st.data())
def test_no_group_and_no_sample_is_in_two_parts(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    labels, groups = map(list, zip(*pairs, strict=True))
    if len(set(groups)) < 2:
        return
    fraction = data.draw(st.sampled_from([0.1, 0.3, 0.5, 0.9]))
    rest, held_out = (numbers(part) for part in split_by_group(numbered(labels), groups, fraction, seed=1))
    assert sorted(rest + held_out) == list(range(len(pairs))) and rest == sorted(rest) and held_out == sorted(held_out)
    assert rest and held_out and not {groups[place] for place in rest} & {groups[place] for place in held_out}


def many() -> tuple[ImageSet, list[str]]:
    """Return 1,200 samples of 60 patients, 5 to 40 each, most of them with one class more than the others."""
    draws = torch.Generator().manual_seed(0)
    labels, groups = [], []
    while len(labels) < 1200:
        size = int(torch.randint(5, 41, (), generator=draws))
        favourite = torch.ones(3) + 8 * torch.nn.functional.one_hot(torch.randint(3, (), generator=draws), 3)
        labels += torch.multinomial(favourite, size, True, generator=draws).tolist()
        groups += [f"patient {len(groups)}"] * size
    return numbered(labels), groups


def test_size_and_class_shares_come_near_to_what_was_asked() -> None:
    data, groups = many()
    for fraction in (0.1, 0.2, 0.5):
        _, held_out = split_by_group(data, groups, fraction)
        assert len(held_out) / len(data) == pytest.approx(fraction, abs=0.01)
        assert (held_out.counts() / data.counts()).tolist() == pytest.approx([fraction] * 3, abs=0.02)


def test_the_seed_decides_and_nothing_else() -> None:
    data, groups = many()
    first = numbers(split_by_group(data, groups, 0.2, seed=1)[1])
    torch.rand(5)
    assert numbers(split_by_group(data, groups, 0.2, seed=1)[1]) == first
    assert numbers(split_by_group(data, groups, 0.2, seed=2)[1]) != first
    as_numbers = torch.tensor([int(group.split()[1]) for group in groups])
    assert numbers(split_by_group(data, as_numbers, 0.2, seed=1)[1]) == first


def test_a_share_smaller_than_every_group_takes_the_smallest() -> None:
    rest, held_out = split_by_group(numbered([0, 1, 2] * 4), ["a"] * 7 + ["b"] * 5, 0.05)
    assert (len(rest), len(held_out)) == (7, 5)


@pytest.mark.parametrize(
    ("groups", "fraction", "sentence"),
    [
        (["a"] * 6, 0.2, "All samples belong to one group"),
        (["a", "b"], 0.2, "groups has 2 entries for 6 samples"),
        (None, 0.2, "groups must be one name or number for each sample, got None"),
        ([["a"]] * 6, 0.2, "several in one"),
        (["a", "b"] * 3, 1.0, "fraction must lie between 0 and 1, got 1.0"),
        (["a", "b"] * 3, True, "fraction must lie between 0 and 1, got True"),
    ],
)
def test_a_split_that_cannot_be_is_refused(groups: list, fraction: float, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        split_by_group(numbered([0, 1, 2] * 2), groups, fraction)


def test_class_balance_counts_every_part() -> None:
    table = class_balance(train=numbered([0] * 6 + [1] * 3 + [2]), val=numbered([0, 1]))
    assert table.columns == ["class", "train", "share of train", "val", "share of val"]
    assert [row["train"] for row in table.rows] == [6, 3, 1] and [row["val"] for row in table.rows] == [1, 1, 0]
    assert [row["share of train"] for row in table.rows] == [0.6, 0.3, 0.1]
    assert table.caption == (
        "train: 6 in class 0, 6.0 times as many as class 2; val: 1 in class 0, while nothing is in class 2."
    )
    assert class_balance(train=numbered([0, 1, 2, 2, 1, 0])).caption == "train: 2 in each class."
    with pytest.raises(DataError, match="The part val has other classes"):
        class_balance(train=numbered([0]), val=numbered([0], 4))
    with pytest.raises(DataError, match="at least one part by name"):
        class_balance()


@pytest.mark.parametrize("data", [None, [1, 2], torch.zeros(3)])
def test_what_has_no_labels_is_refused(data: object) -> None:
    with pytest.raises(DataError, match="class_balance, val: give an ImageSet.*got "):
        class_balance(train=numbered([0, 1]), val=data)
    with pytest.raises(DataError, match="split_by_group: give an ImageSet"):
        split_by_group(data, [0, 1], 0.5)
