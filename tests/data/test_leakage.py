"""The same picture in two parts is found, exactly and by likeness; and nothing is found where nothing is."""

import pytest
import torch

from labkit.data import digits, shapes
from labkit.data.images import ImageSet
from labkit.data.leakage import duplicates
from labkit.errors import DataError


def joined(images: ImageSet, planted: torch.Tensor) -> ImageSet:
    """Return pictures with others of class 1 behind them."""
    labels = torch.cat([images.labels, torch.ones(len(planted), dtype=torch.int64)])
    return ImageSet(torch.cat([images.images, planted]), labels, images.classes, "planted")


def found(train: ImageSet, val: ImageSet, near: bool = True) -> list[tuple]:
    return [(row["val"], row["train"], row["how"]) for row in duplicates(train, val, near).rows]


def test_equal_pictures_are_found_with_the_first_of_their_doubles(noise_set) -> None:
    train, other = noise_set(20), noise_set(20, seed=1)
    train = joined(train, train.images[[4]])
    val = joined(other, train.images[[4, 7, 4]])
    table = duplicates(train, val)
    assert [(row["val"], row["train"], row["how"]) for row in table.rows] == [
        (20, 4, "equal"),
        (21, 7, "equal"),
        (22, 4, "equal"),
    ]
    assert table.rows[1]["class in val"] == "class 1" and table.rows[1]["class in train"] == "class 3"
    assert table.caption == "3 of 23 pictures (13.0%) lie in both parts: 3 equal, 0 brightness, 0 mirrored."


@pytest.mark.parametrize("source", [digits, shapes])
def test_changed_brightness_and_mirror_images_are_found_among_real_pictures(source) -> None:
    train, val = source().split(0.3, seed=1)
    assert found(train, val) == [], "no picture of these lies there twice"
    some = train.images[[3, 50, 200]]
    darker, mirrored = (some.float() * 0.7 + 9).to(torch.uint8), some.flip(3)
    both = (some.float() * 0.6).round().to(torch.uint8).flip(3)
    count = len(val)
    expected = [(count + place, index, "brightness") for place, index in enumerate((3, 50, 200))]
    assert found(train, joined(val, darker)) == expected
    for planted in (mirrored, both):
        assert found(train, joined(val, planted)) == [(*pair, "mirrored") for *pair, _ in expected]
    assert found(train, joined(val, torch.cat([darker, mirrored])), near=False) == []


def test_pictures_of_one_colour_are_equal_or_nothing() -> None:
    def plain(*values: int) -> ImageSet:
        images = torch.tensor(values, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 4, 4).contiguous()
        return ImageSet(images, torch.zeros(len(values), dtype=torch.int64), ("a",), "plain")

    assert found(plain(1, 2, 3), plain(3, 4)) == [(0, 2, "equal")]


def test_a_clean_split_is_said_to_be_so(noise_set) -> None:
    table = duplicates(noise_set(9), noise_set(8, seed=1))
    assert len(table) == 0 and str(table) == "0 of 8 pictures (0.0%) lie in both parts."


def test_pictures_of_another_size_are_refused(noise_set) -> None:
    with pytest.raises(DataError, match=r"\(3, 6, 5\) and \(3, 6, 6\) cannot be compared"):
        duplicates(noise_set(3), noise_set(3, (3, 6, 6)))
    with pytest.raises(DataError, match="two ImageSets, got Tensor"):
        duplicates(noise_set(3), noise_set(3).images)
