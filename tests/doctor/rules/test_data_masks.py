"""Masks of other pictures, and masks that were not turned with theirs, are found; the others are left alone."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labkit.doctor.evidence import Evidence
from labkit.doctor.examine import examine
from labkit.doctor.finding import Finding
from labkit.doctor.probe.data import DataEvidence
from labkit.doctor.probe.data_masks import look_at_masks, smaller
from labkit.doctor.probe.data_reading import Samples
from labkit.doctor.rules.data_masks import RULES

COUNT = 80


def scenes() -> tuple[Tensor, Tensor]:
    """Return pictures (n, 2, 8, 8) whose second channel is brighter where a rectangle lies, and its mask (n, 8, 8)."""
    draw = torch.Generator().manual_seed(0)
    masks = torch.zeros(COUNT, 8, 8, dtype=torch.long)
    for mask in masks:
        row, column = torch.randint(0, 5, (2,), generator=draw).tolist()
        mask[row : row + 2, column : column + 4] = 1
    pictures = 0.3 * torch.randn(COUNT, 2, 8, 8, generator=draw)
    pictures[:, 1] += masks
    return pictures, masks


def said(pictures: Tensor, masks: Tensor) -> dict[str, Finding]:
    evidence = Evidence(DataEvidence(masks={"train": look_at_masks(Samples(pictures, masks))}), None, None, None, None)
    return {finding.fault: finding for rule in RULES if (finding := rule(evidence)) is not None}


def test_masks_on_their_pictures_are_left_alone() -> None:
    pictures, masks = scenes()
    seen = look_at_masks(Samples(pictures, masks))
    assert seen.samples == COUNT and seen.own > 0.3
    assert abs(seen.best - seen.own) < 1e-6 and seen.turned == 0.0
    assert said(pictures, masks) == {}
    assert said(-pictures, masks) == {}
    assert said(pictures.flip(-1), masks.flip(-1)) == {}
    assert said(torch.randn(pictures.shape, generator=torch.Generator().manual_seed(1)), masks) == {}


def test_masks_in_another_order() -> None:
    pictures, masks = scenes()
    (finding,) = said(pictures, masks.roll(5, 0)).values()
    assert finding.fault == "label_misaligned"
    assert f"Of {COUNT} train masks none fits its own picture" in finding.what


def test_masks_not_mirrored_with_half_of_the_pictures() -> None:
    pictures, masks = scenes()
    pictures[::2] = pictures[::2].flip(-1)
    (finding,) = said(pictures, masks).values()
    assert finding.fault == "augmentation_misuse" and "mirrored left to right" in finding.what


def test_masks_whose_axes_are_exchanged_or_that_lie_upside_down() -> None:
    pictures, masks = scenes()
    (finding,) = said(pictures, masks.transpose(1, 2)).values()
    assert finding.fault == "axis_mixup"
    (finding,) = said(pictures, masks.flip(1)).values()
    assert finding.fault == "label_misaligned" and "top to bottom" in finding.what


def test_what_is_no_mask_is_not_looked_at() -> None:
    pictures, masks = scenes()
    assert look_at_masks(Samples(pictures, masks[:, 0, 0])) is None
    assert look_at_masks(Samples(pictures, pictures[:, :1])) is None
    assert look_at_masks(Samples(pictures[:, 0, 0], masks)) is None
    assert look_at_masks(Samples(pictures[:20], masks[:20])) is None
    assert smaller(torch.ones(1, 96, 50)).shape == (1, 24, 12)


def test_a_trial_with_other_pairs_confirms_it() -> None:
    pictures, masks = scenes()
    torch.manual_seed(0)
    model = nn.Conv2d(2, 2, 3, padding=1)
    report = examine(
        model,
        nn.CrossEntropyLoss(),
        torch.optim.Adam(model.parameters(), lr=0.05),
        DataLoader(TensorDataset(pictures[:60], masks[:60].roll(1, 0)), 10, shuffle=True),
        DataLoader(TensorDataset(pictures[60:], masks[60:]), 20),
    )
    assert [finding.fault for finding in report.findings] == ["label_misaligned"]
