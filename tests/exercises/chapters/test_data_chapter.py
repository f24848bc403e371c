"""What the checks of chapter 03 say of answers that are right in part, or of another kind."""

import random

import numpy as np
import pytest
import torch
from data_answers import FolderByDecodeImage, FolderWithoutBase, groups_by_python
from PIL import Image
from torch.utils.data import WeightedRandomSampler

from labkit import exercises

LAB = exercises.load("03_data")


def test_a_function_where_a_dataset_is_asked_for_is_named():
    result = LAB.PictureFolder.judge(lambda folder: [])
    assert result.outcome == "wrong" and "class derived from Dataset" in result.plain


def test_a_dataset_without_samples_yet_is_not_attempted():
    class HalfWritten(FolderWithoutBase):
        def __getitem__(self, index):
            return ...

    assert LAB.PictureFolder.judge(HalfWritten).outcome == "not attempted"


def test_files_in_another_order_are_wrong():
    class Backwards(FolderWithoutBase):
        def __init__(self, folder):
            super().__init__(folder)
            self.files.reverse()

    result = LAB.PictureFolder.judge(Backwards)
    assert result.outcome == "wrong" and "order dogs/1.png, cats/2.png" in result.plain


def test_a_batch_of_another_shape_is_told_with_the_shape_that_is_asked_for():
    result = LAB.flip_batch.judge(lambda images, generator: images[0])
    assert result.outcome == "wrong" and "(200, 3, 2, 4)" in result.plain


def test_flipping_each_picture_up_and_down_too_is_wrong():
    def both_ways(images, generator):
        turned = torch.rand(len(images), generator=generator) < 0.5
        return torch.where(turned[:, None, None, None], images.flip(2, 3), images)

    result = LAB.flip_batch.judge(both_ways)
    assert result.outcome == "wrong" and "each picture is mirrored or as it was" in result.plain


def test_what_is_no_number_is_no_draw():
    result = LAB.draw_for.judge(lambda seed, epoch, index: None)
    assert result.outcome == "wrong" and "number from 0 up to 1" in result.plain


def test_more_groups_than_asked_for_are_told():
    result = LAB.split_groups.judge(lambda groups, share, seed: groups_by_python(groups, 2 * share, seed))
    assert result.outcome == "wrong" and "groups in validation" in result.plain


def test_masks_are_told_how_to_become_indices():
    def masks(groups, share, seed):
        held_out = torch.isin(groups, groups.unique()[:5])
        return ~held_out, held_out

    result = LAB.split_groups.judge(masks)
    assert result.outcome == "wrong" and "torch.nonzero" in result.plain


def test_a_sampler_is_not_its_weights():
    result = LAB.balancing_weights.judge(lambda labels: WeightedRandomSampler([1.0, 2.0], len(labels)))
    assert result.outcome == "wrong" and "one number for each sample" in result.plain


def test_a_single_side_is_no_split():
    result = LAB.split_groups.judge(lambda groups, share, seed: groups_by_python(groups, share, seed)[0])
    assert result.outcome == "wrong" and "(train, validation)" in result.plain


def test_places_alone_are_no_pairs():
    result = LAB.shared_pictures.judge(lambda first, second: [0, 1])
    assert result.outcome == "wrong" and "list of pairs" in result.plain


class OpensInInit(FolderByDecodeImage):
    def __init__(self, folder):
        super().__init__(folder)
        self.opened = [Image.open(path) for path, _ in self.samples]

    def __getitem__(self, index):
        pixels = np.array(self.opened[index].convert("RGB"))
        return torch.from_numpy(pixels).permute(2, 0, 1), self.samples[index][1]


def test_files_opened_in_init_are_told_though_their_pixels_are_read_later():
    assert LAB.PictureFolder.judge(OpensInInit).misconception == "all pictures in memory"


@pytest.mark.parametrize("length", [None, 2.0, "4"])
def test_a_length_that_is_no_number_is_a_sentence(length):
    kind = type("Odd", (FolderWithoutBase,), {"__len__": lambda self: length})
    result = LAB.PictureFolder.judge(kind)
    assert result.outcome == "wrong" and "`__len__` must return how many samples" in result.plain


def test_a_class_without_a_length_is_a_sentence():
    result = LAB.PictureFolder.judge(type("NoLength", (), {"__init__": lambda self, folder: None}))
    assert result.outcome == "wrong" and "`__len__` must return how many samples" in result.plain


@pytest.mark.parametrize(("sample", "told"), [((), "length: expected `2`, got `0`"), (None, "got `None`")])
def test_a_sample_that_is_no_pair_is_told(sample, told):
    kind = type("Odd", (FolderWithoutBase,), {"__getitem__": lambda self, index: sample})
    result = LAB.PictureFolder.judge(kind)
    assert result.outcome == "wrong" and told in result.plain


@pytest.mark.parametrize("batch", [None, torch.ones(3)])
def test_batches_that_are_no_pairs_are_told(batch):
    result = LAB.batches.judge(lambda inputs, targets, order, batch_size: [batch] * 3)
    assert result.outcome == "wrong" and "[0], kind: expected `a list or tuple`" in result.plain


def mirrored_where(fates):
    """Return an answer that mirrors the pictures for which fates(count, generator) is true."""

    def flip_batch(images, generator):
        return torch.where(fates(len(images), generator)[:, None, None, None], images.flip(3), images)

    return flip_batch


@pytest.mark.parametrize(
    "fates",
    [
        lambda count, generator: torch.rand(count // 2, generator=generator).repeat(2) < 0.5,
        lambda count, generator: torch.rand(count // 2, generator=generator).repeat_interleave(2) < 0.5,
        lambda count, generator: (torch.arange(count) + torch.randint(2, (1,), generator=generator)) % 2 == 0,
    ],
)
def test_pictures_that_share_their_fate_with_others_are_told(fates):
    result = LAB.flip_batch.judge(mirrored_where(fates))
    assert result.outcome == "wrong" and result.misconception is None
    assert "tells nothing about another one" in result.plain or "same number" in result.plain


@pytest.mark.parametrize(("of_seed", "of_epoch"), [(10_007, 101), (5_000_000_000, 50_000), (7, 10**12), (10**12, 997)])
def test_factors_that_a_data_set_can_outgrow_are_told(of_seed, of_epoch):
    def draw_for(seed, epoch, index):
        return random.Random(seed * of_seed + epoch * of_epoch + index).random()

    assert LAB.draw_for.judge(draw_for).misconception == "a factor that is too small"


def test_an_array_is_no_number():
    result = LAB.draw_for.judge(lambda seed, epoch, index: np.random.default_rng([seed, epoch, index]).random(2))
    assert result.outcome == "wrong" and "number from 0 up to 1" in result.plain


def test_weights_below_zero_do_not_balance():
    assert LAB.balancing_weights.judge(lambda labels: -1 / torch.bincount(labels)[labels]).outcome == "wrong"


@pytest.mark.parametrize("kind", [float, str])
def test_indices_are_whole_numbers(kind):
    def in_words(groups, share, seed):
        return [[kind(index) for index in side] for side in groups_by_python(groups, share, seed)]

    result = LAB.split_groups.judge(in_words)
    assert result.outcome == "wrong" and "Indices are whole numbers" in result.plain


def compared_as_bytes(first, second):
    ours, theirs = ([picture.numpy().tobytes() for picture in pictures] for pictures in (first, second))
    return [(i, j) for i, one in enumerate(ours) for j, other in enumerate(theirs) if one == other]


def compared_as_arrays(first, second):
    ours, theirs = first.numpy(), second.numpy()
    pairs = [(i, j) for i in range(len(ours)) for j in range(len(theirs))]
    return [(i, j) for i, j in pairs if np.array_equal(ours[i], theirs[j])]


def compared_at_once(first, second):
    return (first.flatten(1)[:, None] == second.flatten(1)).all(2).nonzero()


@pytest.mark.parametrize("answer", [compared_as_bytes, compared_as_arrays, compared_at_once])
def test_comparing_each_with_each_is_noticed_whatever_compares(answer):
    assert LAB.shared_pictures.judge(answer).misconception == "each compared with each"
