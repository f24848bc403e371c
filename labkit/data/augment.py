"""Change a whole batch of pictures at once, each picture in its own way.

The draws come in from outside, so everything here is a pure function: same pictures and same draws, same result.
They are float64, which Apple GPUs lack, so they may stay on the CPU: only the whole numbers made from them go to the
device of the pictures.
(The transforms of torchvision, given a batch, draw once and change every picture in the same way.)
"""

import torch
from torch import Tensor

from labkit.devices import send

DRAWS = 5  # random numbers that one picture needs: flip, vertical shift, horizontal shift, cutout row, cutout column


def move(images: Tensor, draws: Tensor, flip: bool = False, shift: int = 0) -> Tensor:
    """Return every picture shifted by up to `shift` pixels each way and, where `flip`, mirrored half of the time.

    images: any dtype (B, C, H, W), draws: float64 (B, DRAWS) in [0, 1). Returns the dtype and shape of `images`.
    What a shift uncovers at the border is filled by reflection. This equals a random crop of the picture after
    reflection padding by `shift`. No pixel is computed, and none is picked alone: a row of the result is a row of the
    picture, or of its mirror image, from some column on. Whole rows are copied, which is several times faster.
    """
    batch, channels, height, width = images.shape
    device = images.device
    down, right = _whole(draws[:, 1], shift), _whole(draws[:, 2], shift)
    wide, wide_width = _widened(images, shift), width + 2 * shift
    if flip:
        mirrored = (draws[:, 0] < 0.5)[:, None]
        right = torch.where(mirrored, -right, right)  # the mirror image moves the other way
        copy = mirrored.to(torch.int64)
        wide = torch.stack([wide, wide.flip(3)])
    else:
        copy = torch.zeros_like(right)
    # Where each row of the result begins, counted in pixels from the first pixel of `wide`.
    plane = (copy * batch + torch.arange(batch)[:, None]) * channels + torch.arange(channels)  # (B, C)
    rows = _reflect(torch.arange(height) + down, height)  # (B, H)
    begins = (plane[:, :, None] * height + rows[:, None, :]) * wide_width + (right + shift)[:, :, None]
    every_row = wide.flatten().unfold(0, width, 1)  # every run of `width` pixels, without a copy
    return every_row.index_select(0, send(begins.flatten(), device)).view(images.shape)


def _widened(images: Tensor, by: int) -> Tensor:
    """Return pictures with `by` more columns at each side, which mirror those inside."""
    width = images.shape[3]
    wide = images.new_empty(*images.shape[:3], width + 2 * by)
    wide[..., by : by + width] = images
    for distance in range(1, by + 1):
        wide[..., by - distance] = images[..., distance]
        wide[..., by + width - 1 + distance] = images[..., width - 1 - distance]
    return wide


def _whole(draw: Tensor, shift: int) -> Tensor:
    """Turn a draw in [0, 1) into a whole number from -shift to shift, as a column: int64 (B, 1)."""
    return (draw * (2 * shift + 1)).floor().to(torch.int64)[:, None] - shift


def _reflect(positions: Tensor, size: int) -> Tensor:
    """Fold positions that lie outside 0..size-1 back in, like a mirror whose edge pixel is not repeated."""
    return (size - 1) - ((size - 1) - positions.abs()).abs()


def cut_out(inputs: Tensor, draws: Tensor, size: int) -> Tensor:
    """Return a copy in which a square of `size` × `size` pixels is 0 in every picture (DeVries and Taylor, 2017).

    inputs: float (B, C, H, W), already normalised, so that 0 is the mean colour; draws: float64 (B, DRAWS). The
    square's centre may be any pixel, so that part of the square can lie outside.
    """
    _, _, height, width = inputs.shape
    inside_rows = send(_inside(draws[:, 3], height, size), inputs.device)
    inside_columns = send(_inside(draws[:, 4], width, size), inputs.device)
    hole = inside_rows[:, None, :, None] & inside_columns[:, None, None, :]
    return inputs.masked_fill(hole, 0.0)


def _inside(draw: Tensor, length: int, size: int) -> Tensor:
    """Mark the positions that lie in the cut-out stretch of each sample: bool (B, length)."""
    centre = (draw * length).floor().to(torch.int64)[:, None]
    first = centre - size // 2
    positions = torch.arange(length, device=draw.device)
    return (positions >= first) & (positions < first + size)
