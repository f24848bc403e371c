"""Train, val and test: disjoint, complete, stratified, and a test part that no seed can change."""

from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from labkit.data import splits
from labkit.data.images import ImageSet
from labkit.data.splits import Splits, load
from labkit.errors import DataError


def numbered(counts: list[int], start: int = 0) -> ImageSet:
    """Return pictures that carry their own number, so that they can be found again."""
    numbers = torch.arange(start, start + sum(counts))
    images = torch.stack([numbers // 256, numbers % 256], dim=1).to(torch.uint8).view(-1, 1, 1, 2)
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return ImageSet(images, labels, tuple(f"class {label}" for label in range(len(counts))), "numbered")


def numbers(part: ImageSet) -> list[int]:
    high, low = part.images.flatten(1).long().unbind(1)
    return (high * 256 + low).tolist()


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes parts loadable under the name "offered"."""
    return lambda parts: monkeypatch.setitem(splits.NAMES, "offered", lambda: dict(parts))


def all_numbers(parts: Splits) -> list[int]:
    return sorted(numbers(parts.train) + numbers(parts.val) + numbers(parts.test))


def test_without_a_test_part_a_fifth_is_test_and_a_tenth_of_the_rest_is_val(offer) -> None:
    offer({"all": numbered([100, 50])})
    parts = load("offered")
    assert [len(parts.train), len(parts.val), len(parts.test)] == [108, 12, 30]
    assert parts.test.counts().tolist() == [20, 10] and parts.val.counts().tolist() == [8, 4]
    assert all_numbers(parts) == list(range(150))


def test_a_handful_of_pictures_is_enough(offer) -> None:
    offer({"all": numbered([4, 4])})
    parts = load("offered")
    assert [part.counts().tolist() for part in (parts.train, parts.val, parts.test)] == [[2, 2], [1, 1], [1, 1]]


def test_too_few_pictures_are_refused(offer) -> None:
    offer({"all": numbered([1, 1])})
    with pytest.raises(DataError, match="leaves nothing to hold out"):
        load("offered")


def test_the_seed_changes_val_and_never_test(offer) -> None:
    offer({"all": numbered([60, 60])})
    first, second = load("offered", seed=1), load("offered", seed=2)
    assert numbers(first.test) == numbers(second.test)
    assert numbers(first.val) != numbers(second.val)
    assert numbers(first.val) == numbers(load("offered", seed=1).val)


def test_given_parts_are_kept(offer) -> None:
    given = {"train": numbered([30, 30]), "val": numbered([5, 5], 100), "test": numbered([7, 7], 200)}
    offer(given)
    parts = load("offered", seed=5)
    assert parts == Splits(**given), "given parts should be passed on as they are"


def test_a_given_test_part_is_kept_and_val_comes_from_train(offer) -> None:
    offer({"train": numbered([50, 50]), "test": numbered([7, 7], 200)})
    parts = load("offered")
    assert numbers(parts.test) == list(range(200, 214))
    assert sorted(numbers(parts.train) + numbers(parts.val)) == list(range(100)) and len(parts.val) == 10


def test_train_and_val_without_test(offer) -> None:
    offer({"train": numbered([50, 50]), "val": numbered([7, 7], 200)})
    parts = load("offered")
    assert [len(parts.train), len(parts.val), len(parts.test)] == [80, 14, 20]


def test_parts_without_train_are_refused(offer) -> None:
    offer({"val": numbered([5, 5]), "test": numbered([5, 5])})
    with pytest.raises(DataError, match="a folder for val and test, but none called train"):
        load("offered")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    counts=st.lists(st.integers(20, 200), min_size=2, max_size=6),
    share=st.floats(0.05, 1.2),
    seed=st.integers(0, 5),
)
def test_a_limit_keeps_a_share_of_every_class_in_every_part(counts: list[int], share: float, seed: int) -> None:
    whole = {"train": numbered(counts), "test": numbered([count // 5 for count in counts], 2000)}
    limit = max(2 * len(counts), round(share * sum(counts)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(splits.NAMES, "offered", lambda: dict(whole))
        parts = load("offered", seed=seed, limit=limit)
        other = load("offered", seed=seed + 1, limit=limit)
    kept = sorted(numbers(parts.train) + numbers(parts.val))
    assert kept == sorted(numbers(other.train) + numbers(other.val)) and len(set(kept)) == len(kept)
    assert numbers(parts.test) == numbers(other.test)
    wanted = min(limit, sum(counts))
    assert wanted <= len(kept) <= wanted + len(counts)
    per_class = parts.train.counts() + parts.val.counts()
    expected = torch.tensor(counts) * (wanted / sum(counts))
    assert (per_class - expected).abs().max() <= 1.5 and per_class.min() >= 1
    assert parts.test.counts().min() >= 1
    assert abs(len(parts.test) - len(whole["test"]) * wanted / sum(counts)) <= len(counts)


def test_a_generous_limit_changes_nothing(offer) -> None:
    offer({"all": numbered([60, 60])})
    assert all_numbers(load("offered", limit=10_000)) == list(range(120))


@pytest.mark.parametrize("limit", [0, -5, 3, 2.5, True, "many"])
def test_impossible_limits_are_refused(offer, limit) -> None:
    offer({"all": numbered([60, 60])})
    with pytest.raises(DataError, match="limit must be a whole number of at least 4"):
        load("offered", limit=limit)


def test_digits() -> None:
    parts = load("digits")
    assert [len(parts.train), len(parts.val), len(parts.test)] == [1295, 143, 359]
    assert parts.train.classes == parts.test.classes == tuple("0123456789")
    limited = load("digits", limit=500)
    assert len(limited.train) + len(limited.val) == 500 and len(limited.test) == 125


def test_shapes() -> None:
    parts = load("shapes")
    assert [len(parts.train), len(parts.val), len(parts.test)] == [1440, 160, 400]
    assert parts.test.counts().tolist() == [40] * 10


def test_your_own_pictures_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for label in ("cat", "dog"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        for number in range(20):
            pixels = numpy.full((4, 4, 3), number * 10, numpy.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / label / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    for path in ("pets", "./pets", tmp_path / "pets", str(tmp_path / "pets")):
        parts = load(path)
        assert [len(parts.train), len(parts.val), len(parts.test)] == [28, 4, 8]
    assert parts.train.classes == ("cat", "dog")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cifar-10", "Did you mean 'cifar10'?"),
        ("Digits", "Did you mean 'digits'?"),
        ("fashion-mnist", "Did you mean 'fashion_mnist'?"),
        ("zebras", "Names are digits, shapes, cifar10, mnist, fashion_mnist; the path of a folder or .tar"),
        ("", "have no name"),
        (" ", "have no name"),
        ("x" * 5000, "There are no data called 'xxx"),
        ("x/" * 5000, "There is no file or folder x/x"),
        ("~no-such-user/pictures", "There is no file or folder ~no-such-user/pictures"),
        ("a\0b", "There are no data called"),
        ("no/such/folder", "There is no file or folder"),
        (Path("zebras"), "There is no file or folder zebras"),
    ],
)
def test_unknown_names(name, message: str) -> None:
    with pytest.raises(DataError) as caught:
        load(name)
    assert message in str(caught.value)


def test_parts_do_not_keep_the_whole_alive(offer) -> None:
    offer({"all": numbered([500, 500])})
    parts = load("offered", limit=200)
    held = sum(part.images.untyped_storage().nbytes() for part in (parts.train, parts.val, parts.test))
    assert held == sum(len(part) * 2 for part in (parts.train, parts.val, parts.test))


def test_official_parts_come_from_their_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names lead to the right sources; that these download what they should is tested with them."""
    asked = []

    def answer(name: str, part: str) -> ImageSet:
        asked.append((name, part))
        return numbered([20, 20], 100 if part == "test" else 0)

    monkeypatch.setattr(splits.sources, "_load", answer)
    for name in ("cifar10", "mnist", "fashion_mnist"):
        assert numbers(load(name).test) == list(range(100, 140))
    assert asked == [(name, part) for name in ("cifar10", "mnist", "fashion_mnist") for part in ("train", "test")]
