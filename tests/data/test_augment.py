"""Augmentation: equal to a slow reference picture by picture, each picture with its own draws."""

import pytest
import torch
from slow_reference import cut_out_slowly, moved_slowly
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from labkit import randomness
from labkit.data import augment
from labkit.data.batches import ImageBatches

SHAPES = [(1, 8, 8), (3, 7, 10), (2, 12, 5)]


def random_draws(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, augment.DRAWS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def random_images(count: int, shape: tuple[int, int, int], dtype: torch.dtype) -> Tensor:
    values = torch.randint(0, 256, (count, *shape), generator=torch.Generator().manual_seed(1))
    return values.to(dtype) if dtype == torch.uint8 else values.to(dtype) / 7 - 20


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("shift", [0, 1, 4])
def test_move_equals_pad_crop_and_flip_of_each_picture(
    shape: tuple[int, int, int], dtype: torch.dtype, flip: bool, shift: int, device: torch.device
) -> None:
    if device.type == "mps" and dtype == torch.float64:
        dtype = torch.float16  # Apple GPUs have no float64
    images, draws = random_images(40, shape, dtype), random_draws(40)
    expected = [moved_slowly(*pair, flip, shift) for pair in zip(images, draws.tolist(), strict=True)]
    moved = augment.move(images.to(device), draws, flip, shift)
    assert moved.dtype == dtype and moved.device.type == device.type
    assert torch.equal(moved.cpu(), torch.stack(expected))


def test_move_takes_the_largest_shift_and_leaves_its_input_alone() -> None:
    images, draws = random_images(30, (1, 6, 4), torch.uint8), random_draws(30)
    before = images.clone()
    expected = torch.stack([moved_slowly(*pair, True, 3) for pair in zip(images, draws.tolist(), strict=True)])
    assert torch.equal(augment.move(images, draws, flip=True, shift=3), expected)
    assert torch.equal(images, before)
    assert torch.equal(augment.move(images, draws), images)


def test_move_takes_pictures_in_any_memory_layout() -> None:
    images, draws = random_images(10, (3, 7, 10), torch.uint8), random_draws(10)
    channels_last = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(augment.move(channels_last, draws, True, 2), augment.move(images, draws, True, 2))


@pytest.mark.parametrize("shift", [1, 3])
def test_every_shift_and_both_directions_are_equally_frequent(shift: int) -> None:
    """Each picture holds the number of its pixel, so that the pixel in its middle tells how it was moved."""
    count, size = 14_000, 9
    images = torch.arange(size * size, dtype=torch.uint8).reshape(1, 1, size, size).expand(count, 1, size, size)
    draws = randomness.uniform(0, "augment", 0, torch.arange(count), augment.DRAWS)
    moved = augment.move(images, draws, flip=True, shift=shift)
    middle = moved[:, 0, size // 2, size // 2].long()
    mirrored = moved[:, 0, size // 2, 1 + size // 2] < moved[:, 0, size // 2, size // 2]
    down, right = middle // size - size // 2, middle % size - size // 2
    choices = 2 * shift + 1
    assert down.abs().max() == shift and right.abs().max() == shift
    which = ((down + shift) * choices + right + shift) * 2 + mirrored
    counts = torch.bincount(which, minlength=2 * choices**2)
    expected = count / (2 * choices**2)
    assert (counts - expected).abs().max() < 5 * expected**0.5


def test_equal_pictures_in_a_batch_come_out_different() -> None:
    images = random_images(1, (3, 8, 8), torch.float32).expand(64, 3, 8, 8)
    moved = augment.move(images, random_draws(64), flip=True, shift=2)
    assert len(torch.unique(moved.flatten(1), dim=0)) > 30  # of 50 possible ones
    holes = augment.cut_out(images, random_draws(64), size=3) == 0
    assert len(torch.unique(holes.flatten(1), dim=0)) > 30  # of 64 possible ones


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 12])
def test_cut_out_equals_a_loop_over_pixels(shape: tuple[int, int, int], size: int, device: torch.device) -> None:
    inputs, draws = random_images(20, shape, torch.float32) + 0.5, random_draws(20)
    expected = [cut_out_slowly(*pair, size) for pair in zip(inputs, draws.tolist(), strict=True)]
    given = inputs.to(device)
    assert torch.equal(augment.cut_out(given, draws, size).cpu(), torch.stack(expected))
    assert torch.equal(given.cpu(), inputs), "the input is left alone"


def test_every_centre_of_the_hole_is_equally_frequent() -> None:
    count, height, width = 12_000, 4, 6
    draws = randomness.uniform(0, "augment", 0, torch.arange(count), augment.DRAWS)
    holes = augment.cut_out(torch.ones(count, 1, height, width), draws, size=1) == 0
    assert (holes.flatten(1).sum(1) == 1).all()
    expected = count / (height * width)
    assert (holes.sum(dim=0) - expected).abs().max() < 5 * expected**0.5


def test_extreme_draws_stay_inside() -> None:
    edges = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    draws = torch.cartesian_prod(*[edges] * augment.DRAWS)
    images = random_images(len(draws), (1, 5, 6), torch.float32) + 0.5
    expected = [moved_slowly(*pair, True, 4) for pair in zip(images, draws.tolist(), strict=True)]
    assert torch.equal(augment.move(images, draws, True, 4), torch.stack(expected))
    expected = [cut_out_slowly(*pair, 3) for pair in zip(images, draws.tolist(), strict=True)]
    assert torch.equal(augment.cut_out(images, draws, 3), torch.stack(expected))


class NoFloat64(TorchDispatchMode):
    """Refuses what an Apple GPU refuses: a float64 tensor that is not on the CPU."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        if isinstance(result, Tensor) and result.device.type != "cpu":
            assert result.dtype != torch.float64, f"{function} made float64 on {result.device}"
        return result


def test_a_batch_is_made_without_float64_outside_the_cpu(noise_set) -> None:
    """The device "meta", which every machine has, stands for an Apple GPU: it knows shapes and dtypes, no values."""
    batches = ImageBatches(noise_set(), seed=0, flip=True, shift=2, cutout=3, statistics=None)
    batches.to(torch.device("meta"))
    with NoFloat64():
        inputs, targets = batches[0, torch.arange(4)]
    assert (inputs.device.type, inputs.dtype, targets.device.type) == ("meta", torch.float32, "meta")
