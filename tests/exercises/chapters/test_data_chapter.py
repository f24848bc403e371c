"""What the checks of chapter 03 say of answers that are right in part, or of another kind."""

import torch
from data_answers import FolderWithoutBase, groups_by_python
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
