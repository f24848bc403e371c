"""Augmentation of one picture at a time, written as the definitions say it, to compare the fast one with."""

import math

import torch.nn.functional as F
from torch import Tensor


def moved_slowly(image: Tensor, draws: list[float], flip: bool, shift: int) -> Tensor:
    """Pad one picture by reflection, crop it at a random place, mirror it: how a transform for one picture does it."""
    _, height, width = image.shape
    padded = F.pad(image[None].double(), (shift,) * 4, mode="reflect")[0].to(image.dtype) if shift else image
    top, left = (math.floor(draw * (2 * shift + 1)) for draw in draws[1:3])
    cropped = padded[:, top : top + height, left : left + width]
    return cropped.flip(2) if flip and draws[0] < 0.5 else cropped


def cut_out_slowly(image: Tensor, draws: list[float], size: int) -> Tensor:
    """Set every pixel of one picture to 0 that lies in the square around its random centre."""
    _, height, width = image.shape
    result = image.clone()
    top, left = math.floor(draws[3] * height) - size // 2, math.floor(draws[4] * width) - size // 2
    for row in range(height):
        for column in range(width):
            if 0 <= row - top < size and 0 <= column - left < size:
                result[:, row, column] = 0
    return result
