"""ImageSet: refuses what does not fit, splits fairly, knows its statistics, and recognises equal data."""

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from hashlib import sha256

import numpy
import pytest
import torch

from labkit.data.images import ImageSet
from labkit.errors import DataError

Make = Callable[..., ImageSet]

IMAGES = torch.zeros(3, 1, 4, 5, dtype=torch.uint8)
LABELS = torch.tensor([0, 1, 1])


def row_of_numbers(counts: list[int]) -> ImageSet:
    """Make pictures that each hold their own number, in classes of the given sizes, the classes well mixed."""
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    numbers = torch.arange(len(labels))
    images = torch.stack([numbers // 256, numbers % 256], dim=1)[:, :, None, None].to(torch.uint8)
    return ImageSet(images, labels, [f"class {k}" for k in range(len(counts))], "numbers")


def numbers_of(image_set: ImageSet) -> list[int]:
    return (image_set.images[:, 0, 0, 0].long() * 256 + image_set.images[:, 1, 0, 0]).tolist()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("images", "labels", "sentence"),
    [
        (IMAGES.numpy(), LABELS, "images must be a tensor, got ndarray. Use torch.from_numpy"),
        (IMAGES, LABELS.numpy(), "labels must be a tensor, got ndarray"),
        (IMAGES, [0, 1, 1], "labels must be a tensor, got list"),
        (IMAGES.float(), LABELS, r"images must be uint8 of shape \(N, C, H, W\).*got torch.float32"),
        (IMAGES[:, 0], LABELS, r"images must be uint8 of shape \(N, C, H, W\).*shape \(3, 4, 5\)"),
        (IMAGES, LABELS.int(), r"labels must be int64 of shape \(3,\).*got torch.int32.*labels.long\(\)"),
        (IMAGES, LABELS[:2], r"labels must be int64 of shape \(3,\).*shape \(2,\)"),
        (IMAGES, LABELS[:, None], r"labels must be int64 of shape \(3,\).*shape \(3, 1\)"),
        (IMAGES[:0], LABELS[:0], "holds no pictures"),
        (IMAGES[:, :0], LABELS, "holds no pictures"),
        (IMAGES[..., :0], LABELS, "holds no pictures"),
        (IMAGES, torch.tensor([0, 1, 2]), "labels run from 0 to 2, but 2 classes are numbered 0 to 1"),
        (IMAGES, torch.tensor([1, 2, 1]), "labels run from 1 to 2.*Renumber the labels from 0"),
        (IMAGES, torch.tensor([-1, 0, 1]), "labels run from -1 to 1"),
        (IMAGES.to("meta"), LABELS, r"images must be on the CPU, got meta. Use images.cpu\(\)"),
        (IMAGES, LABELS.to("meta"), r"labels must be on the CPU, got meta. Use labels.cpu\(\)"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(images: object, labels: object, sentence: str) -> None:
    with pytest.raises(DataError, match=f"^my pictures:? .*{sentence}"):
        ImageSet(images, labels, ("a", "b"), "my pictures")


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (("a", "a"), "one name for each class, all different"),
        (([], []), "one name for each class, all different"),
        (None, "classes must be a tuple of texts, got None"),
        (2, "classes must be a tuple of texts, got 2"),
        ("ab", "classes must be a tuple of texts, got 'ab'"),
    ],
)
def test_classes_without_names_of_their_own_are_refused(classes: object, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        ImageSet(IMAGES, LABELS, classes, "my pictures")


def test_a_note_alone_is_refused() -> None:
    with pytest.raises(DataError, match="notes must be a tuple of texts, got 'odd'"):
        ImageSet(IMAGES, LABELS, ("a", "b"), "my pictures", "odd")


@pytest.mark.parametrize("indices", [[3], [-4], 1, [0.5], [[0, 1]], [True], None, "a"])
def test_indices_that_choose_nothing_are_refused(indices: object) -> None:
    with pytest.raises(DataError, match=r"^my pictures: .*indices"):
        ImageSet(IMAGES, LABELS, ("a", "b"), "my pictures").select(indices)


@pytest.mark.parametrize("index", [slice(2), "a", 1.0, None])
def test_a_picture_is_asked_for_by_a_whole_number(index: object) -> None:
    with pytest.raises(DataError, match="asked for by its number"):
        ImageSet(IMAGES, LABELS, ("a", "b"), "my pictures")[index]


def test_lists_and_masks_choose_pictures() -> None:
    data = ImageSet(IMAGES, LABELS, ("a", "b"), "my pictures")
    assert data.select([2, -3]).images.equal(IMAGES[[2, 0]])
    assert data.select([True, False, True]).labels.equal(LABELS[[0, 2]])
    assert len(list(data)) == 3  # iterating ends with an IndexError, as Python wants it


def test_nothing_can_be_assigned(noise_set: Make) -> None:
    with pytest.raises(FrozenInstanceError):
        noise_set().labels = LABELS


# --- what it is -------------------------------------------------------------------------------------------------------


def test_it_is_a_map_style_data_set(noise_set: Make) -> None:
    data = noise_set(5, (3, 6, 4), class_count=2)
    pairs = list(data)  # Python stops at the first IndexError
    assert len(data) == len(pairs) == 5 and data.image_shape == (3, 6, 4)
    assert all(torch.equal(image, data.images[index]) for index, (image, _) in enumerate(pairs))
    assert [label for _, label in pairs] == [0, 1, 0, 1, 0] and type(pairs[0][1]) is int
    assert repr(data) == "ImageSet(noise: 5 pictures 3×6×4, 2 classes)"


def test_classes_and_notes_become_tuples() -> None:
    data = ImageSet(IMAGES, LABELS, ["a", "b"], "test", ["one picture was left out"])
    assert data.classes == ("a", "b") and data.notes == ("one picture was left out",)


def test_counts_name_absent_classes_too() -> None:
    assert ImageSet(IMAGES, LABELS, ("a", "b", "never"), "test").counts().tolist() == [1, 2, 0]


@pytest.mark.parametrize("indices", [torch.tensor([4, 0, 4]), torch.tensor([True, False, True, False, True])])
def test_select_keeps_order_classes_and_source(indices: torch.Tensor, noise_set: Make) -> None:
    data = noise_set(5)
    chosen = data.select(indices)
    assert torch.equal(chosen.images, data.images[indices]) and torch.equal(chosen.labels, data.labels[indices])
    assert (chosen.classes, chosen.source, len(data)) == (data.classes, data.source, 5)
    chosen.images.zero_()
    assert data.images.any(), "the selection has a memory of its own"


# --- split ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5, 0.9])
def test_a_split_is_stratified_complete_disjoint_and_in_order(fraction: float) -> None:
    counts = [200, 57, 10, 3]
    data = row_of_numbers(counts)
    rest, held_out = data.split(fraction)
    shares = held_out.counts().tolist()
    assert all(abs(share - count * fraction) <= 0.5 for share, count in zip(shares[:3], counts[:3], strict=True))
    assert 1 <= rest.counts()[3] <= 3, "a class never leaves the rest"
    assert sorted(numbers_of(rest) + numbers_of(held_out)) == list(range(270))
    for part in (rest, held_out):
        assert numbers_of(part) == sorted(numbers_of(part))
        assert torch.equal(part.labels, data.labels[numbers_of(part)])


def test_a_split_depends_on_its_seed_alone() -> None:
    data = row_of_numbers([40, 40])
    held_out = [numbers_of(data.split(0.25, seed)[1]) for seed in (0, 0, 1)]
    assert held_out[0] == held_out[1] != held_out[2]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    assert numbers_of(data.split(0.25)[1]) == held_out[0]
    assert torch.equal(torch.get_rng_state(), before)


def test_every_picture_is_held_out_equally_often() -> None:
    data = row_of_numbers([10, 20])
    times = torch.zeros(30)
    for seed in range(800):
        times[numbers_of(data.split(0.5, seed)[1])] += 1
    assert (times - 400).abs().max() < 5 * 200**0.5


def test_the_classes_of_a_split_are_drawn_apart_from_each_other() -> None:
    """With one draw for all classes, the same places would be taken in each."""
    data = ImageSet(torch.zeros(80, 1, 1, 1, dtype=torch.uint8), torch.arange(80) % 2, ("a", "b"), "test")
    data.images[:, 0, 0, 0] = torch.arange(80) // 2
    _, held_out = data.split(0.5)
    places = [set(held_out.images[held_out.labels == label].flatten().tolist()) for label in (0, 1)]
    assert places[0] != places[1]


@pytest.mark.parametrize("fraction", [0, 1, -0.2, 1.5, float("nan"), None, "half", True])
def test_an_impossible_share_is_refused(fraction: float, noise_set: Make) -> None:
    with pytest.raises(DataError, match="fraction must lie between 0 and 1, got"):
        noise_set().split(fraction)


def test_a_split_with_nothing_to_hold_out_is_refused() -> None:
    for counts in ([1, 1], [4, 4]):
        with pytest.raises(DataError, match=r"10% of \d pictures in 2 classes leaves nothing to hold out"):
            row_of_numbers(counts).split(0.1)


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 6, 5)])
def test_statistics_equal_those_of_torch_in_float64(shape: tuple[int, int, int], noise_set: Make) -> None:
    data = noise_set(5000, shape)  # more than one chunk of 4096
    data.images[:, 0] //= 3  # channels that differ
    pixels = data.images.double() / 255
    mean, deviation = data.statistics()
    assert mean.dtype == deviation.dtype == torch.float32 and mean.shape == deviation.shape == shape[:1]
    torch.testing.assert_close(mean, pixels.mean(dim=(0, 2, 3)).float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(deviation, pixels.std(dim=(0, 2, 3), unbiased=False).float(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("value", [0, 7, 255])
def test_a_channel_that_never_changes_can_be_divided_by_its_deviation(value: int, noise_set: Make) -> None:
    data = noise_set(10)
    data.images[:, 1] = value
    mean, deviation = data.statistics()
    assert deviation[1] == 1 and deviation[0] != 1 and deviation[2] != 1
    assert mean[1].item() == pytest.approx(value / 255)


# --- fingerprint ------------------------------------------------------------------------------------------------------


def test_equal_data_have_equal_fingerprints_whatever_their_layout(noise_set: Make) -> None:
    data = noise_set(7)
    strided_labels = torch.stack([data.labels, data.labels], dim=1)[:, 0]
    strided = ImageSet(data.images.contiguous(memory_format=torch.channels_last), strided_labels, data.classes, "other")
    assert not strided.images.is_contiguous() and not strided.labels.is_contiguous()
    assert data.fingerprint() == strided.fingerprint() == noise_set(7).fingerprint()
    assert pickle.loads(pickle.dumps(data)).fingerprint() == data.fingerprint()


def test_any_change_changes_the_fingerprint(noise_set: Make) -> None:
    data = noise_set(4, (1, 4, 6))
    images, labels, classes = data.images, data.labels, data.classes
    pixel, label = images.clone(), labels.clone()
    pixel[3, 0, 3, 5] ^= 1
    label[3] = 0
    others = [
        ImageSet(pixel, labels, classes, "noise"),
        ImageSet(images, label, classes, "noise"),
        ImageSet(images, labels, (*classes[:3], "Class 3"), "noise"),
        ImageSet(images, labels, (*classes, "one more"), "noise"),
        ImageSet(images.view(4, 1, 6, 4), labels, classes, "noise"),
        data.select(torch.tensor([1, 0, 2, 3])),
        data.select(torch.arange(3)),
    ]
    fingerprints = {data.fingerprint(), *(other.fingerprint() for other in others)}
    assert len(fingerprints) == 1 + len(others)


def test_a_fingerprint_stays_what_it_was() -> None:
    """Checkpoints hold it: if it changed, no earlier run could be resumed."""
    data = ImageSet(torch.arange(24, dtype=torch.uint8).view(2, 3, 2, 2), torch.tensor([1, 0]), ("a", "ü"), "test")
    expected = numpy.array([1, 0], dtype="<i8").tobytes() + bytes(range(24))
    assert data.fingerprint() == sha256(repr(((2, 3, 2, 2), ("a", "ü"))).encode("utf-8") + expected).hexdigest()
